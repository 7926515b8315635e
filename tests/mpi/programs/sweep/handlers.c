/* Error handlers that do not come back, and what goes on behind errors. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "called.h"
#include "sweep.h"

static jmp_buf g_back;
static int g_left;
static void leave(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  ++g_left;
  longjmp(g_back, 1);
}

/* What the engine and the MPI do on a communicator is right. */
static void check_sums(MPI_Comm comm, const char* where, int number) {
  int rank = 0, size = 0, sum = -1;
  MPI_Request request;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const int expected = size * (size - 1) / 2;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
  if (sum != expected) wrong("MPI_Allreduce", where, number, sum, expected);
  sum = -1;
  MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (sum != expected) wrong("MPI_Iallreduce", where, number, sum, expected);
}

/* The wrong thing, by number: on all ranks, or on rank 0 where it alone hears of it. */
enum { LENGTHS, ROOT, UNDER_WAY, MESSAGE, WAITED, MISTAKES };
static int make(int mistake, MPI_Comm comm, int* in, int* out) {
  int rank = 0, size = 0, flag = 0;
  MPI_Request request, other;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  switch (mistake) {
    case LENGTHS: /* the block of each rank's own has two */
      return MPI_Alltoall(in, 2, MPI_INT, out, 1, MPI_INT, comm);
    case ROOT: /* the MPI says so */
      return rank == 0 ? MPI_Bcast(in, 1, MPI_INT, size, comm) : MPI_SUCCESS;
    case UNDER_WAY: /* the last rank's length differs, and all hear of it in the end */
      MPI_Iallgather(in, rank == size - 1 ? 2 : 1, MPI_INT, out, rank == size - 1 ? 2 : 1, MPI_INT,
                     comm, &request);
      return MPI_Wait(&request, MPI_STATUS_IGNORE);
    case MESSAGE: /* longer than its receiver has room for */
    default:
      MPI_Irecv(out, rank == 0 ? 1 : 2, MPI_INT, (rank + 1) % size, 4, comm, &other);
      MPI_Iallreduce(in, out + 2, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
      MPI_Send(in, 2, MPI_INT, (rank + size - 1) % size, 4, comm);
      while (mistake == WAITED && !flag) MPI_Test(&other, &flag, MPI_STATUS_IGNORE);
      return MPI_Wait(&other, MPI_STATUS_IGNORE);
  }
}

void handlers_leave(int mistake) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int *const in = memory(4096), *const out = memory(4096);
  MPI_Errhandler leaves;
  MPI_Comm_create_errhandler(leave, &leaves);
  check_sums(MPI_COMM_WORLD, "before", mistake);
  /* Behind what ends the engine's job the MPI may let pass what is wrong. */
  for (int round = 0; round < (mistake == UNDER_WAY ? 1 : 3); ++round) {
    /* Not freed: with it a call under way would be, too. */
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Barrier(comm);
    MPI_Barrier(MPI_COMM_WORLD); /* the others have it, too */
    MPI_Comm_set_errhandler(comm, leaves);
    const int before = g_left;
    /* MPICH tells that one's handler of messages. */
    if (mistake >= MESSAGE) MPI_Comm_set_errhandler(MPI_COMM_WORLD, leaves);
    if (setjmp(g_back) == 0) make(mistake, comm, in, out);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    const int expected = before + (rank == 0 || mistake == LENGTHS || mistake == UNDER_WAY);
    if (g_left != expected) wrong("handler", "calls", mistake, g_left, expected);
    check_sums(comm, "the same communicator", mistake);
    check_sums(MPI_COMM_WORLD, "behind a handler", mistake);
  }
  MPI_Errhandler_free(&leaves);
  free(in);
  free(out);
}

/* Errors are ended by a length; what comes behind is right on all ranks, in the MPI. */
static int mismatched(int number, int* in, int* out, MPI_Comm comm) {
  int rank = 0, size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Request request;
  int code = MPI_SUCCESS;
  switch (number) {
    case 0: /* the root may have ended it well */
      return MPI_Bcast(in, rank == 0 ? 1 : 10, MPI_INT, 0, comm);
    case 1:
      return MPI_Gather(in, 10, MPI_INT, out, rank == 0 ? 1 : 10, MPI_INT, 0, comm);
    case 2:
      return MPI_Alltoall(in, rank == 0 ? 2 : 1, MPI_INT, out, 1, MPI_INT, comm);
    case 3:
      return MPI_Allreduce(in, out, rank == 0 ? 1 : 10, MPI_INT, MPI_SUM, comm);
    default:
      code = MPI_Iallgather(in, rank == 0 ? 2 : 1, MPI_INT, out, rank == 0 ? 2 : 1, MPI_INT, comm,
                            &request);
      return code != MPI_SUCCESS ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

void goes_on(int number) {
  int rank = 0, size = 0, sum = 0;
  MPI_Comm other;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int *const in = memory(4096), *const out = memory(4096);
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  check_sums(MPI_COMM_WORLD, "before", number);
  check_sums(other, "before", number);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int code = mismatched(number, in, out, MPI_COMM_WORLD);
  MPI_Allreduce(&code, &sum, 1, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
  /* As MPICH's own tests do: errors are no longer expected. */
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  check_sums(MPI_COMM_WORLD, "behind an error", number);
  sum = 0;
  const int failed = code != MPI_SUCCESS;
  MPI_Allreduce(&failed, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (sum == 0) wrong("a call", "errors", number, sum, 1);
  MPI_Request persistent;
  PREPARED(Allreduce)(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &persistent);
  MPI_Start(&persistent);
  MPI_Wait(&persistent, MPI_STATUS_IGNORE);
  MPI_Request_free(&persistent);
  if (sum != size * (size - 1) / 2) wrong("MPI_Allreduce_init", "behind", number, sum, 0);
  check_sums(other, "elsewhere", number);
  MPI_Comm_free(&other);
  free(in);
  free(out);
}

/* One rank makes more calls than the others before it hears of an error, and ends. */
void error_at_the_end(void) {
  int rank = 0;
  int *const in = memory(4096), *const out = memory(4096);
  MPI_Comm other;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  check_sums(MPI_COMM_WORLD, "before", 0);
  MPI_Barrier(other); /* the others have it, too */
  MPI_Comm_free(&other);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  mismatched(2, in, out, MPI_COMM_WORLD);
  for (int i = 0; i < 3; ++i) MPI_Bcast(in, 1, MPI_INT, 0, MPI_COMM_WORLD);
  free(in);
  free(out);
}

static int g_reports;
/* Whether the MPI says that buffers are the same on both sides, in this call. */
static void check_alias(const char* what, int reported, int code) {
  if ((code != MPI_SUCCESS) != reported) wrong(what, "one buffer for both", 0, code, reported);
}

/* Open MPI reports it in two functions, MPICH in all. */
void aliases(void) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
#ifndef OPEN_MPI
  g_reports = 1;
#endif
  const int root = rank == 0;
  int *const buffer = memory((size_t)size * sizeof(int)), *const out =
                                                              memory((size_t)size * sizeof(int));
  int *const ones = memory((size_t)size * sizeof(int)), *const places =
                                                            memory((size_t)size * sizeof(int));
  MPI_Datatype* const types = memory((size_t)size * sizeof(MPI_Datatype));
  MPI_Comm comm = MPI_COMM_WORLD;
  for (int i = 0; i < size; ++i) {
    ones[i] = 1;
    places[i] = i;
    types[i] = MPI_INT;
    buffer[i] = rank;
  }
  MPI_Barrier(comm);
  int* const own = buffer + rank;
  check_alias("MPI_Allgather", g_reports, MPI_Allgather(own, 1, MPI_INT, buffer, 1, MPI_INT, comm));
  check_alias("MPI_Allgatherv", g_reports,
              MPI_Allgatherv(own, 1, MPI_INT, buffer, ones, places, MPI_INT, comm));
  check_alias("MPI_Alltoall", g_reports,
              MPI_Alltoall(buffer, 1, MPI_INT, buffer, 1, MPI_INT, comm));
  check_alias("MPI_Alltoallv", g_reports,
              MPI_Alltoallv(buffer, ones, places, MPI_INT, buffer, ones, places, MPI_INT, comm));
  /* Elsewhere the engine says so itself, as where other elements overlap that lie in strides. */
  if (g_reports)
    check_alias("MPI_Alltoallw", 1,
                MPI_Alltoallw(buffer, ones, places, types, buffer, ones, places, types, comm));
  check_alias("MPI_Scan", g_reports, MPI_Scan(buffer, buffer, 1, MPI_INT, MPI_SUM, comm));
  check_alias("MPI_Exscan", g_reports, MPI_Exscan(buffer, buffer, 1, MPI_INT, MPI_SUM, comm));
  check_alias("MPI_Allreduce", 1, MPI_Allreduce(buffer, buffer, 2, MPI_INT, MPI_SUM, comm));
  check_alias("MPI_Reduce_scatter", g_reports,
              MPI_Reduce_scatter(buffer, buffer, ones, MPI_INT, MPI_SUM, comm));
  check_alias("MPI_Reduce_scatter_block", g_reports,
              MPI_Reduce_scatter_block(buffer, buffer, 1, MPI_INT, MPI_SUM, comm));
  /* The root alone hears of these: it makes the right call for the others, which are in it. */
  for (int i = 0; i < size; ++i) buffer[i] = rank;
  int code = MPI_Reduce(buffer, root ? buffer : NULL, 1, MPI_INT, MPI_SUM, 0, comm);
  check_alias("MPI_Reduce", root, code);
  if (root) MPI_Reduce(buffer, out, 1, MPI_INT, MPI_SUM, 0, comm);
  if (root && out[0] != size * (size - 1) / 2) wrong("MPI_Reduce", "again", 0, out[0], size);
  buffer[0] = rank;
  code = MPI_Gather(buffer, 1, MPI_INT, buffer, 1, MPI_INT, 0, comm);
  check_alias("MPI_Gather", root && g_reports, code);
  if (code != MPI_SUCCESS) MPI_Gather(buffer, 1, MPI_INT, out, 1, MPI_INT, 0, comm);
  for (int i = 0; root && i < size; ++i)
    if ((g_reports ? out : buffer)[i] != i) wrong("MPI_Gather", "again", i, out[i], i);
  code = MPI_Scatter(buffer, 1, MPI_INT, root ? buffer : out, 1, MPI_INT, 0, comm);
  check_alias("MPI_Scatter", root && g_reports, code);
  if (code != MPI_SUCCESS) MPI_Scatter(buffer, 1, MPI_INT, out, 1, MPI_INT, 0, comm);
  /* In place as it should be; and what is not there. */
  for (int i = 0; i < size; ++i) buffer[i] = i == rank ? rank : -1;
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer, 1, MPI_INT, comm);
  for (int i = 0; i < size; ++i)
    if (buffer[i] != i) wrong("MPI_Allgather", "in place", i, buffer[i], i);
  if (g_reports) {
    int class = 0;
    MPI_Error_class(MPI_Bcast(NULL, 4, MPI_INT, 0, comm), &class);
    if (class != MPI_ERR_BUFFER) wrong("MPI_Bcast", "no buffer", 0, class, MPI_ERR_BUFFER);
    MPI_Error_class(MPI_Allreduce(NULL, out, 1, MPI_INT, MPI_SUM, comm), &class);
    if (class != MPI_ERR_BUFFER) wrong("MPI_Allreduce", "no buffer", 0, class, MPI_ERR_BUFFER);
    MPI_Error_class(MPI_Alltoall(buffer, 1, MPI_INT, NULL, 1, MPI_INT, comm), &class);
    if (class != MPI_ERR_BUFFER) wrong("MPI_Alltoall", "no buffer", 0, class, MPI_ERR_BUFFER);
  }
  check_sums(comm, "behind what is refused", 0);
  free(buffer);
  free(out);
  free(ones);
  free(places);
  free(types);
}
