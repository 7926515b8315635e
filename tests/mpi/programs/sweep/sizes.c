/* Calls of known sizes, which the engine and the MPI may share. */
#include "called.h"
#include "sweep.h"

enum { BLOCK_SIZES = 4, MOST_INTS = 4096, MOST_RANKS = 16 };

static const int counts[BLOCK_SIZES] = {1, 16, 1024, 4096};

static void check(const int* got, int count, int expected, const char* what) {
  for (int i = 0; i < count; ++i)
    if (got[i] != expected) wrong(what, "sizes", i, got[i], expected);
}

/* Of each size one call of each function, blocking and nonblocking: 4, 64, 4096 and 16384 bytes a
 * block or vector. */
void calls_of_sizes(void) {
  static int in[MOST_INTS * MOST_RANKS], out[MOST_INTS * MOST_RANKS], other[MOST_INTS];
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > MOST_RANKS) wrong("sizes", "ranks", 0, size, MOST_RANKS);
  for (int i = 0; i < BLOCK_SIZES; ++i) {
    const int count = counts[i];
    MPI_Request requests[2];
    for (int at = 0; at < count * size; ++at) in[at] = rank + 1;
    MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD);
    for (int from = 0; from < size; ++from)
      check(out + from * count, count, from + 1, "MPI_Alltoall");
    MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(out, count, size * (size + 1) / 2, "MPI_Allreduce");
    for (int at = 0; at < count; ++at) other[at] = rank == size - 1 ? count : 0;
    MPI_Bcast(other, count, MPI_INT, size - 1, MPI_COMM_WORLD);
    check(other, count, count, "MPI_Bcast");
    MPI_Reduce_scatter_block(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(out, count, size * (size + 1) / 2, "MPI_Reduce_scatter_block");
    /* Both under way at a time, whoever carries each out. */
    MPI_Ialltoall(in, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallreduce(in, other, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int from = 0; from < size; ++from)
      check(out + from * count, count, from + 1, "MPI_Ialltoall");
    check(other, count, size * (size + 1) / 2, "MPI_Iallreduce");
  }
}

/* Allgather, gather and scatter of blocks of `count`, persistent, each started three times. */
static void start_again(int count, int rank, int size) {
  static int mine[MOST_INTS], all[MOST_INTS * MOST_RANKS];
  const int root = size - 1;
  MPI_Request requests[3];
  static int gathered[MOST_INTS * MOST_RANKS], scattered[MOST_INTS];
  static int to_scatter[MOST_INTS * MOST_RANKS];
  PREPARED(Allgather)
  (mine, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
  PREPARED(Gather)
  (mine, count, MPI_INT, gathered, count, MPI_INT, root, MPI_COMM_WORLD, MPI_INFO_NULL,
   &requests[1]);
  PREPARED(Scatter)
  (to_scatter, count, MPI_INT, scattered, count, MPI_INT, root, MPI_COMM_WORLD, MPI_INFO_NULL,
   &requests[2]);
  for (int turn = 1; turn <= 3; ++turn) {
    for (int at = 0; at < count; ++at) mine[at] = turn * (rank + 1);
    for (int at = 0; at < count * size; ++at) to_scatter[at] = turn * (at / count + 1);
    MPI_Startall(3, requests);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    for (int from = 0; from < size; ++from) {
      check(all + from * count, count, turn * (from + 1), "a persistent allgather");
      if (rank == root)
        check(gathered + from * count, count, turn * (from + 1), "a persistent gather");
    }
    check(scattered, count, turn * (rank + 1), "a persistent scatter");
  }
  for (int i = 0; i < 3; ++i) MPI_Request_free(&requests[i]);
}

void persistent_calls_of_sizes(void) {
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > MOST_RANKS) wrong("sizes", "ranks", 0, size, MOST_RANKS);
  for (int i = 0; i < BLOCK_SIZES; ++i) start_again(counts[i], rank, size);
}
