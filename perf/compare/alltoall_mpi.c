/* The MPI contender of compare_mpi: serves orders with MPI_Alltoall. One source for every MPI. */
#include <mpi.h>

#include "contest.h"

struct buffers {
  void* send;
  void* receive;
};

static int call_alltoall(void* context, uint64_t block_bytes) {
  const struct buffers* b = context;
  return MPI_Alltoall(b->send, (int)block_bytes, MPI_BYTE, b->receive, (int)block_bytes, MPI_BYTE,
                      MPI_COMM_WORLD) != MPI_SUCCESS;
}

/* The rank before MPI_Init, which must find the process bound already. */
static int rank_from_environment(void) {
  const char* text = getenv("OMPI_COMM_WORLD_RANK");
  if (text == NULL) text = getenv("PMI_RANK");
  return text != NULL ? atoi(text) : -1;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s CONTEST SEAT (started by compare_mpi)\n", argv[0]);
    return 2;
  }
  struct contest_rank me = {.contest = contest_map(argv[1]), .call = call_alltoall};
  const int early_rank = rank_from_environment(), seat = atoi(argv[2]);
  if (me.contest == NULL || seat < 0 || seat >= CONTEST_SEATS) return 2;
  me.seat = &me.contest->seat[seat];
  if (contest_bind(me.contest, early_rank) != 0) {
    contest_fail(me.seat, "can't bind the ranks");
    return 1;
  }
  int size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const size_t bytes = (size_t)size * me.contest->max_block_bytes;
  const size_t room = (bytes + 4095) / 4096 * 4096 + 4096;
  struct buffers buffers = {aligned_alloc(4096, room), aligned_alloc(4096, room)};
  if (size != me.contest->ranks || buffers.send == NULL || buffers.receive == NULL) {
    contest_fail(me.seat, size != me.contest->ranks ? "started with another number of ranks"
                                                    : "not enough memory for the buffers");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  me.send = buffers.send;
  me.receive = buffers.receive;
  me.context = &buffers;
  const int status = contest_serve(&me);
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return 0;
}
