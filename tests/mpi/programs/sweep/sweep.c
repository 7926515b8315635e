/* An MPI program that knows nothing of ibcoll, for the tests of libibcoll_mpi.so:
 *   sweep all           every collective on several communicators, against their serial results
 *   sweep messages      messages across collectives
 *   sweep requests      nonblocking and persistent calls among others
 *   sweep waits         other functions that block between their start and their end
 *   sweep files         nonblocking collectives of files
 *   sweep bytes         calls of which most move nothing
 *   sweep many          thousands of them at a time, again and again: memory must not grow
 *   sweep requests_ended  what those get whose call has failed
 *   sweep one_rank_fails  what all ranks get where a call can't be made on one
 *   sweep fails_last    the same of the last call before MPI_Finalize
 *   sweep handlers N    error handlers that leave by longjmp, of mistake N
 *   sweep goes_on N     what follows error N of lengths
 *   sweep error_at_the_end  calls behind an error, and MPI_Finalize
 *   sweep aliases       one buffer for both sides, and none
 *   sweep first         nonblocking calls before any other
 *   sweep forked        memory of MPI_Alloc_mem in a child
 *   sweep freed_in_handlers  operators that error handlers free
 *   sweep errors_meanwhile  what the MPI has to complain of while calls are under way
 *   sweep errors_together  what is given where a message fails, too
 *   sweep freed_before_errors  whom errors are told on a communicator that was freed
 *   sweep errors        what the MPI has to complain of
 *   sweep communicators many, one after the other: memory must not grow
 *   sweep ordered ALL   sums in the order of ranks; ALL: 1 where predefined ones are, too
 *   sweep operators     many, one after the other: memory must not grow
 *   sweep topologies    many, one after the other: memory must not grow
 *   sweep strides       datatypes in strides, and neighbour collectives, alone
 *   sweep ended         communicators after others that an error has ended
 *   sweep lengths N     lengths that do not fit on one rank, of collective N
 *   sweep long MIB      one element of so many MiB that are not contiguous
 *   sweep datatypes     many, one after the other: memory must not grow
 *   sweep allocated E   memory of MPI_Alloc_mem, which is the engine's where E is 1
 *   sweep collapse C    private buffers that come again, and are collapsed where C is 1
 *   sweep sizes         calls of known sizes
 *   sweep persistent_sizes  the same with persistent ones
 *   sweep sampled N     N of each kind on the same data, which give the same bits
 *   sweep exact         reductions that are exact; prints what stands for their bits
 *   sweep exit          calls when main has come back
 *   sweep threads       several threads at a time
 *   sweep endless       collectives until somebody ends it
 *   sweep endless_requests  the same with nonblocking ones
 * Ends with "well done" from rank 0. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "called.h"
#include "sweep.h"

void wrong(const char* what, const char* where, long at, long got, long expected) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fprintf(stderr, "rank %d: %s, %s: at %ld there is %ld instead of %ld\n", rank, what, where, at,
          got, expected);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

void* memory(size_t bytes) {
  void* const got = calloc(bytes == 0 ? 1 : bytes, 1);
  if (got == NULL) wrong("calloc", "memory", (long)bytes, 0, 1);
  return got;
}

static void sweep(MPI_Comm comm, const char* name) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  /* Persistent collectives of one rank stay with the MPI, and MPICH's own (4.0.2) fail. */
  for (g_form = BLOCKING; g_form < (size == 1 ? PERSISTENT : FORMS); ++g_form) {
    sweep_moves(comm, name);
    sweep_reductions(comm, name, comm == MPI_COMM_WORLD && g_form == BLOCKING);
  }
  g_form = BLOCKING;
  sweep_one_array(comm, name);
  sweep_overlaps(comm, name);
  sweep_forms(comm, name);
  sweep_operators(comm, name);
}

static void sweep_all(void) {
  int rank = 0, size = 1;
  MPI_Comm comm;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  sweep(MPI_COMM_WORLD, "world");
  sweep_strides(MPI_COMM_WORLD, "world");
  sweep_neighbors(MPI_COMM_WORLD);
  sweep(MPI_COMM_SELF, "self");
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  sweep(comm, "duplicate");
  MPI_Comm_free(&comm);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
  sweep(comm, "reversed");
  sweep_neighbors(comm);
  MPI_Comm_free(&comm);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &comm);
  sweep(comm, "every other rank");
  MPI_Comm_free(&comm);
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &comm);
  if (comm != MPI_COMM_NULL) {
    sweep_reductions(comm, "without rank 0", 0);
    MPI_Comm_free(&comm);
  }
  if (size < 2) return;
  /* Between groups: ranks that are even and odd. */
  MPI_Comm half, inter;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &inter);
  const int mine = rank + 1;
  int sum = 0, expected = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter);
  for (int other = 1 - rank % 2; other < size; other += 2) expected += other + 1;
  if (sum != expected) wrong("MPI_Allreduce", "intercommunicator", 0, sum, expected);
  MPI_Barrier(inter);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

static void many_communicators(void) {
  enum { ROUNDS = 600, MEASURED = 200, BEHIND = 400, ALLOWED = 8 << 10 };
  size_t before = 0, halfway = 0;
  int size = 0, sum = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int round = 0; round < ROUNDS; ++round) {
    MPI_Comm one, other;
    const int mine = 1;
    MPI_Comm_dup(MPI_COMM_WORLD, &one);
    MPI_Comm_split(one, 0, 0, &other);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, other);
    if (sum != size) wrong("MPI_Allreduce", "many communicators", round, sum, size);
    MPI_Barrier(one);
    MPI_Comm_free(&one);
    MPI_Comm_free(&other);
    if (round == MEASURED) before = mallinfo2().uordblks;
    if (round == BEHIND) halfway = mallinfo2().uordblks;
  }
  /* The MPI may take some now and then, but what each communicator left would show in both. */
  const size_t now = mallinfo2().uordblks;
  if (halfway > before + ALLOWED && now > halfway + ALLOWED)
    wrong("memory", "communicators", ROUNDS, (long)now, (long)before);
}

static void endless(void) {
  double in[100] = {0}, out[100];
  for (;;) MPI_Allreduce(in, out, 100, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  const char* part = argc > 1 ? argv[1] : "all";
  const int* kept = NULL;
  int rank = 0, size = 1, provided = 0, flag = 0;
  MPI_Initialized(&flag);
  if (flag) return 4;
  if (strcmp(part, "threads") == 0)
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  else
    MPI_Init(&argc, &argv);
  if (strcmp(part, "all") == 0) sweep_all();
  if (strcmp(part, "messages") == 0) messages_across_collectives();
  if (strcmp(part, "requests") == 0) requests();
  if (strcmp(part, "waits") == 0) waits();
  if (strcmp(part, "files") == 0) files();
  if (strcmp(part, "bytes") == 0) some_without_bytes();
  if (strcmp(part, "many") == 0) many_requests();
  if (strcmp(part, "requests_ended") == 0) ended_requests();
  if (strcmp(part, "one_rank_fails") == 0) one_rank_fails();
  if (strcmp(part, "fails_last") == 0) fails_last();
  if (strcmp(part, "handlers") == 0) handlers_leave(argc > 2 ? atoi(argv[2]) : 0);
  if (strcmp(part, "goes_on") == 0) goes_on(argc > 2 ? atoi(argv[2]) : 0);
  if (strcmp(part, "error_at_the_end") == 0) error_at_the_end();
  if (strcmp(part, "aliases") == 0) aliases();
  if (strcmp(part, "first") == 0) first_requests();
  if (strcmp(part, "forked") == 0) forked_memory();
  if (strcmp(part, "freed_in_handlers") == 0) freed_in_handlers();
  if (strcmp(part, "errors_meanwhile") == 0) errors_meanwhile();
  if (strcmp(part, "errors_together") == 0) errors_together();
  if (strcmp(part, "freed_before_errors") == 0) freed_before_errors();
  if (strcmp(part, "endless_requests") == 0) endless_requests();
  if (strcmp(part, "errors") == 0) errors();
  if (strcmp(part, "ordered") == 0) ordered_sums(argc > 2 && atoi(argv[2]) != 0);
  if (strcmp(part, "operators") == 0) many_operators();
  if (strcmp(part, "topologies") == 0) many_topologies();
  if (strcmp(part, "strides") == 0) {
    sweep_strides(MPI_COMM_WORLD, "world");
    sweep_neighbors(MPI_COMM_WORLD);
  }
  if (strcmp(part, "ended") == 0) ended_communicators();
  if (strcmp(part, "lengths") == 0) own_lengths(argc > 2 ? atoi(argv[2]) : 0);
  if (strcmp(part, "long") == 0) long_elements(argc > 2 ? atol(argv[2]) : 1);
  if (strcmp(part, "datatypes") == 0) many_datatypes();
  if (strcmp(part, "allocated") == 0) kept = allocated_memory(argc > 2 ? atoi(argv[2]) : 1);
  if (strcmp(part, "collapse") == 0) collapsed_buffers(argc > 2 ? atoi(argv[2]) : 1);
  if (strcmp(part, "sizes") == 0) calls_of_sizes();
  if (strcmp(part, "sampled") == 0) sampled_calls(argc > 2 ? atoi(argv[2]) : 1000);
  if (strcmp(part, "exact") == 0) bits_of_exact_reductions();
  if (strcmp(part, "persistent_sizes") == 0) persistent_calls_of_sizes();
  if (strcmp(part, "communicators") == 0) many_communicators();
  if (strcmp(part, "threads") == 0 && provided == MPI_THREAD_MULTIPLE) threads();
  if (strcmp(part, "endless") == 0) endless();
  if (strcmp(part, "exit") == 0) {
    calls_at_exit();
    return 0;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Finalize();
  if (kept != NULL) check_allocated(kept, rank, size);
  if (rank == 0) printf("well done\n");
  return 0;
}
