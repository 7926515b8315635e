/* What goes on around collectives: messages, errors, threads. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "called.h"
#include "sweep.h"

enum { LONGEST = 1 << 22 };

static void check_bytes(const unsigned char* got, int bytes, int seed, const char* what) {
  for (int i = 0; i<bytes; i += bytes> 100 ? bytes / 100 : 1)
    if (got[i] != (unsigned char)(seed + i))
      wrong(what, "bytes", i, got[i], (unsigned char)(seed + i));
}

/* The call that both sides make, by number: some hold all ranks up, some only a few. */
static void collective(int number, int rank, int size) {
  static int in[4096], out[4096], all[4096 * 16];
  int count = number % 2 == 0 ? 1 : 4096;
  (void)rank;
  if (size > 16) count = 1;
  switch (number % 5) {
    case 0:
      MPI_Barrier(MPI_COMM_WORLD);
      break;
    case 1:
      MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case 2:
      MPI_Bcast(in, count, MPI_INT, 0, MPI_COMM_WORLD);
      break;
    case 3:
      MPI_Gather(in, count, MPI_INT, all, count, MPI_INT, 0, MPI_COMM_WORLD);
      break;
    default:
      MPI_Allgather(in, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD);
      break;
  }
}

void messages_across_collectives(void) {
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  unsigned char* mine = memory(LONGEST);
  unsigned char* theirs = memory(LONGEST);
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  int number = 0;
  for (int bytes = 1; bytes <= LONGEST; bytes *= 32) {
    for (int i = 0; i < bytes; ++i) mine[i] = (unsigned char)(rank + i);
    for (int calls = 0; calls < 5; ++calls, ++number) {
      MPI_Request request;
      /* The sender waits in the collective, the receiver comes to it only with the message. */
      if (rank == 0) {
        MPI_Isend(mine, bytes, MPI_BYTE, size - 1, 1, MPI_COMM_WORLD, &request);
        collective(number, rank, size);
        if (size == 1) MPI_Recv(theirs, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      } else {
        if (rank == size - 1) {
          MPI_Recv(theirs, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
          check_bytes(theirs, bytes, 0, "before a collective");
        }
        collective(number, rank, size);
      }
      /* The receiver waits in the collective, the sender comes to it only when it is rid of it. */
      if (rank == 0) {
        if (size > 1) MPI_Ssend(mine, bytes, MPI_BYTE, size - 1, 2, MPI_COMM_WORLD);
        collective(number, rank, size);
      } else if (rank == size - 1) {
        MPI_Irecv(theirs, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &request);
        collective(number, rank, size);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        check_bytes(theirs, bytes, 0, "across a collective");
      } else {
        collective(number, rank, size);
      }
      /* Right behind it, around the ring: who has come out of the collective waits in the MPI. */
      collective(number, rank, size);
      if (rank == 0 && size > 1) {
        MPI_Send(mine, bytes, MPI_BYTE, next, 3, MPI_COMM_WORLD);
        MPI_Recv(theirs, bytes, MPI_BYTE, previous, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      } else if (size > 1) {
        MPI_Recv(theirs, bytes, MPI_BYTE, previous, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(mine, bytes, MPI_BYTE, next, 3, MPI_COMM_WORLD);
      }
      if (size > 1) check_bytes(theirs, bytes, previous, "behind a collective");
      /* A nonblocking collective that is under way meanwhile. */
      int sum = 0;
      MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
      if (rank % 2 == 0) collective(number, rank, size);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      if (rank % 2 != 0) collective(number, rank, size);
      if (sum != size * (size - 1) / 2) wrong("MPI_Iallreduce", "sum", number, sum, 0);
    }
  }
  free(mine);
  free(theirs);
}

static void expect_class(int code, int expected, const char* what) {
  int is = MPI_SUCCESS;
  MPI_Error_class(code, &is);
  if (is != expected) wrong(what, "error class", 0, is, expected);
}

void errors(void) {
  int size = 0, in[4] = {1, 2, 3, 4}, out[4];
  MPI_Comm other;
  /* While errors on MPI_COMM_WORLD still end the job. */
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN);
  expect_class(MPI_Bcast(in, 4, (MPI_Datatype)0, 0, other), MPI_ERR_TYPE, "what is no type");
  MPI_Comm_free(&other);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  expect_class(MPI_Allreduce(in, out, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_COUNT,
               "a negative count");
  expect_class(MPI_Bcast(in, 4, MPI_INT, size, MPI_COMM_WORLD), MPI_ERR_ROOT, "a root too high");
  expect_class(MPI_Bcast(in, 4, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "no type");
  expect_class(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM, "no communicator");
  expect_class(MPI_Allreduce(in, out, 4, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD), MPI_ERR_OP,
               "no operator");
  expect_class(MPI_Allreduce(in, out, 4, MPI_DOUBLE, MPI_BXOR, MPI_COMM_WORLD), MPI_ERR_OP,
               "an operator that doubles do not have");
  MPI_Request request;
  expect_class(MPI_Iallreduce(in, out, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request),
               MPI_ERR_COUNT, "a negative count, nonblocking");
  expect_class(MPI_Ibcast(in, 4, MPI_INT, size, MPI_COMM_WORLD, &request), MPI_ERR_ROOT,
               "a root too high, nonblocking");
  expect_class(PREPARED(Bcast)(in, 4, MPI_INT, size, MPI_COMM_WORLD, MPI_INFO_NULL, &request),
               MPI_ERR_ROOT, "a root too high, persistent");
  MPI_Datatype pairs;
  MPI_Type_contiguous(2, MPI_INT, &pairs);
  expect_class(MPI_Bcast(in, 2, pairs, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "no committed type");
  MPI_Type_commit(&pairs);
  expect_class(MPI_Bcast(in, 2, pairs, 0, MPI_COMM_WORLD), MPI_SUCCESS, "a committed type");
  MPI_Type_free(&pairs);
  if (MPI_Allreduce(in, out, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS ||
      out[3] != 4 * size)
    wrong("MPI_Allreduce", "after errors", 0, out[3], 4 * size);
}

void ended_communicators(void) {
  enum { ROUNDS = 5 };
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char mine[8] = {0};
  char* const all = memory((size_t)size * sizeof mine);
  for (int round = 0; round < ROUNDS; ++round) {
    MPI_Comm comm;
    int sum = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    const int code = MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (code != MPI_SUCCESS || sum != size * (size - 1) / 2)
      wrong("MPI_Allreduce", "behind one that failed", round, sum, size * (size - 1) / 2);
    /* The last rank has other lengths: with that the engine's job is over. */
    const int bytes = rank == size - 1 ? 4 : 8;
    if (round == 0 && MPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm) == 0)
      wrong("MPI_Allgather", "other lengths", bytes, 0, MPI_ERR_TRUNCATE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&comm);
  }
  free(all);
}

/* A rank's own block has one length where it is sent and another where it is received. */
void own_lengths(int number) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int odd = rank == size - 1 ? 2 : 1, root = size - 1;
  int* const in = memory((size_t)size * 8 * sizeof(int));
  int* const out = memory((size_t)size * 8 * sizeof(int));
  int *const sent = memory((size_t)size * sizeof(int)), *const got =
                                                            memory((size_t)size * sizeof(int));
  int* const places = memory((size_t)size * sizeof(int));
  for (int i = 0; i < size; ++i) {
    sent[i] = got[i] = 1;
    places[i] = 2 * i;
  }
  sent[rank] = odd;
  int code = MPI_SUCCESS;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  switch (number) {
    case 0:
      code = MPI_Alltoall(in, odd, MPI_INT, out, 1, MPI_INT, MPI_COMM_WORLD);
      break;
    case 1:
      code = MPI_Alltoallv(in, sent, places, MPI_INT, out, got, places, MPI_INT, MPI_COMM_WORLD);
      break;
    case 2:
      code = MPI_Allgather(in, odd, MPI_INT, out, 1, MPI_INT, MPI_COMM_WORLD);
      break;
    case 3:
      code = MPI_Allgatherv(in, odd, MPI_INT, out, got, places, MPI_INT, MPI_COMM_WORLD);
      break;
    case 4:
      code = MPI_Gather(in, odd, MPI_INT, out, 1, MPI_INT, root, MPI_COMM_WORLD);
      break;
    case 5:
      code = MPI_Gatherv(in, odd, MPI_INT, out, got, places, MPI_INT, root, MPI_COMM_WORLD);
      break;
    case 6:
      code = MPI_Scatter(in, 1, MPI_INT, out, odd, MPI_INT, root, MPI_COMM_WORLD);
      break;
    default:
      code = MPI_Scatterv(in, got, places, MPI_INT, out, odd, MPI_INT, root, MPI_COMM_WORLD);
      break;
  }
  /* The others may wait for it: it ends the job, as by default it is ended. */
  if (rank == root) {
    expect_class(code, MPI_ERR_TRUNCATE, "two lengths");
    printf("well done\n");
    fflush(stdout);
    usleep(300000); /* a launcher may lose what was just said */
    MPI_Abort(MPI_COMM_WORLD, 7);
  }
  for (;;) MPI_Barrier(MPI_COMM_WORLD);
}

void many_datatypes(void) {
  enum { ROUNDS = 3000, MEASURED = 1000, ALLOWED = 64 << 10 };
  size_t before = 0;
  for (int round = 0; round < ROUNDS; ++round) {
    int ints[4] = {round, round, round, round};
    MPI_Datatype one, two, three;
    MPI_Type_contiguous(2, MPI_INT, &one);
    MPI_Type_contiguous(2, one, &two);
    MPI_Type_dup(two, &three);
    MPI_Type_commit(&three);
    MPI_Type_free(&one);
    MPI_Type_free(&two);
    MPI_Bcast(ints, 1, three, 0, MPI_COMM_WORLD);
    if (ints[3] != round) wrong("MPI_Bcast", "many datatypes", round, ints[3], round);
    MPI_Type_free(&three);
    if (round == MEASURED) before = mallinfo2().uordblks;
  }
  const size_t now = mallinfo2().uordblks;
  if (now > before + ALLOWED) wrong("memory", "datatypes", ROUNDS, (long)now, (long)before);
}

static void several_calls(void) {
  enum { ROUNDS = 20 };
  int size = 0, rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int *const counts = memory((size_t)size * sizeof(int)), *const places =
                                                              memory((size_t)size * sizeof(int));
  int *const in = memory((size_t)size * sizeof(int)), *const out =
                                                          memory((size_t)size * sizeof(int));
  for (int round = 0; round < ROUNDS; ++round) {
    for (int i = 0; i < size; ++i) {
      counts[i] = 1;
      places[i] = i;
      in[i] = rank * 100 + i + round;
    }
    MPI_Alltoallv(in, counts, places, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; ++i)
      if (out[i] != i * 100 + rank + round)
        wrong("MPI_Alltoallv", "at exit", i, out[i], i * 100 + rank + round);
    MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    const int sum = size * (size - 1) / 2 * 100 + size * (rank + round);
    if (out[0] != sum) wrong("MPI_Reduce_scatter", "at exit", round, out[0], sum);
  }
  free(counts);
  free(places);
  free(in);
  free(out);
}

static void end(void) {
  int rank = 0;
  several_calls();
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Finalize();
  if (rank == 0) printf("well done\n");
}

void calls_at_exit(void) {
  several_calls();
  atexit(end);
}

/* An element whose data are so many MiB, in pieces. */
void long_elements(long mebibytes) {
  const size_t pieces = (size_t)mebibytes << 10, length = 1024, apart = 1536;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Datatype type;
  MPI_Type_vector((int)pieces, (int)length, (int)apart, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  const size_t bytes = pieces * apart, step = 511;
  unsigned char* const all = memory(bytes);
  for (size_t at = 0; at < bytes; at += step) all[at] = rank == 0 ? (unsigned char)(at / 3) : 7;
  MPI_Bcast(all, 1, type, 0, MPI_COMM_WORLD);
  for (size_t at = 0; at < bytes; at += step) {
    const int moved = rank == 0 || at % apart < length;
    const unsigned char expected = moved ? (unsigned char)(at / 3) : 7;
    if (all[at] != expected) wrong("MPI_Bcast", "long elements", (long)at, all[at], expected);
  }
  free(all);
  MPI_Type_free(&type);
}

enum { THREADS = 3, NEW_TYPES = 200 };
/* Datatypes that several threads use for the first time at once. */
static MPI_Datatype g_new_types[NEW_TYPES];
static pthread_barrier_t g_together;

static void complete_one(MPI_Request* request) {
  int index = -1;
  MPI_Waitany(1, request, &index, MPI_STATUS_IGNORE);
  if (index != 0) wrong("MPI_Waitany", "threads", 0, index, 0);
}

static void* own_sums(void* argument) {
  MPI_Comm comm = *(MPI_Comm*)argument;
  int size = 0;
  MPI_Comm_size(comm, &size);
  long persistent_in = 0, persistent_out = 0;
  MPI_Request persistent;
  for (int round = 0; round < 500; ++round) {
    long mine[3] = {1, round, 2}, all[3];
    MPI_Allreduce(mine, all, 3, MPI_LONG, MPI_SUM, comm);
    if (all[1] != (long)size * round) wrong("MPI_Allreduce", "threads", round, all[1], 0);
    MPI_Bcast(all, 3, MPI_LONG, round % size, comm);
    /* Messages between the start and the end. */
    int rank = 0, sent = round, received = -1;
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    if (round == 0) PREPARED(Allreduce)
    (&persistent_in, &persistent_out, 1, MPI_LONG, MPI_SUM, comm, MPI_INFO_NULL, &persistent);
    persistent_in = round + rank;
    MPI_Iallreduce(mine, all, 3, MPI_LONG, MPI_SUM, comm, &request);
    MPI_Start(&persistent);
    if (round % 2 == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&sent, 1, MPI_INT, (rank + 1) % size, 4, &received, 1, MPI_INT,
                 (rank + size - 1) % size, 4, comm, MPI_STATUS_IGNORE);
    if (round % 2 != 0) complete_one(&request);
    complete_one(&persistent);
    if (received != round) wrong("MPI_Sendrecv", "threads", round, received, round);
    if (all[1] != (long)size * round) wrong("MPI_Iallreduce", "threads", round, all[1], 0);
    if (persistent_out != (long)size * round + (long)size * (size - 1) / 2)
      wrong("MPI_Allreduce_init", "threads", round, persistent_out, 0);
  }
  MPI_Request_free(&persistent);
  /* Communicators that come and go with calls under way. */
  for (int round = 0; round < 40; ++round) {
    MPI_Comm other;
    MPI_Request request;
    MPI_Comm_dup(comm, &other);
    if (round % 2 != 0) MPI_Barrier(other);
    MPI_Ibarrier(other, &request);
    MPI_Comm_free(&other);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  for (int round = 0; round < NEW_TYPES; ++round) {
    int ints[16] = {0};
    pthread_barrier_wait(&g_together);
    MPI_Bcast(ints, 1, g_new_types[round], 0, comm);
  }
  return NULL;
}

void threads(void) {
  pthread_barrier_init(&g_together, NULL, THREADS);
  for (int i = 0; i < NEW_TYPES; ++i) {
    MPI_Type_vector(4, 1, 2, MPI_INT, &g_new_types[i]);
    MPI_Type_commit(&g_new_types[i]);
  }
  MPI_Comm comms[THREADS];
  pthread_t running[THREADS];
  for (int i = 0; i < THREADS; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  for (int i = 0; i < THREADS; ++i) pthread_create(&running[i], NULL, own_sums, &comms[i]);
  for (int i = 0; i < THREADS; ++i) pthread_join(running[i], NULL);
  for (int i = 0; i < THREADS; ++i) MPI_Comm_free(&comms[i]);
  for (int i = 0; i < NEW_TYPES; ++i) MPI_Type_free(&g_new_types[i]);
}
