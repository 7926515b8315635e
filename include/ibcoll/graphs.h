/** @file
 * ibcoll: neighbour collectives, on a graph of who sends to whom. Included by ibcoll.h.
 *
 *   ibcoll_graph* graph;                                  // a ring of all ranks
 *   const int left = (rank + size - 1) % size, right = (rank + 1) % size;
 *   status = ibcoll_graph_create(group, 1, &left, 1, &right, &graph);
 *   status = ibcoll_neighbor_alltoall(graph, send, recv, block_bytes, NULL);
 */
#ifndef IBCOLL_GRAPHS_H
#define IBCOLL_GRAPHS_H

#include "ibcoll/ibcoll.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup graphs Neighbour collectives
 * Ranks exchange with their neighbours in a graph alone. What they cost, in time and memory, goes
 * with the neighbours of a server's ranks, not with the ranks of the group.
 *
 * Each rank gives its sources, from which it receives, and its destinations, to which it sends, as
 * ranks of the group and in its own order, as with MPI_Dist_graph_create_adjacent. The same rank
 * may come several times: the k-th edge from A to B in A's destinations is the k-th from A in B's
 * sources. It may be the rank itself, and there may be none.
 *
 * All ranks of the group make each of these calls, those without neighbours, too, in one order with
 * the other calls of the group. Data in place are not possible.
 * @{ */

/** Makes a graph; all ranks of the group call it. Where they do not agree on the edges
 * (IBCOLL_ERR_MISMATCH), or one of them passes what can't be right (IBCOLL_ERR_INVALID), all get
 * the same error, which names two ranks that disagree or the one that is wrong; no graph is made,
 * and the group goes on. The lists are copied. Not on a group of ibcoll_set_group. */
IBCOLL_API ibcoll_status ibcoll_graph_create(ibcoll_group* group, int sources,
                                             const int* source_ranks, int destinations,
                                             const int* destination_ranks, ibcoll_graph** graph);
/** Frees the graph's handle; local. What calls need of it stays until they are freed. It may
 * outlive its group's handle, and
 * then serves blocking calls only. */
IBCOLL_API ibcoll_status ibcoll_graph_free(ibcoll_graph* graph);

/** Every rank sends one block to all its destinations; block i of `recv` comes from source i.
 * `block_bytes` is the same on all ranks that have neighbours; here and below others may pass 0. */
IBCOLL_API ibcoll_status ibcoll_neighbor_allgather(ibcoll_graph* graph, const void* send,
                                                   void* recv, size_t block_bytes,
                                                   const ibcoll_options* options);
/** The same with a length and a place for each block received, in bytes: one count and one
 * displacement a source. */
IBCOLL_API ibcoll_status ibcoll_neighbor_allgatherv(ibcoll_graph* graph, const void* send,
                                                    int64_t send_count, void* recv,
                                                    const int64_t* recv_counts,
                                                    const int64_t* recv_displacements,
                                                    const ibcoll_options* options);
/** Block i of `send` goes to destination i; block i of `recv` comes from source i. */
IBCOLL_API ibcoll_status ibcoll_neighbor_alltoall(ibcoll_graph* graph, const void* send, void* recv,
                                                  size_t block_bytes,
                                                  const ibcoll_options* options);
/** The same with a length and a place for each block, in bytes: one count and one displacement a
 * destination, and a source. */
IBCOLL_API ibcoll_status ibcoll_neighbor_alltoallv(ibcoll_graph* graph, const void* send,
                                                   const int64_t* send_counts,
                                                   const int64_t* send_displacements, void* recv,
                                                   const int64_t* recv_counts,
                                                   const int64_t* recv_displacements,
                                                   const ibcoll_options* options);
/** The same with a layout for each block: one a destination, and one a source. */
IBCOLL_API ibcoll_status ibcoll_neighbor_alltoallw(ibcoll_graph* graph, const void* send,
                                                   const ibcoll_block* send_blocks, void* recv,
                                                   const ibcoll_block* recv_blocks,
                                                   const ibcoll_options* options);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
