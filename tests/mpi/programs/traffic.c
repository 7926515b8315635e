/* A program whose traffic is known, for the test of the record; its collectives are "blocking",
 * "nonblocking" or "persistent", which are started twice. */
#include <mpi.h>
#include <stddef.h>
#include <string.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#define INIT(name) MPIX_##name##_init
#else
#define INIT(name) MPI_##name##_init
#endif

enum { MOST = 64, LONGEST = 1 << 13 };

/* Each kind of message sends its own power of two of doubles from rank 0: which one is missing
 * shows in the sum. */
static double g_block[LONGEST], g_other[16][LONGEST];

/* All ranks call it; then rank 0 sends. */
static void receive_from_0(int kinds, int rank, int receiver) {
  MPI_Request requests[16];
  for (int kind = 0; rank == receiver && kind < kinds; ++kind)
    MPI_Irecv(g_other[kind], LONGEST, MPI_DOUBLE, 0, kind, MPI_COMM_WORLD, &requests[kind]);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == receiver) MPI_Waitall(kinds, requests, MPI_STATUSES_IGNORE);
}

#define MESSAGE(kind) g_block, 1 << (kind), MPI_DOUBLE, 1, kind, MPI_COMM_WORLD
#define NOTHING MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE
static void messages(int rank) {
  enum { KINDS = 14 };
  static char space[1 << 17];
  MPI_Request requests[8];
  receive_from_0(KINDS, rank, 1);
  if (rank != 0) return;
  MPI_Buffer_attach(space, sizeof space);
  MPI_Send(MESSAGE(0));
  MPI_Bsend(MESSAGE(1));
  MPI_Ssend(MESSAGE(2));
  MPI_Rsend(MESSAGE(3));
  MPI_Isend(MESSAGE(4), &requests[0]);
  MPI_Ibsend(MESSAGE(5), &requests[1]);
  MPI_Issend(MESSAGE(6), &requests[2]);
  MPI_Irsend(MESSAGE(7), &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  MPI_Sendrecv(g_block, 1 << 8, MPI_DOUBLE, 1, 8, NULL, 0, MPI_DOUBLE, NOTHING);
  MPI_Sendrecv_replace(g_block, 1 << 9, MPI_DOUBLE, 1, 9, NOTHING);
  MPI_Send_init(MESSAGE(10), &requests[0]);
  MPI_Bsend_init(MESSAGE(11), &requests[1]);
  MPI_Ssend_init(MESSAGE(12), &requests[2]);
  MPI_Rsend_init(MESSAGE(13), &requests[3]);
  MPI_Start(&requests[0]);
  MPI_Startall(3, &requests[1]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 4; ++i) MPI_Request_free(&requests[i]);
  void* gone = NULL;
  int bytes = 0;
  MPI_Buffer_detach(&gone, &bytes);
  /* To itself: nobody counts that. */
  MPI_Sendrecv(g_block, 1, MPI_DOUBLE, 0, 99, g_other[0], 1, MPI_DOUBLE, 0, 99, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}

/* Starts of one that has not gone yet when it is started again: Open MPI makes another request of
 * it then. */
static void starts_of_one(int rank) {
  enum { STARTS = 3, TAG = 50, GO = 51 };
  static char space[STARTS * (LONGEST * sizeof(double) + MPI_BSEND_OVERHEAD)];
  MPI_Request request;
  if (rank == 0) {
    void* gone = NULL;
    int bytes = 0;
    MPI_Buffer_attach(space, sizeof space);
    MPI_Bsend_init(g_block, LONGEST, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD, &request);
    for (int i = 0; i < STARTS; ++i) {
      MPI_Start(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Send(NULL, 0, MPI_BYTE, 1, GO, MPI_COMM_WORLD);
    MPI_Buffer_detach(&gone, &bytes);
    MPI_Request_free(&request);
  } else if (rank == 1) {
    MPI_Recv(NULL, 0, MPI_BYTE, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < STARTS; ++i)
      MPI_Recv(g_other[0], LONGEST, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

#if MPI_VERSION >= 4
#define LARGE(kind) g_block, (MPI_Count)1 << (kind), MPI_DOUBLE, 2, kind, MPI_COMM_WORLD
static void large_counts(int rank) {
  MPI_Request requests[2];
  MPI_Status statuses[2];
  receive_from_0(5, rank, 2);
  if (rank != 0) return;
  MPI_Send_c(LARGE(0));
  MPI_Isend_c(LARGE(1), &requests[0]);
  MPI_Ssend_init_c(LARGE(2), &requests[1]);
  MPI_Start(&requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Request_free(&requests[1]);
  MPI_Isendrecv(g_block, 1 << 3, MPI_DOUBLE, 2, 3, NULL, 0, MPI_DOUBLE, MPI_PROC_NULL, 0,
                MPI_COMM_WORLD, &requests[0]);
  MPI_Isendrecv_replace(g_block, 1 << 4, MPI_DOUBLE, 2, 4, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                        &requests[1]);
  MPI_Waitall(2, requests, statuses);
}
#else
static void large_counts(int rank) { (void)rank; }
#endif

static const char* g_form = "blocking";
static int g_starts = 2;

#define CALL(name, nonblocking, ...)                    \
  do {                                                  \
    MPI_Request request;                                \
    if (strcmp(g_form, "persistent") == 0) {            \
      INIT(name)(__VA_ARGS__, MPI_INFO_NULL, &request); \
      for (int start = 0; start < g_starts; ++start) {  \
        MPI_Start(&request);                            \
        MPI_Wait(&request, MPI_STATUS_IGNORE);          \
      }                                                 \
      MPI_Request_free(&request);                       \
    } else if (strcmp(g_form, "nonblocking") == 0) {    \
      MPI_##nonblocking(__VA_ARGS__, &request);         \
      MPI_Wait(&request, MPI_STATUS_IGNORE);            \
    } else {                                            \
      MPI_##name(__VA_ARGS__);                          \
    }                                                   \
  } while (0)

/* On four ranks; every call has lengths of its own. */
static void collectives(int rank, int size) {
  static double in[1024], out[1024];
  int counts[MOST], places[MOST], doubled[MOST], bytes[MOST];
  MPI_Datatype types[MOST];
  const MPI_Comm world = MPI_COMM_WORLD;
  for (int i = 0; i < size; ++i) {
    counts[i] = i + 1;
    doubled[i] = 2 * (i + 1);
    places[i] = 16 * i;
    bytes[i] = 16 * i * (int)sizeof(double);
    types[i] = MPI_DOUBLE;
  }
  int mine[MOST], doubled_mine[MOST];
  for (int i = 0; i < size; ++i) {
    mine[i] = rank + 1;
    doubled_mine[i] = 2 * (rank + 1);
  }
  CALL(Barrier, Ibarrier, world);
  CALL(Alltoall, Ialltoall, in, 2, MPI_DOUBLE, out, 2, MPI_DOUBLE, world);
  CALL(Alltoall, Ialltoall, MPI_IN_PLACE, 0, MPI_DOUBLE, out, 1, MPI_DOUBLE, world);
  CALL(Bcast, Ibcast, in, 5, MPI_DOUBLE, 1, world);
  CALL(Gather, Igather, in, 3, MPI_DOUBLE, out, 3, MPI_DOUBLE, 2, world);
#ifndef OPEN_MPI
  g_starts = 1; /* MPICH 4.0.2 fails when it starts a scatter again */
#endif
  CALL(Scatter, Iscatter, in, 4, MPI_DOUBLE, out, 4, MPI_DOUBLE, 0, world);
  g_starts = 2;
  CALL(Allgather, Iallgather, in, 6, MPI_DOUBLE, out, 6, MPI_DOUBLE, world);
  CALL(Allgather, Iallgather, MPI_IN_PLACE, 0, MPI_DOUBLE, out, 1, MPI_DOUBLE, world);
  CALL(Allgatherv, Iallgatherv, in, rank + 1, MPI_DOUBLE, out, counts, places, MPI_DOUBLE, world);
  CALL(Alltoallv, Ialltoallv, in, counts, places, MPI_DOUBLE, out, mine, places, MPI_DOUBLE, world);
  CALL(Alltoallw, Ialltoallw, in, doubled, bytes, types, out, doubled_mine, bytes, types, world);
  CALL(Gatherv, Igatherv, in, rank + 1, MPI_DOUBLE, out, counts, places, MPI_DOUBLE, 3, world);
  CALL(Scatterv, Iscatterv, in, counts, places, MPI_DOUBLE, out, rank + 1, MPI_DOUBLE, 2, world);
  CALL(Reduce, Ireduce, in, out, 7, MPI_DOUBLE, MPI_SUM, 1, world);
  CALL(Allreduce, Iallreduce, in, out, 9, MPI_DOUBLE, MPI_SUM, world);
  CALL(Reduce_scatter, Ireduce_scatter, in, out, counts, MPI_DOUBLE, MPI_SUM, world);
  CALL(Reduce_scatter_block, Ireduce_scatter_block, in, out, 10, MPI_DOUBLE, MPI_SUM, world);
  CALL(Scan, Iscan, in, out, 11, MPI_DOUBLE, MPI_SUM, world);
  CALL(Exscan, Iexscan, in, out, 12, MPI_DOUBLE, MPI_SUM, world);
}

int main(int argc, char** argv) {
  int rank, size;
  double small[2] = {0};
  MPI_Request requests[2];
  MPI_Comm reversed;
  if (argc > 1) g_form = argv[1];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > MOST) MPI_Abort(MPI_COMM_WORLD, 1);

  /* 800 bytes round the ring; the last rank sends to nobody. */
  MPI_Irecv(g_other[0], 100, MPI_DOUBLE, rank == 0 ? MPI_PROC_NULL : rank - 1, 0, MPI_COMM_WORLD,
            &requests[0]);
  MPI_Isend(g_block, 100, MPI_DOUBLE, rank == size - 1 ? MPI_PROC_NULL : rank + 1, 0,
            MPI_COMM_WORLD, &requests[1]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);

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

  if (size == 4) {
    messages(rank);
    starts_of_one(rank);
    large_counts(rank);
    collectives(rank, size);
  }
  MPI_Finalize();
  return 0;
}
