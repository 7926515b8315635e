/* What the parts of the sweep have in common: it compares collectives with what MPI's standard says
 * they give, computed here without any. */
#ifndef SWEEP_H
#define SWEEP_H

#include <mpi.h>
#include <stddef.h>

/* Says what is wrong and ends the job. */
void wrong(const char* what, const char* where, long at, long got, long expected);

/* Memory, or the end. */
void* memory(size_t bytes);

/* All collectives that move data, with every pair of layouts; `name`: of the communicator. */
void sweep_moves(MPI_Comm comm, const char* name);
/* Those with blocks of unequal lengths, of which each rank has one array for both sides. */
void sweep_one_array(MPI_Comm comm, const char* name);
/* Receive blocks that share bytes. */
void sweep_overlaps(MPI_Comm comm, const char* name);
/* Places below the buffer, values with an index, PMPI_ names, large counts. */
void sweep_forms(MPI_Comm comm, const char* name);
/* All that combine it, with every type and operator, or with a few types. */
void sweep_reductions(MPI_Comm comm, const char* name, int thorough);

/* By operators of the program's own, and predefined ones on types of Fortran's. */
void sweep_operators(MPI_Comm comm, const char* name);
/* In the order of a binomial tree over the ranks: by an operator that does not commute, and, where
 * `all_are`, by MPI_SUM. */
void ordered_sums(int all_are);
/* One after the other, each with a datatype: memory must not grow. */
void many_operators(void);

/* All collectives of datatypes that lie in strides. */
void sweep_strides(MPI_Comm comm, const char* name);
/* Neighbour collectives on topologies of these ranks. */
void sweep_neighbors(MPI_Comm comm);
/* One after the other, each with a neighbour collective: memory must not grow. */
void many_topologies(void);

/* Messages and nonblocking collectives across blocking ones: hangs where a rank that waits in one
 * does not move the others on. */
void messages_across_collectives(void);
/* Several at a time, on several communicators, completed by all functions, beside messages. */
void requests(void);
/* Each rank waits in another function while the others need its part in a nonblocking collective:
 * hangs where that does not go on meanwhile. */
void waits(void);
/* Files' own nonblocking collectives, which are waited for at other times on each rank. */
void files(void);
/* One call of 1000 bytes, and nine of none. */
void some_without_bytes(void);
/* Thousands under way, again and again. */
void many_requests(void);
/* Communicators whose first collective is a nonblocking one. */
void first_requests(void);
/* Requests whose ranks did not agree on the call. */
void ended_requests(void);
/* What can't be made on one rank is an error on the others, too. */
void one_rank_fails(void);
/* The last call of all fails on one rank. */
void fails_last(void);
/* Error handlers leave by longjmp; by the number of what was wrong. */
void handlers_leave(int mistake);
/* Behind an error of lengths, by number, the communicator is the MPI's, and all is right. */
void goes_on(int number);
/* An error, and calls that some ranks may end before they hear of it, before MPI_Finalize. */
void error_at_the_end(void);
/* What the MPI says of arguments on one rank, and calls that go on. */
void aliases(void);
/* An operator is freed in an error handler. */
void freed_in_handlers(void);
/* The MPI's own errors while collectives are under way. */
void errors_meanwhile(void);
/* Of a message and of a call. */
void errors_together(void);
/* Of calls whose communicators the program has freed. */
void freed_before_errors(void);
/* Nonblocking and persistent collectives until somebody ends it. */
void endless_requests(void);
/* What can't be right is reported by the MPI, to the communicator's error handler. */
void errors(void);
/* Communicators after others whose ranks did not agree on a call. */
void ended_communicators(void);
/* Of one collective, by number; ends the job with status 7. */
void own_lengths(int number);
/* A broadcast of one element that is so long. */
void long_elements(long mebibytes);
/* One after the other, made of others: memory must not grow. */
void many_datatypes(void);
/* Calls, and more of them with MPI_Finalize when main has come back. */
void calls_at_exit(void);
/* Calls of known sizes, which the engine and the MPI may share. */
void calls_of_sizes(void);
/* Each kind of call so often, which have to give the same bits each time. */
void sampled_calls(int calls);
/* Prints what stands for the bits of all reductions that are the same whoever computes them. */
void bits_of_exact_reductions(void);
/* Some functions with the same sizes, persistent. */
void persistent_calls_of_sizes(void);
/* Private buffers that come again are collapsed to huge pages, or not. */
void collapsed_buffers(int collapses);
/* Memory of MPI_Alloc_mem: the engine's, or not. What it gives back is not freed, and must be as it
 * was when MPI_Finalize has come back. */
const int* allocated_memory(int engines);
void check_allocated(const int* kept, int rank, int size);
/* Memory of MPI_Alloc_mem in a process that forks. */
void forked_memory(void);
/* Two threads, each with a communicator of its own; nothing where the MPI has no such threads. */
void threads(void);

#endif
