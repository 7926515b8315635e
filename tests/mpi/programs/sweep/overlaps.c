/* Receive blocks that share bytes. The standard forbids them, and MPIs let them pass: what is in
 * the shared bytes then may be of either block, and all else is as it should be. */
#include <stdlib.h>

#include "sweep.h"

typedef struct Overlaps {
  MPI_Comm comm;
  const char* name;
  int rank, size;
  int *work, *send;
  int *twos, *places, *even; /* each block reaches one int into the next one */
} Overlaps;

static int value(int from, int to, int i) { return (from * 37 + to) * 1009 + i; }

static void clear(const Overlaps* all) {
  for (int i = 0; i < 2 * all->size + 2; ++i) all->work[i] = -1;
}

/* The first int of the first block and the last one of the last, and what is behind. `to`: as which
 * rank's they were sent. */
static void check(const Overlaps* all, int to, const char* call) {
  const int last = all->size - 1;
  if (all->work[0] != value(0, to, 0)) wrong(call, all->name, 0, all->work[0], value(0, to, 0));
  if (all->work[last + 1] != value(last, to, 1))
    wrong(call, all->name, last + 1, all->work[last + 1], value(last, to, 1));
  for (int i = 1; i <= last; ++i) {
    const int got = all->work[i];
    if (got != value(i, to, 0) && got != value(i - 1, to, 1))
      wrong(call, all->name, i, got, value(i, to, 0));
  }
  for (int i = last + 2; i < 2 * all->size + 2; ++i)
    if (all->work[i] != -1) wrong(call, "behind the blocks", i, all->work[i], -1);
}

void sweep_overlaps(MPI_Comm comm, const char* name) {
  Overlaps all = {.comm = comm, .name = name};
  MPI_Comm_rank(comm, &all.rank);
  MPI_Comm_size(comm, &all.size);
  const size_t size = (size_t)all.size;
  all.work = memory((2 * size + 2) * sizeof(int));
  all.send = memory(2 * size * sizeof(int));
  all.twos = memory(size * sizeof(int));
  all.places = memory(size * sizeof(int));
  all.even = memory(size * sizeof(int));
  int *const bytes = memory(size * sizeof(int)), *const even_bytes = memory(size * sizeof(int));
  MPI_Datatype* const types = memory(size * sizeof(MPI_Datatype));
  for (int i = 0; i < all.size; ++i) {
    all.twos[i] = 2;
    all.places[i] = i;
    all.even[i] = 2 * i;
    bytes[i] = i * (int)sizeof(int);
    even_bytes[i] = 2 * i * (int)sizeof(int);
    types[i] = MPI_INT;
    for (int k = 0; k < 2; ++k) all.send[2 * i + k] = value(all.rank, i, k);
  }
  clear(&all);
  MPI_Alltoallv(all.send, all.twos, all.even, MPI_INT, all.work, all.twos, all.places, MPI_INT,
                comm);
  check(&all, all.rank, "MPI_Alltoallv");
  clear(&all);
  MPI_Alltoallw(all.send, all.twos, even_bytes, types, all.work, all.twos, bytes, types, comm);
  check(&all, all.rank, "MPI_Alltoallw");
  MPI_Request request;
  clear(&all);
  MPI_Ialltoallw(all.send, all.twos, even_bytes, types, all.work, all.twos, bytes, types, comm,
                 &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check(&all, all.rank, "MPI_Ialltoallw");
  for (int k = 0; k < 2; ++k) all.send[k] = value(all.rank, 0, k);
  clear(&all);
  MPI_Allgatherv(all.send, 2, MPI_INT, all.work, all.twos, all.places, MPI_INT, comm);
  check(&all, 0, "MPI_Allgatherv");
  clear(&all);
  MPI_Gatherv(all.send, 2, MPI_INT, all.work, all.twos, all.places, MPI_INT, 0, comm);
  if (all.rank == 0) check(&all, 0, "MPI_Gatherv");
  /* Nothing of it is left: blocks that do not share any. */
  clear(&all);
  MPI_Allgatherv(all.send, 2, MPI_INT, all.work, all.twos, all.even, MPI_INT, comm);
  for (int i = 0; i < 2 * all.size; ++i)
    if (all.work[i] != value(i / 2, 0, i % 2))
      wrong("MPI_Allgatherv", "apart again", i, all.work[i], value(i / 2, 0, i % 2));
  free(all.work);
  free(all.send);
  free(all.twos);
  free(all.places);
  free(all.even);
  free(bytes);
  free(even_bytes);
  free(types);
}
