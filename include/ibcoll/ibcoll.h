/** @file
 * ibcoll: collective communication written straight on InfiniBand verbs and shared memory.
 *
 * C interface. Every function returns a status; ibcoll_last_error() has the line that explains the
 * last one that was not IBCOLL_OK. Sizes, counts and displacements are in bytes, and the counts of
 * reductions in elements. Ranks are numbered from 0.
 *
 * ibcoll_last_error_scope() says what is over with an error. A call: nothing else is. A group: all
 * its ranks get that error, in calls under way and in later ones, until they free it; other groups
 * go on. The job: every later call on every rank gives the same error, naming the same culprit.
 * IBCOLL_ERR_CANCELLED and the IBCOLL_ERR_DEADLINE of a call's own deadline end a group, and so
 * does, unless UCX joins the job's servers, the IBCOLL_ERR_PEER_FAILED of a rank that died: the
 * groups that it was in. A multicast's request ends alone, with any of these: the errors are the
 * master's, who asks ibcoll_multicast_missing() for the ranks that may lack the message. So it does
 * with IBCOLL_ERR_NO_MEMORY where a member has no memory for the message, or the message is longer
 * than the limit there (IBCOLL_MULTICAST_MEMORY); one longer than the master's own is refused with
 * it, and nothing is sent. IBCOLL_ERR_BUSY is the call's alone: nothing was sent. All other
 * IBCOLL_ERR_PEER_FAILED, _MISMATCH, the _DEADLINE of IBCOLL_DEADLINE, and _NO_MEMORY of a call,
 * also when it is prepared, end the job.
 *
 * Ranks that disagree on a call may have ended it well before anybody can see that: each of two
 * that take themselves for the root of a broadcast waits for nobody. Then a later call gives the
 * IBCOLL_ERR_MISMATCH, at the latest ibcoll_finalize(), and on all ranks; also where the group of
 * the call, or its set, has been freed.
 *
 * A handle that is NULL, was freed, or whose job has ended is refused (IBCOLL_ERR_INVALID;
 * functions that give a number give -1). An address that never was a handle is not told from one.
 *
 * Structs begin with `struct_size`, their size where the program was compiled. A shorter one, of an
 * older version, is taken as if the members that it lacks were zero; a longer one is refused
 * (IBCOLL_ERR_INVALID, naming the size) if what is not known of it is not zero. Values that an enum
 * does not have are refused by their number.
 *
 * Threads: calls on one context must be serialised, and one that finds another one inside is
 * refused, unless the level is IBCOLL_THREAD_MULTIPLE (ibcoll_set_thread_level). Then threads may
 * call at any time, and none holds the others up while it waits; but a group makes its calls in the
 * same order on all ranks, so threads that share one must agree on who calls when, and a second
 * blocking call on it at the same time is refused, as is a second thread for a request that one
 * waits for. Different contexts have nothing to do with each other. Fork: a child process must not
 * use its parent's context; calls there are refused.
 */
#ifndef IBCOLL_IBCOLL_H
#define IBCOLL_IBCOLL_H

#include <stddef.h>
#include <stdint.h>

#include "ibcoll/blocks.h"
#include "ibcoll/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup basics Handles, errors, versions, threads
 * What all of the interface has in common.
 * @{ */

/** @def IBCOLL_API
 * Stands before each function that the library exports. */
#if defined(_WIN32) || !defined(__GNUC__)
#define IBCOLL_API
#else
#define IBCOLL_API __attribute__((visibility("default")))
#endif

/** Of the headers that the program is compiled with; before 1.0 a minor version may change the
 * interface. */
#define IBCOLL_VERSION_MAJOR 0
/** See IBCOLL_VERSION_MAJOR. */
#define IBCOLL_VERSION_MINOR 9
/** See IBCOLL_VERSION_MAJOR. */
#define IBCOLL_VERSION_PATCH 0

/** What became of what was asked for. */
typedef enum ibcoll_status {
  IBCOLL_OK = 0,              /**< all went well */
  IBCOLL_ERR_INVALID = 1,     /**< an argument can't be right */
  IBCOLL_ERR_MISMATCH = 2,    /**< ranks disagree on the call, its algorithm or a count */
  IBCOLL_ERR_NO_MEMORY = 3,   /**< memory, or a limit on it, has run out */
  IBCOLL_ERR_UNSUPPORTED = 4, /**< this machine, device or build can't do it */
  IBCOLL_ERR_PEER_FAILED = 5, /**< a rank died or gave up */
  IBCOLL_ERR_DEADLINE = 6,    /**< a wait reached the deadline that was set (IBCOLL_DEADLINE) */
  IBCOLL_ERR_SYSTEM = 7,      /**< a system call or device failed */
  IBCOLL_ERR_PROGRAM = 8,     /**< a schedule is not valid */
  IBCOLL_ERR_INTERNAL = 9,    /**< an error of the library's own */
  IBCOLL_ERR_CANCELLED = 10, /**< a rank has ended the group (ibcoll_cancel, ibcoll_group_cancel) */
  IBCOLL_ERR_BUSY = 11 /**< as much as is allowed is under way: try again (ibcoll_multicast) */
} ibcoll_status;

/** How far an error reaches. */
typedef enum ibcoll_scope {
  IBCOLL_SCOPE_NONE = 0,  /**< there was no error */
  IBCOLL_SCOPE_CALL = 1,  /**< nothing but what was asked for */
  IBCOLL_SCOPE_GROUP = 2, /**< all calls of the group, on all its ranks; other groups go on */
  IBCOLL_SCOPE_JOB = 3    /**< everything */
} ibcoll_scope;

/** What threads of a process may do with one context. */
typedef enum ibcoll_thread_level {
  IBCOLL_THREAD_SERIALIZED = 1, /**< any thread may call, one at a time */
  IBCOLL_THREAD_MULTIPLE = 2    /**< any thread may call at any time */
} ibcoll_thread_level;

typedef struct ibcoll_context ibcoll_context; /**< one rank's membership in a job */
typedef struct ibcoll_group ibcoll_group;     /**< a set of ranks that makes collective calls */
typedef struct ibcoll_request ibcoll_request; /**< a call of ibcoll_call_init */
typedef struct ibcoll_memory ibcoll_memory;   /**< registered memory */
typedef struct ibcoll_graph ibcoll_graph;     /**< who sends to whom in neighbour collectives */

/** The line that explains the last error of the calling thread; "" if there was none. */
IBCOLL_API const char* ibcoll_last_error(void);
/** What is over with that error; IBCOLL_SCOPE_NONE if there was none. */
IBCOLL_API ibcoll_scope ibcoll_last_error_scope(void);
/** A status as a few words; for a number that is none, that number (valid until the thread asks for
 * the next one). */
IBCOLL_API const char* ibcoll_status_text(ibcoll_status status);
/** Version of the library that is loaded, e.g. "0.9.0". */
IBCOLL_API const char* ibcoll_version(void);

/** @} */

/** @defgroup job Start and end
 * How a process becomes a rank of a job, and leaves it.
 * @{ */

/** What ibcoll_launch starts. */
typedef struct ibcoll_launch_options {
  size_t struct_size; /**< sizeof(ibcoll_launch_options) */
  int ranks;          /**< processes to start */
  const char* layout; /**< emulated servers: "3,1,2", "24x8"; NULL: one server (or IBCOLL_LAYOUT) */
  const char* placement; /**< how ranks are placed on them, "block" or "cyclic"; NULL: as
                            IBCOLL_PLACEMENT says, "block" by default. "cyclic" is refused where
                            nothing says which servers there are */
  int bind;              /**< 1: bind ranks to cores; 0: not */
  int keep_survivors;    /**< 1: when a rank has died, or has returned anything but 0,
                            the others run until they end by themselves (ibcoll_group_shrink); 0:
                            for five seconds at most */
} ibcoll_launch_options;
/** To begin with: the number of ranks is to be set. */
#define IBCOLL_LAUNCH_OPTIONS_INIT \
  { sizeof(ibcoll_launch_options), 0, NULL, NULL, 0, 0 }

/** Starts `options->ranks` processes on this machine by fork; each runs main(context, argument),
 * and its result is the process's exit status. Waits for all. *exit_status: 0 if all returned 0,
 * else the first that did not, 128 + N of a rank that signal N has killed. With keep_survivors,
 * ranks that were killed count only if all were. No process outlives the caller. */
IBCOLL_API ibcoll_status ibcoll_launch(const ibcoll_launch_options* options,
                                       int (*main)(ibcoll_context* context, void* argument),
                                       void* argument, int* exit_status);

/** Joins the job this process was started in (mpirun, srun, mpiexec); alone where there is none.
 * Collective over the job. */
IBCOLL_API ibcoll_status ibcoll_init(ibcoll_context** context);

/** What a host (an MPI library, UCC, a runtime of its own) gives so that its processes become a
 * job. The functions are called inside ibcoll_init_with and ibcoll_finalize only, by the thread
 * that calls those, but for `progress`. */
typedef struct ibcoll_bootstrap {
  size_t struct_size; /**< sizeof(ibcoll_bootstrap) */
  int rank;           /**< as the allgather numbers the processes, from 0 */
  int size;           /**< as it counts them */
  void* host;         /**< passed to the functions */
  /** Blocking: every rank gives `bytes` bytes, `all` receives size * bytes in the order of ranks.
   * 0: done; anything else is the host's error. */
  int (*allgather)(void* host, const void* mine, size_t bytes, void* all);
  /** Or, where that is NULL, post and test: *done becomes 1, and *request is the host's again.
   * `mine` and `all` stay as they are until then. */
  int (*allgather_post)(void* host, const void* mine, size_t bytes, void* all, void** request);
  /** Tests what allgather_post gave; null where that is. */
  int (*allgather_test)(void* host, void* request, int* done);
  /** Moves on what the host itself has under way, and comes back at once. Called now and then while
   * a call on the job waits, by a thread of the program that waits in one, never by one of the
   * library's own; it must not call ibcoll on the job. NULL: nothing is called. */
  void (*progress)(void* host);
} ibcoll_bootstrap;

/** Joins the job of the host's processes; collective over them. No launcher is asked, and the
 * process stays the host's: the engine ends none, whatever becomes of the job or of the process's
 * parent. A process may be in several jobs at a time. `bootstrap` is copied. Errors:
 * IBCOLL_ERR_SYSTEM with the number that the host's function gave; IBCOLL_ERR_MISMATCH where ranks
 * disagree on rank or size. docs/hosts.md says what a host must do. */
IBCOLL_API ibcoll_status ibcoll_init_with(const ibcoll_bootstrap* bootstrap,
                                          ibcoll_context** context);
/** Leaves the job; collective. Not for contexts that ibcoll_launch gave. Waits for the calls that
 * are under way first. IBCOLL_ERR_INVALID, with their number, if groups, graphs, requests or
 * messages had not been freed, or memory not deregistered: the job is left all the same, and they
 * are refused from then on. IBCOLL_ERR_INVALID, and the job is not left, while another thread is in
 * a call. */
IBCOLL_API ibcoll_status ibcoll_finalize(ibcoll_context* context);

/** This process's rank in the job. */
IBCOLL_API int ibcoll_rank(const ibcoll_context* context);
/** How many ranks the job has. */
IBCOLL_API int ibcoll_size(const ibcoll_context* context);
/** How many servers (sets of ranks that share memory) it has. */
IBCOLL_API int ibcoll_servers(const ibcoll_context* context);
/** The server that a rank of the job is on; -1 for a rank there is not. */
IBCOLL_API int ibcoll_server_of(const ibcoll_context* context, int rank);
/** Ends the job on all ranks with this message. */
IBCOLL_API ibcoll_status ibcoll_abort(ibcoll_context* context, const char* message);

/** @} */

/** @defgroup groups Groups
 * Sets of ranks that make calls together.
 * @{ */

/** All ranks of the job. Belongs to the context. */
IBCOLL_API ibcoll_group* ibcoll_world(ibcoll_context* context);
/** A group of the given ranks of the job, in this order; each of them calls it with the same list,
 * nobody else does. Local: no communication. Where groups of the same list of ranks are created
 * more than once, all these ranks must do so in the same order, and after the same number of calls
 * on the earlier ones: nothing else tells such groups apart. What shows that they did not is
 * IBCOLL_ERR_MISMATCH in the first calls: another number of calls before, other collectives, sizes
 * or options. Two groups that were created one right after the other, in another order on another
 * rank, and are used for calls of the same kind and size, are not told apart. */
IBCOLL_API ibcoll_status ibcoll_group_create(ibcoll_context* context, const int* ranks, int count,
                                             ibcoll_group** group);

/** What ibcoll_group_create_with may be told. */
typedef struct ibcoll_group_options {
  size_t struct_size; /**< sizeof(ibcoll_group_options) */
  /** Tells groups of the same ranks apart, in whatever order their members make them; the same on
   * all members. 0: none. It may be given again once the group, its requests and its graphs have
   * been freed, unless the group was ended early (ibcoll_cancel). */
  uint64_t id;
} ibcoll_group_options;
/** The same, with options (NULL: the defaults). With an identifier the rule on the order holds only
 * among groups of the same ranks and the same identifier; IBCOLL_ERR_INVALID if there is one on
 * this rank that has not been freed. */
IBCOLL_API ibcoll_status ibcoll_group_create_with(ibcoll_context* context, const int* ranks,
                                                  int count, const ibcoll_group_options* options,
                                                  ibcoll_group** group);
/** The same from a bitmap: bit r % 64 of word r / 64 says that rank r of the job is a member;
 * members in ascending order. */
IBCOLL_API ibcoll_status ibcoll_group_create_from_bitmap(ibcoll_context* context,
                                                         const uint64_t* words, size_t word_count,
                                                         const ibcoll_group_options* options,
                                                         ibcoll_group** group);
/** Local. Requests of the group, also those under way, stay as they are and keep what they need of
 * it. */
IBCOLL_API ibcoll_status ibcoll_group_free(ibcoll_group* group);
/** Ends the group on all its ranks, as ibcoll_cancel does. Local. Other threads that wait in calls
 * of it (IBCOLL_THREAD_MULTIPLE), blocking ones or requests, come back with IBCOLL_ERR_CANCELLED
 * as soon as no peer can read or write their buffers any more. */
IBCOLL_API ibcoll_status ibcoll_group_cancel(ibcoll_group* group);
/** IBCOLL_OK as long as calls can be made on the group, as far as this rank knows; else the error
 * that they give. */
IBCOLL_API ibcoll_status ibcoll_group_status(ibcoll_group* group);
/** Which members of the group have died, as far as this rank knows, which may be less than other
 * ranks know: ranks of the group, in ascending order. `count` says how many `ranks` has room for,
 * and then how many have died; `ranks` may be NULL where that is 0. Local. It also answers when the
 * job is over. IBCOLL_ERR_INVALID for a set. */
IBCOLL_API ibcoll_status ibcoll_group_failed(ibcoll_group* group, int* ranks, int* count);
/** A new group, `survivors`, of those members of `group` that are alive, in their old order,
 * whether or not `group` is over. All living members call this, and wait for each other in it. They
 * agree on who has died, so all of them get the same group. A member that dies too late to be left
 * out is in it, and ends it: shrink that one. If the new group is as large as the old one, no call
 * on the old one had failed because of a death, on any member, when it called this.
 *
 * The old group stays as it is; free it as usual. The identifier in `options` (NULL: the defaults)
 * names the new group in messages, and is the same on all members. Where nobody has died, the new
 * group has the same ranks: also a group that was ended early (ibcoll_group_cancel) can be made
 * anew in this way.
 *
 * Errors: the job's, if it is over, as it is after a death where UCX joins the servers, or if it
 * ends meanwhile: because memory has run out, or because a living member has left the job instead
 * of making this call. After a death, such a member is left out. IBCOLL_ERR_INVALID for a set, and
 * while another thread is in a blocking call on the group. */
IBCOLL_API ibcoll_status ibcoll_group_shrink(ibcoll_group* group,
                                             const ibcoll_group_options* options,
                                             ibcoll_group** survivors);
/** This process's rank in the group. */
IBCOLL_API int ibcoll_group_rank(const ibcoll_group* group);
/** How many ranks the group has. */
IBCOLL_API int ibcoll_group_size(const ibcoll_group* group);

/** @} */

/** @defgroup calls Collective calls
 * Each waits until this rank's part is done: its buffers may be used again.
 * @{ */

/** In the place of a send buffer: the data to send lies in the receive buffer. */
#define IBCOLL_IN_PLACE ((const void*)(intptr_t)-1)

/** How a call is to be made; all ranks of the group must pass the same. NULL anywhere means the
 * defaults. */
typedef struct ibcoll_options {
  size_t struct_size; /**< sizeof(ibcoll_options) */
  const char*
      algorithm; /**< "linear", "ring", "two_level_ring", ...; NULL or "auto": the engine chooses */
  const char* pacing; /**< "free", "gate", "token", "gate_token"; NULL or "auto" */
  int pieces;         /**< of relayed data (chains, ring allgather); 0: the engine chooses */
  size_t
      send_bytes; /**< size of the send buffer, if not 0: a call that reaches past it is refused */
  size_t recv_bytes; /**< the same of the receive buffer */
  int ordered;  /**< 1: reductions combine in the order of ranks, in a way that depends on their
                   number only, so that results have the same bits whatever the layout, the root and
                   the algorithm; one that can't is refused by its name */
  int reserved; /**< 0 */
  /** This rank's alone, the others may pass another one: if the call has not finished here so many
   * microseconds after its start, its group is over (IBCOLL_ERR_DEADLINE on all its ranks, see
   * ibcoll_cancel). 0: it may take as long as it likes. Peers that do not confirm that within as
   * much time again, and at least 2 s, end the job. */
  int64_t deadline_us;
} ibcoll_options;
/** The defaults. */
#define IBCOLL_OPTIONS_INIT \
  { sizeof(ibcoll_options), NULL, NULL, 0, 0, 0, 0, 0, 0 }

/** Block i of `send` goes to rank i; block i of `recv` comes from rank i. */
IBCOLL_API ibcoll_status ibcoll_alltoall(ibcoll_group* group, const void* send, void* recv,
                                         size_t block_bytes, const ibcoll_options* options);
/** The same with a length and a place for each block. What rank i receives from j must be as long
 * as what j sends to i; here and below, the two lengths of a rank's own block are compared before
 * anything is sent. Blocks that are received must not overlap, but those of no bytes may lie
 * anywhere: that is IBCOLL_ERR_INVALID, before anything is sent. */
IBCOLL_API ibcoll_status ibcoll_alltoallv(ibcoll_group* group, const void* send,
                                          const int64_t* send_counts,
                                          const int64_t* send_displacements, void* recv,
                                          const int64_t* recv_counts,
                                          const int64_t* recv_displacements,
                                          const ibcoll_options* options);
/** The same where each block has a layout: offsets, strides and lengths (ibcoll_block). Block i of
 * `send` goes to rank i, block i of `recv` comes from it; each has as many bytes as the other side
 * says. In place `send_blocks` is not looked at: what is sent to a rank lies where what comes from
 * it is to lie. The blocks are not needed after the call has been prepared. */
IBCOLL_API ibcoll_status ibcoll_alltoallw(ibcoll_group* group, const void* send,
                                          const ibcoll_block* send_blocks, void* recv,
                                          const ibcoll_block* recv_blocks,
                                          const ibcoll_options* options);
/** Everybody receives everybody's block: block i of `recv` is the one rank i sent. */
IBCOLL_API ibcoll_status ibcoll_allgather(ibcoll_group* group, const void* send, void* recv,
                                          size_t block_bytes, const ibcoll_options* options);
/** The same with a length and a place for each block: every rank passes all of them, the one it
 * sends itself as `send_count` too. */
IBCOLL_API ibcoll_status ibcoll_allgatherv(ibcoll_group* group, const void* send,
                                           int64_t send_count, void* recv,
                                           const int64_t* recv_counts,
                                           const int64_t* recv_displacements,
                                           const ibcoll_options* options);
/** Block i of the root's `recv` is the one rank i sent. Others may pass NULL for `recv`. At the
 * root `send` may be IBCOLL_IN_PLACE: its own block is in its place already. */
IBCOLL_API ibcoll_status ibcoll_gather(ibcoll_group* group, const void* send, void* recv,
                                       size_t block_bytes, int root, const ibcoll_options* options);
/** The same with a length and a place for each block. What rank i sends must be as long as the root
 * says; counts and displacements mean something at the root only. */
IBCOLL_API ibcoll_status ibcoll_gatherv(ibcoll_group* group, const void* send, int64_t send_count,
                                        void* recv, const int64_t* recv_counts,
                                        const int64_t* recv_displacements, int root,
                                        const ibcoll_options* options);
/** Block i of the root's `send` goes to rank i. Others may pass NULL for `send`. At the root `recv`
 * may be (void*)IBCOLL_IN_PLACE: its own block stays where it is. */
IBCOLL_API ibcoll_status ibcoll_scatter(ibcoll_group* group, const void* send, void* recv,
                                        size_t block_bytes, int root,
                                        const ibcoll_options* options);
/** The same with a length and a place for each block; counts and displacements mean something at
 * the root only. */
IBCOLL_API ibcoll_status ibcoll_scatterv(ibcoll_group* group, const void* send,
                                         const int64_t* send_counts,
                                         const int64_t* send_displacements, void* recv,
                                         int64_t recv_count, int root,
                                         const ibcoll_options* options);
/** What the root has in `buffer`, all have there afterwards. */
IBCOLL_API ibcoll_status ibcoll_bcast(ibcoll_group* group, void* buffer, size_t bytes, int root,
                                      const ibcoll_options* options);
/** The root's `recv` is the combination, element by element, of what all ranks send. Others may
 * pass NULL for `recv`. At the root `send` may be IBCOLL_IN_PLACE: its own elements lie in `recv`.
 */
IBCOLL_API ibcoll_status ibcoll_reduce(ibcoll_group* group, const void* send, void* recv,
                                       size_t elements, ibcoll_type type, ibcoll_operator op,
                                       int root, const ibcoll_options* options);
/** Every rank's `recv` is the combination, element by element, of what all ranks send: the same
 * bits on all. Here and below, `send` may be IBCOLL_IN_PLACE on any rank: what it sends lies in
 * `recv`. */
IBCOLL_API ibcoll_status ibcoll_allreduce(ibcoll_group* group, const void* send, void* recv,
                                          size_t elements, ibcoll_type type, ibcoll_operator op,
                                          const ibcoll_options* options);
/** What all ranks send is combined, and rank i receives counts[i] elements of that, those behind
 * what the ranks before it receive. Every rank passes the same counts, in elements. In place `recv`
 * holds all that is sent, and its beginning the result. */
IBCOLL_API ibcoll_status ibcoll_reduce_scatter(ibcoll_group* group, const void* send, void* recv,
                                               const int64_t* counts, ibcoll_type type,
                                               ibcoll_operator op, const ibcoll_options* options);
/** The same where every rank receives as many `elements`. */
IBCOLL_API ibcoll_status ibcoll_reduce_scatter_block(ibcoll_group* group, const void* send,
                                                     void* recv, size_t elements, ibcoll_type type,
                                                     ibcoll_operator op,
                                                     const ibcoll_options* options);
/** Rank i's `recv` is the combination of what ranks 0 to i send. */
IBCOLL_API ibcoll_status ibcoll_scan(ibcoll_group* group, const void* send, void* recv,
                                     size_t elements, ibcoll_type type, ibcoll_operator op,
                                     const ibcoll_options* options);
/** Rank i's `recv` is the combination of what ranks 0 to i - 1 send; that of rank 0 is left as it
 * is, and may be NULL. */
IBCOLL_API ibcoll_status ibcoll_exscan(ibcoll_group* group, const void* send, void* recv,
                                       size_t elements, ibcoll_type type, ibcoll_operator op,
                                       const ibcoll_options* options);
/** Nobody leaves before everybody has entered. */
IBCOLL_API ibcoll_status ibcoll_barrier(ibcoll_group* group, const ibcoll_options* options);

/** A count that only the other side knows. */
#define IBCOLL_UNKNOWN ((int64_t)-1)
/** Completes the counts of an alltoallv where one side does not know them: entries IBCOLL_UNKNOWN
 * are replaced by what the peer passed. An error where neither side knows a count, or both do and
 * differ. */
IBCOLL_API ibcoll_status ibcoll_exchange_counts(ibcoll_group* group, int64_t* send_counts,
                                                int64_t* recv_counts);

/** The same for a gatherv or scatterv: `own_count` is the length of this rank's block, `counts`, at
 * the root only, those of all ranks. */
IBCOLL_API ibcoll_status ibcoll_exchange_root_counts(ibcoll_group* group, int64_t* own_count,
                                                     int64_t* counts, int root);

/** @} */

#ifdef __cplusplus
}
#endif

#include "ibcoll/counters.h"
#include "ibcoll/graphs.h"
#include "ibcoll/memory.h"
#include "ibcoll/multicast.h"
#include "ibcoll/operators.h"
#include "ibcoll/requests.h"
#include "ibcoll/sets.h"
#include "ibcoll/threads.h"

#endif
