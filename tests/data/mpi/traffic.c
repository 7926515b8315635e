/* A program whose traffic is known, for the test of the recorder. */
#include <mpi.h>
#include <stddef.h>

int main(int argc, char** argv) {
  int rank, size;
  double block[100] = {0}, other[100], small[2] = {0}, all[2 * 64];
  MPI_Request requests[2];
  MPI_Comm reversed;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > 64) MPI_Abort(MPI_COMM_WORLD, 1);

  /* 800 bytes round the ring; the last rank sends to nobody. */
  MPI_Irecv(other, 100, MPI_DOUBLE, rank == 0 ? MPI_PROC_NULL : rank - 1, 0, MPI_COMM_WORLD,
            &requests[0]);
  MPI_Isend(block, 100, MPI_DOUBLE, rank == size - 1 ? MPI_PROC_NULL : rank + 1, 0, MPI_COMM_WORLD,
            &requests[1]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);

  /* 16 bytes a pair, then 40 from rank 1 to all. */
  MPI_Alltoall(all, 2, MPI_DOUBLE, other, 2, MPI_DOUBLE, MPI_COMM_WORLD);
  MPI_Bcast(block, 5, MPI_DOUBLE, 1, MPI_COMM_WORLD);

  /* 3 times 8 bytes from the last rank to the first, through a communicator in reversed order. */
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &reversed);
  if (rank == size - 1) {
    MPI_Send_init(small, 1, MPI_DOUBLE, size - 1, 0, reversed, &requests[0]);
    for (int i = 0; i < 3; ++i) {
      MPI_Start(&requests[0]);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&requests[0]);
  } else if (rank == 0) {
    for (int i = 0; i < 3; ++i) MPI_Recv(small, 1, MPI_DOUBLE, 0, 0, reversed, MPI_STATUS_IGNORE);
  }
  MPI_Comm_free(&reversed);
  MPI_Finalize();
  return 0;
}
