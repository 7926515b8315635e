/** @file
 * ibcoll: calls that go on while the program does. Included by ibcoll.h.
 */
#ifndef IBCOLL_REQUESTS_H
#define IBCOLL_REQUESTS_H

#include "ibcoll/ibcoll.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup requests Calls that go on while the program does
 * Nonblocking and persistent calls: described, prepared, started, and waited for.
 * @{ */

/** Which collective an ibcoll_call is of. */
typedef enum ibcoll_collective {
  IBCOLL_ALLTOALL = 0,              /**< ibcoll_alltoall() */
  IBCOLL_ALLTOALLV = 1,             /**< ibcoll_alltoallv() */
  IBCOLL_ALLGATHER = 2,             /**< ibcoll_allgather() */
  IBCOLL_ALLGATHERV = 3,            /**< ibcoll_allgatherv() */
  IBCOLL_GATHER = 4,                /**< ibcoll_gather() */
  IBCOLL_GATHERV = 5,               /**< ibcoll_gatherv() */
  IBCOLL_SCATTER = 6,               /**< ibcoll_scatter() */
  IBCOLL_SCATTERV = 7,              /**< ibcoll_scatterv() */
  IBCOLL_BCAST = 8,                 /**< ibcoll_bcast() */
  IBCOLL_REDUCE = 9,                /**< ibcoll_reduce() */
  IBCOLL_BARRIER = 10,              /**< ibcoll_barrier() */
  IBCOLL_ALLREDUCE = 11,            /**< ibcoll_allreduce() */
  IBCOLL_REDUCE_SCATTER = 12,       /**< ibcoll_reduce_scatter() */
  IBCOLL_REDUCE_SCATTER_BLOCK = 13, /**< ibcoll_reduce_scatter_block() */
  IBCOLL_SCAN = 14,                 /**< ibcoll_scan() */
  IBCOLL_EXSCAN = 15,               /**< ibcoll_exscan() */
  IBCOLL_ALLTOALLW = 16,            /**< ibcoll_alltoallw() */
  IBCOLL_NEIGHBOR_ALLGATHER = 17,   /**< ibcoll_neighbor_allgather() */
  IBCOLL_NEIGHBOR_ALLGATHERV = 18,  /**< ibcoll_neighbor_allgatherv() */
  IBCOLL_NEIGHBOR_ALLTOALL = 19,    /**< ibcoll_neighbor_alltoall() */
  IBCOLL_NEIGHBOR_ALLTOALLV = 20,   /**< ibcoll_neighbor_alltoallv() */
  IBCOLL_NEIGHBOR_ALLTOALLW = 21    /**< ibcoll_neighbor_alltoallw() */
} ibcoll_collective;

/** For programs that measure: number `index` (from 0) of the algorithms that may be faster than the
 * one that the engine chooses for such calls of the group. It can be named in ibcoll_options; its
 * name stays as long as the process. `block_bytes`: as the collective's function is given it; of
 * reductions, the bytes of `count` elements (of reduce_scatter: in the mean). NULL where there is
 * no such number. There are none where rules (IBCOLL_RULES) or a plan for the network have made the
 * choice, nor for collectives whose blocks may differ in size but reduce_scatter. The same on all
 * ranks of the group. Local. */
IBCOLL_API const char* ibcoll_algorithm_to_try(ibcoll_group* group, ibcoll_collective collective,
                                               size_t block_bytes, int index);

/** A flag of a call: it may be started as often as wanted; without it, once. */
#define IBCOLL_PERSISTENT 1u

/** What is to be called, in the terms of the blocking function of the collective; members that it
 * has no argument for are not looked at. calls.h has a function for each collective that fills one
 * in, so that the compiler checks the arguments. */
typedef struct ibcoll_call {
  size_t struct_size;                /**< sizeof(ibcoll_call) */
  ibcoll_collective collective;      /**< which */
  unsigned flags;                    /**< 0 or IBCOLL_PERSISTENT */
  const void* send;                  /**< what this rank sends */
  void* recv;                        /**< where it receives; bcast: the buffer */
  size_t bytes;                      /**< equal blocks: of one; bcast: of the buffer */
  size_t elements;                   /**< reductions but reduce_scatter */
  int64_t own_count;                 /**< allgatherv, gatherv: send_count; scatterv: recv_count */
  const int64_t* send_counts;        /**< alltoallv, scatterv */
  const int64_t* send_displacements; /**< alltoallv, scatterv */
  const int64_t* recv_counts; /**< alltoallv, allgatherv, gatherv; reduce_scatter: elements */
  const int64_t* recv_displacements; /**< alltoallv, allgatherv, gatherv */
  const ibcoll_options* options;     /**< NULL: the defaults */
  int root;                          /**< gather, scatter and their like, bcast, reduce */
  ibcoll_type type;                  /**< reductions */
  ibcoll_operator op;                /**< reductions */
  int reserved;                      /**< 0 */
  /** Of all that does not combine: where the blocks lie that this rank sends, one an entry:
   * alltoall and its like and the root of scatter(v) one a rank, else 1. It replaces
   * send_counts, send_displacements and own_count; where blocks are equal each must have `bytes`
   * bytes. NULL: they are contiguous. Not of bcast. neighbor_...: one a destination, of an
   * allgather one. */
  const ibcoll_block* send_blocks;
  /** The same of what it receives: alltoall and allgather and their like and the root of gather(v)
   * one a rank, else 1; bcast: of the buffer, on all ranks. neighbor_...: one a source. */
  const ibcoll_block* recv_blocks;
  ibcoll_graph* graph; /**< neighbor_...: a graph of the group */
} ibcoll_call;

/** Calls of a group that may be under way at a time. Others that have been started begin as these
 * end. With IBCOLL_CHECK each call counts twice. */
#define IBCOLL_CALLS_UNDER_WAY 16

/** Makes a call of the group that is described, and waits until this rank's part is done: what
 * ibcoll_alltoall() and its like do. `call` has no flags. */
IBCOLL_API ibcoll_status ibcoll_group_call(ibcoll_group* group, const ibcoll_call* call);
/** Checks and prepares a call; ibcoll_start starts it. Local. `call` and its options are not needed
 * afterwards. The counts and displacements of a persistent call are copied, blocks of any; the
 * others, and the buffers of all, must stay until the call has finished. The request is the
 * program's until ibcoll_call_free, whatever becomes of the call. */
IBCOLL_API ibcoll_status ibcoll_call_init(ibcoll_group* group, const ibcoll_call* call,
                                          ibcoll_request** request);
/** Describes and prepares another call of the group, or the same one with other arguments, in place
 * of the one that the request has and that is not under way: as ibcoll_call_free() and
 * ibcoll_call_init() do, but in less time, the less the more the calls are alike. Local: other
 * ranks may make new requests instead. After an error the request has no call, and may be renewed
 * again or freed. Not for calls on sets, each of which has a group of its own, nor for multicasts.
 */
IBCOLL_API ibcoll_status ibcoll_call_renew(ibcoll_request* request, const ibcoll_call* call);
/** Starts the call; all ranks of the group start their calls in the same order. A persistent one
 * may be started again once it has finished; it is one on all ranks, made and freed by all of them
 * between the same starts. */
IBCOLL_API ibcoll_status ibcoll_start(ibcoll_request* request);
/** *done: 1 when the call has finished on this rank, or was not started, or with an error of the
 * call; 0 if the test itself was refused. */
IBCOLL_API ibcoll_status ibcoll_test(ibcoll_request* request, int* done);
/** Whether ibcoll_test() may find that it has finished, or that the job has ended: 0 or 1. A look
 * that makes no progress, takes no time and waits for no other thread, so that a program with many
 * requests tests those alone for which it is worth it. What has finished may be seen only after the
 * next call of another function. 0, too, for NULL, and for multicasts, of which only the test
 * tells. */
IBCOLL_API int ibcoll_may_be_done(const ibcoll_request* request);
/** Waits until it has finished; while it waits, all calls of the context move on. */
IBCOLL_API ibcoll_status ibcoll_wait(ibcoll_request* request);
/** Waits for all of them, passing over those that are NULL; gives the first error. */
IBCOLL_API ibcoll_status ibcoll_wait_all(int count, ibcoll_request* const* requests);
/** Ends a call that is under way, and its group with it, on all ranks of that; the job goes on.
 * Local, and returns at once: the call, and all others of the group that are under way on this
 * rank, have finished (ibcoll_test, ibcoll_wait) with IBCOLL_ERR_CANCELLED as soon as no peer can
 * read or write their buffers any more. Inside a server that takes nobody else; ranks of other
 * servers that might still write have to confirm that they do not, in some call of theirs or by
 * their progress thread. The other ranks get the error, which names this rank, in their calls of
 * the group; those that have finished there stay as they are. What the buffers of a call that was
 * ended hold is not defined. Later groups of the same ranks need another identifier than that one
 * (and one, if it had none). Without effect on a call that is not under way.
 *
 * With IBCOLL_THREAD_MULTIPLE another thread may be waiting in the request, or in another call of
 * the group: its wait gives that error, too, as soon as the call has finished in this sense, and
 * the request is still to be freed.
 *
 * A multicast ends alone. The request has then finished with IBCOLL_ERR_CANCELLED, for a thread
 * that waits in it, too, once the data are not read any more; ibcoll_multicast_missing() names the
 * ranks that had not acknowledged, which may get the message all the same. */
IBCOLL_API ibcoll_status ibcoll_cancel(ibcoll_request* request);
/** Frees a request whose call is not under way. */
IBCOLL_API ibcoll_status ibcoll_call_free(ibcoll_request* request);

/** @} */

#ifdef __cplusplus
}
#endif

#include "ibcoll/calls.h"

#endif
