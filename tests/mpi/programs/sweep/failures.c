/* Calls that can't be made on one rank: the others get an error, too, and what follows is right or
 * an error. */
#include <stdlib.h>
#include <string.h>

#include "called.h"
#include "sweep.h"

enum { WORDS = 1 << 12 };

/* What can't be right of the last rank's call. */
enum { TWO_LENGTHS, OVERLAPPING, NEIGHBOURS, MISTAKES };

static void expect_error(int code, const char* what, int number) {
  if (code == MPI_SUCCESS) wrong(what, "an error on one rank", number, code, MPI_ERR_OTHER);
}

static int finished(int code, MPI_Request* request) {
  return code != MPI_SUCCESS ? code : MPI_Wait(request, MPI_STATUS_IGNORE);
}

static int started(int code, MPI_Request* request) {
  if (code == MPI_SUCCESS) code = MPI_Start(request);
  return finished(code, request);
}

/* Code of a call, the first that is not MPI_SUCCESS. */
static int call(int form, int mistake, int is_wrong, int* in, int* out, int size, MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (mistake == TWO_LENGTHS) {
    const int sent = WORDS / size, received = is_wrong ? sent - 1 : sent;
    if (form == BLOCKING) return MPI_Alltoall(in, sent, MPI_INT, out, received, MPI_INT, comm);
    if (form == NONBLOCKING)
      return finished(MPI_Ialltoall(in, sent, MPI_INT, out, received, MPI_INT, comm, &request),
                      &request);
    return started(PREPARED(Alltoall)(in, sent, MPI_INT, out, received, MPI_INT, comm,
                                      MPI_INFO_NULL, &request),
                   &request);
  }
  if (mistake == NEIGHBOURS) {
    const int sent = WORDS / 4, received = is_wrong ? sent - 1 : sent;
    if (form == BLOCKING)
      return MPI_Neighbor_alltoall(in, sent, MPI_INT, out, received, MPI_INT, comm);
    if (form == NONBLOCKING)
      return finished(
          MPI_Ineighbor_alltoall(in, sent, MPI_INT, out, received, MPI_INT, comm, &request),
          &request);
    return started(PREPARED(Neighbor_alltoall)(in, sent, MPI_INT, out, received, MPI_INT, comm,
                                               MPI_INFO_NULL, &request),
                   &request);
  }
  int* const to = is_wrong ? in + 1 : out;
  const int count = WORDS - 1;
  if (form == BLOCKING) return MPI_Allreduce(in, to, count, MPI_INT, MPI_SUM, comm);
  if (form == NONBLOCKING)
    return finished(MPI_Iallreduce(in, to, count, MPI_INT, MPI_SUM, comm, &request), &request);
  return started(
      PREPARED(Allreduce)(in, to, count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request),
      &request);
}

void one_rank_fails(void) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int *const in = memory(WORDS * sizeof(int)), *const out = memory(WORDS * sizeof(int));
  for (int number = 0; number < FORMS * MISTAKES; ++number) {
    MPI_Comm comm;
    int sum = 0;
    const int periodic = 0, form = number % FORMS, mistake = number / FORMS;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    /* The first one is the MPI's otherwise. */
    if (mistake == NEIGHBOURS && form == NONBLOCKING)
      call(BLOCKING, mistake, 0, in, out, size, comm);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (sum != size * (size - 1) / 2) wrong("MPI_Allreduce", "before", number, sum, 0);
    MPI_Barrier(MPI_COMM_WORLD); /* the others have it, too */
    const int code = call(form, mistake, rank == size - 1, in, out, size, comm);
    /* Ranks that are no neighbours of its may have what they need. */
    if (mistake != NEIGHBOURS || rank >= size - 2)
      expect_error(code, "a call that the last rank can't make", number);
    /* What follows on the communicator is no call for what came before. */
    in[0] = rank == 0 ? number : -1;
    if (MPI_Bcast(in, WORDS, MPI_INT, 0, comm) == MPI_SUCCESS && in[0] != number)
      wrong("MPI_Bcast", "behind an error", number, in[0], number);
    (void)call(BLOCKING, NEIGHBOURS, 0, in, out, size, comm);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size * (size - 1) / 2) wrong("MPI_Allreduce", "elsewhere", number, sum, 0);
    MPI_Comm_free(&comm);
  }
  free(in);
  free(out);
}

/* Errors of the MPI's while a collective is under way that the last rank comes to later. */
void errors_meanwhile(void) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int *const in = memory(WORDS * sizeof(int)), *const out = memory(WORDS * sizeof(int));
  MPI_Request request;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != size - 1) MPI_Iallreduce(in, out, WORDS, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  if (rank == 0) {
    int sent = 0, received = -1;
    expect_error(MPI_Sendrecv(&sent, 1, MPI_INT, size + 3, 1, &received, 1, MPI_INT, size - 1, 77,
                              MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                 "MPI_Sendrecv", 0);
    expect_error(MPI_Waitall(2, NULL, MPI_STATUSES_IGNORE), "MPI_Waitall", 0);
    MPI_Ssend(&sent, 1, MPI_INT, size - 1, 78, MPI_COMM_WORLD);
  }
  if (rank == size - 1) {
    int received = -1;
    MPI_Recv(&received, 1, MPI_INT, 0, 78, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Iallreduce(in, out, WORDS, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  /* No receive of before is left to take this. */
  int late = rank;
  if (rank == size - 1) MPI_Send(&late, 1, MPI_INT, 0, 77, MPI_COMM_WORLD);
  if (rank == 0) MPI_Recv(&late, 1, MPI_INT, size - 1, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 0 && late != size - 1) wrong("MPI_Recv", "behind an error", 0, late, size - 1);
  free(in);
  free(out);
}

/* The last call fails on one rank: the others hear of it while they wait for MPI_Finalize. */
void fails_last(void) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int *const in = memory(WORDS * sizeof(int)), *const out = memory(WORDS * sizeof(int));
  MPI_Barrier(MPI_COMM_WORLD);
  expect_error(call(BLOCKING, TWO_LENGTHS, rank == 0, in, out, size, MPI_COMM_WORLD),
               "MPI_Alltoall", 0);
  free(in);
  free(out);
}

static MPI_Op g_sum;
static void add(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) ((int*)inout)[i] += ((int*)in)[i];
}
/* Of two the second one. */
static void take_last(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)in;
  (void)inout;
  (void)count;
  (void)type;
}
static void free_sum(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  if (g_sum != MPI_OP_NULL) MPI_Op_free(&g_sum);
}

/* An error handler frees an operator, and the MPI may give its handle to another one. */
void freed_in_handlers(void) {
  int rank = 0, size = 0, sum = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int *const in = memory(WORDS * sizeof(int)), *const out = memory(WORDS * sizeof(int));
  MPI_Comm comm;
  MPI_Errhandler frees;
  MPI_Op last;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_create_errhandler(free_sum, &frees);
  MPI_Comm_set_errhandler(comm, frees);
  MPI_Op_create(add, 1, &g_sum);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, g_sum, MPI_COMM_WORLD);
  MPI_Barrier(comm);
  expect_error(call(BLOCKING, TWO_LENGTHS, 1, in, out, size, comm), "MPI_Alltoall", 0);
  MPI_Op_create(take_last, 0, &last);
  for (int round = 0; round < 20; ++round)
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, last, MPI_COMM_WORLD);
  if (sum != size - 1) wrong("MPI_Allreduce", "behind a handler", 0, sum, size - 1);
  MPI_Op_free(&last);
  MPI_Errhandler_free(&frees);
  MPI_Comm_free(&comm);
  free(in);
  free(out);
}

static void expect_truncated(int code, const char* what) {
  int is = MPI_SUCCESS;
  MPI_Error_class(code, &is);
  if (is != MPI_ERR_TRUNCATE) wrong(what, "error class", 0, is, MPI_ERR_TRUNCATE);
}

/* No rank goes on before all are here. The engine has no part in it. */
static void meet_by_messages(void) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int round = 0; round < 2; ++round) {
    for (int other = 1; other < size; ++other) {
      if (rank != 0 && rank != other) continue;
      if ((rank == 0) == (round == 0))
        MPI_Recv(NULL, 0, MPI_BYTE, rank == 0 ? other : 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      else
        MPI_Send(NULL, 0, MPI_BYTE, rank == 0 ? other : 0, 6, MPI_COMM_WORLD);
    }
  }
}

/* A persistent call and a message fail in one MPI_Waitall; the engine's job is over then. */
void errors_together(void) {
  int rank = 0, size = 0, flag = 0, code = MPI_SUCCESS;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char mine[8] = {0}, *const all = memory((size_t)size * sizeof mine);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  /* The communicator's group is there on all ranks before two of them end the job. */
  MPI_Barrier(comm);
  meet_by_messages();
  const int bytes = rank == size - 1 ? 4 : 8;
  MPI_Request requests[2];
  MPI_Status statuses[2];
  PREPARED(Allgather)
  (mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm, MPI_INFO_NULL, &requests[1]);
  MPI_Start(&requests[1]);
  while (!flag) code = MPI_Request_get_status(requests[1], &flag, MPI_STATUS_IGNORE);
  expect_truncated(code, "MPI_Request_get_status");
  MPI_Irecv(mine, 1, MPI_BYTE, rank, 3, MPI_COMM_WORLD, &requests[0]);
  MPI_Send(all, 8, MPI_BYTE, rank, 3, MPI_COMM_WORLD);
  code = MPI_Waitall(2, requests, statuses);
  if (code != MPI_ERR_IN_STATUS) wrong("MPI_Waitall", "two errors", 0, code, MPI_ERR_IN_STATUS);
  expect_truncated(statuses[1].MPI_ERROR, "the call");
#ifndef OPEN_MPI /* which says nothing of messages to oneself */
  expect_truncated(statuses[0].MPI_ERROR, "the message");
#endif
  /* It is not active any more. */
  code = MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) wrong("MPI_Wait", "behind an error", 0, code, MPI_SUCCESS);
  MPI_Request_free(&requests[1]);
  free(all);
}

static int g_handled;
static void count_error(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  ++g_handled;
}

/* The program has freed the communicator of a call before that fails. */
void freed_before_errors(void) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char mine[8] = {0}, *const all = memory((size_t)size * sizeof mine);
  MPI_Comm comm;
  MPI_Errhandler counts;
  MPI_Request request;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_create_errhandler(count_error, &counts);
  MPI_Comm_set_errhandler(comm, counts);
  MPI_Errhandler_free(&counts);
  MPI_Barrier(comm);
  MPI_Barrier(MPI_COMM_WORLD);
  const int bytes = rank == size - 1 ? 4 : 8;
  if (rank != 0) MPI_Recv(NULL, 0, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Iallgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm, &request);
  MPI_Comm_free(&comm);
  for (int to = 1; rank == 0 && to < size; ++to) MPI_Send(NULL, 0, MPI_BYTE, to, 5, MPI_COMM_WORLD);
  if (MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS || g_handled != 1)
    wrong("MPI_Wait", "errors handled", 0, g_handled, 1);
  free(all);
}
