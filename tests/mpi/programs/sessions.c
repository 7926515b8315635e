/* A program that has sessions alone: no MPI_Init, no MPI_COMM_WORLD. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "wrong: %s\n", what);
  exit(1);
}

static MPI_Comm communicator_of(MPI_Session session, const char* set, int first, int last) {
  MPI_Group all, some;
  MPI_Comm comm = MPI_COMM_NULL;
  int range[1][3] = {{first, last, 1}};
  check(MPI_Group_from_session_pset(session, set, &all) == MPI_SUCCESS, "the process set");
  int size = 0;
  MPI_Group_size(all, &size);
  if (last < 0) range[0][1] = size + last;
  MPI_Group_range_incl(all, 1, range, &some);
  int rank = 0;
  MPI_Group_rank(some, &rank);
  if (rank != MPI_UNDEFINED)
    check(MPI_Comm_create_from_group(some, "test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm) ==
              MPI_SUCCESS,
          "a communicator of a group");
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  return comm;
}

static void compute(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return;
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  for (int i = 0; i < 10; ++i) {
    int sum = 0;
    const int mine = rank + i;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    check(sum == size * (size - 1) / 2 + size * i, "MPI_Allreduce");
    int value = rank == i % size ? 1000 + i : 0;
    MPI_Bcast(&value, 1, MPI_INT, i % size, comm);
    check(value == 1000 + i, "MPI_Bcast");
    int* const all = malloc((size_t)size * sizeof *all);
    MPI_Request request;
    MPI_Iallgather(&rank, 1, MPI_INT, all, 1, MPI_INT, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int from = 0; from < size; ++from) check(all[from] == from, "MPI_Iallgather");
    free(all);
  }
}

static void work(int with_some) {
  MPI_Session session;
  check(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session) == MPI_SUCCESS,
        "MPI_Session_init");
  MPI_Comm before = with_some ? communicator_of(session, "mpi://WORLD", 0, -2) : MPI_COMM_NULL;
  compute(before);
  MPI_Comm all = communicator_of(session, "mpi://WORLD", 0, -1);
  compute(all);
  MPI_Comm after;
  int rank;
  MPI_Comm_rank(all, &rank);
  MPI_Comm_split(all, rank % 2, -rank, &after);
  compute(after);
  compute(before);
  MPI_Comm_free(&after);
  MPI_Comm_free(&all);
  if (before != MPI_COMM_NULL) MPI_Comm_free(&before);
  check(MPI_Session_finalize(&session) == MPI_SUCCESS, "MPI_Session_finalize");
}

int main(int count, char** arguments) {
  /* What not every MPI can do: a communicator of some processes before that of all; to begin again.
   */
  const int can_all = count > 1 && strcmp(arguments[1], "all") == 0;
  work(can_all);
  if (can_all) work(can_all);
  puts("well done");
  return 0;
}
