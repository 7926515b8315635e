/* The engine inside an MPI program, whose processes become its job: MPI_Allgather is all that it
 * takes. Compares an alltoall of the engine with MPI's.
 * mpicc hosted_in_mpi.c $(pkg-config --cflags --libs ibcoll) -o hosted && mpirun -n 4 ./hosted */
#include <ibcoll/ibcoll.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096 }; /* bytes for each rank */

#define CHECK(call)                                 \
  do {                                              \
    if ((call) != IBCOLL_OK) {                      \
      fprintf(stderr, "%s\n", ibcoll_last_error()); \
      MPI_Abort(MPI_COMM_WORLD, 1);                 \
    }                                               \
  } while (0)

static int allgather(void* host, const void* mine, size_t bytes, void* all) {
  MPI_Comm* communicator = host;
  return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, *communicator);
}

/* One alltoall by each; gives how many bytes differ. */
static int compare(ibcoll_context* context, MPI_Comm communicator) {
  const int me = ibcoll_rank(context), ranks = ibcoll_size(context);
  const size_t bytes = (size_t)ranks * BLOCK;
  unsigned char *send, *recv;
  unsigned char* expected = malloc(bytes);
  CHECK(ibcoll_alloc(context, bytes, (void**)&send));
  CHECK(ibcoll_alloc(context, bytes, (void**)&recv));
  for (size_t i = 0; i < bytes; ++i) send[i] = (unsigned char)(31 * me + i / BLOCK + 7 * i);
  memset(recv, 0, bytes);

  CHECK(ibcoll_alltoall(ibcoll_world(context), send, recv, BLOCK, NULL));
  MPI_Alltoall(send, BLOCK, MPI_BYTE, expected, BLOCK, MPI_BYTE, communicator);

  int wrong = 0;
  for (size_t i = 0; i < bytes; ++i) wrong += recv[i] != expected[i];
  CHECK(ibcoll_free(context, send));
  CHECK(ibcoll_free(context, recv));
  free(expected);
  return wrong;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm communicator; /* the engine's: what it says is never mistaken for the program's */
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);

  ibcoll_bootstrap host = {0};
  host.struct_size = sizeof host;
  MPI_Comm_rank(communicator, &host.rank);
  MPI_Comm_size(communicator, &host.size);
  host.host = &communicator;
  host.allgather = allgather;
  ibcoll_context* context;
  CHECK(ibcoll_init_with(&host, &context));

  int wrong = compare(context, communicator), all_wrong = 0;
  MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, communicator);
  if (host.rank == 0)
    printf("%d ranks on %d servers: %s\n", host.size, ibcoll_servers(context),
           all_wrong ? "wrong" : "as MPI has it");

  CHECK(ibcoll_finalize(context));
  MPI_Comm_free(&communicator);
  MPI_Finalize();
  return all_wrong != 0;
}
