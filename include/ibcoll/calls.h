/** @file
 * ibcoll: descriptions of calls, one function a collective with the arguments of the blocking one.
 * Included by ibcoll.h.
 *
 *   ibcoll_call call = ibcoll_call_alltoall(send, recv, block_bytes, NULL);
 *   call.flags = IBCOLL_PERSISTENT;
 *   status = ibcoll_call_init(group, &call, &request);
 */
#ifndef IBCOLL_CALLS_H
#define IBCOLL_CALLS_H

#include "ibcoll/ibcoll.h"

/** @addtogroup requests
 * @{ */

/** A call of this collective without arguments. */
static inline ibcoll_call ibcoll_call_of(ibcoll_collective collective,
                                         const ibcoll_options* options) {
  const ibcoll_call call = {
      sizeof(ibcoll_call), collective, 0, NULL, NULL, 0,   0, 0, NULL, NULL, NULL, NULL, options, 0,
      IBCOLL_INT8,         IBCOLL_SUM, 0, NULL, NULL, NULL};
  return call;
}

/** The call that ibcoll_alltoall() makes. */
static inline ibcoll_call ibcoll_call_alltoall(const void* send, void* recv, size_t block_bytes,
                                               const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_of(IBCOLL_ALLTOALL, options);
  call.send = send;
  call.recv = recv;
  call.bytes = block_bytes;
  return call;
}

/** The call that ibcoll_alltoallv() makes. */
static inline ibcoll_call ibcoll_call_alltoallv(const void* send, const int64_t* send_counts,
                                                const int64_t* send_displacements, void* recv,
                                                const int64_t* recv_counts,
                                                const int64_t* recv_displacements,
                                                const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_of(IBCOLL_ALLTOALLV, options);
  call.send = send;
  call.send_counts = send_counts;
  call.send_displacements = send_displacements;
  call.recv = recv;
  call.recv_counts = recv_counts;
  call.recv_displacements = recv_displacements;
  return call;
}

/** The call that ibcoll_alltoallw() makes. */
static inline ibcoll_call ibcoll_call_alltoallw(const void* send, const ibcoll_block* send_blocks,
                                                void* recv, const ibcoll_block* recv_blocks,
                                                const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_of(IBCOLL_ALLTOALLW, options);
  call.send = send;
  call.send_blocks = send_blocks;
  call.recv = recv;
  call.recv_blocks = recv_blocks;
  return call;
}

/** The call that ibcoll_allgather() makes. */
static inline ibcoll_call ibcoll_call_allgather(const void* send, void* recv, size_t block_bytes,
                                                const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_of(IBCOLL_ALLGATHER, options);
  call.send = send;
  call.recv = recv;
  call.bytes = block_bytes;
  return call;
}

/** The call that ibcoll_allgatherv() makes. */
static inline ibcoll_call ibcoll_call_allgatherv(const void* send, int64_t send_count, void* recv,
                                                 const int64_t* recv_counts,
                                                 const int64_t* recv_displacements,
                                                 const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_of(IBCOLL_ALLGATHERV, options);
  call.send = send;
  call.own_count = send_count;
  call.recv = recv;
  call.recv_counts = recv_counts;
  call.recv_displacements = recv_displacements;
  return call;
}

/** The call that ibcoll_gather() makes. */
static inline ibcoll_call ibcoll_call_gather(const void* send, void* recv, size_t block_bytes,
                                             int root, const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_of(IBCOLL_GATHER, options);
  call.send = send;
  call.recv = recv;
  call.bytes = block_bytes;
  call.root = root;
  return call;
}

/** The call that ibcoll_gatherv() makes. */
static inline ibcoll_call ibcoll_call_gatherv(const void* send, int64_t send_count, void* recv,
                                              const int64_t* recv_counts,
                                              const int64_t* recv_displacements, int root,
                                              const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_of(IBCOLL_GATHERV, options);
  call.send = send;
  call.own_count = send_count;
  call.recv = recv;
  call.recv_counts = recv_counts;
  call.recv_displacements = recv_displacements;
  call.root = root;
  return call;
}

/** The call that ibcoll_scatter() makes. */
static inline ibcoll_call ibcoll_call_scatter(const void* send, void* recv, size_t block_bytes,
                                              int root, const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_of(IBCOLL_SCATTER, options);
  call.send = send;
  call.recv = recv;
  call.bytes = block_bytes;
  call.root = root;
  return call;
}

/** The call that ibcoll_scatterv() makes. */
static inline ibcoll_call ibcoll_call_scatterv(const void* send, const int64_t* send_counts,
                                               const int64_t* send_displacements, void* recv,
                                               int64_t recv_count, int root,
                                               const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_of(IBCOLL_SCATTERV, options);
  call.send = send;
  call.send_counts = send_counts;
  call.send_displacements = send_displacements;
  call.recv = recv;
  call.own_count = recv_count;
  call.root = root;
  return call;
}

/** The call that ibcoll_bcast() makes. */
static inline ibcoll_call ibcoll_call_bcast(void* buffer, size_t bytes, int root,
                                            const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_of(IBCOLL_BCAST, options);
  call.recv = buffer;
  call.bytes = bytes;
  call.root = root;
  return call;
}

/** The call that ibcoll_reduce() makes. */
static inline ibcoll_call ibcoll_call_reduce(const void* send, void* recv, size_t elements,
                                             ibcoll_type type, ibcoll_operator op, int root,
                                             const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_of(IBCOLL_REDUCE, options);
  call.send = send;
  call.recv = recv;
  call.elements = elements;
  call.type = type;
  call.op = op;
  call.root = root;
  return call;
}

/** The call that ibcoll_allreduce() makes. */
static inline ibcoll_call ibcoll_call_allreduce(const void* send, void* recv, size_t elements,
                                                ibcoll_type type, ibcoll_operator op,
                                                const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_reduce(send, recv, elements, type, op, 0, options);
  call.collective = IBCOLL_ALLREDUCE;
  return call;
}

/** The call that ibcoll_reduce_scatter() makes. */
static inline ibcoll_call ibcoll_call_reduce_scatter(const void* send, void* recv,
                                                     const int64_t* counts, ibcoll_type type,
                                                     ibcoll_operator op,
                                                     const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_reduce(send, recv, 0, type, op, 0, options);
  call.collective = IBCOLL_REDUCE_SCATTER;
  call.recv_counts = counts;
  return call;
}

/** The call that ibcoll_reduce_scatter_block() makes. */
static inline ibcoll_call ibcoll_call_reduce_scatter_block(const void* send, void* recv,
                                                           size_t elements, ibcoll_type type,
                                                           ibcoll_operator op,
                                                           const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_reduce(send, recv, elements, type, op, 0, options);
  call.collective = IBCOLL_REDUCE_SCATTER_BLOCK;
  return call;
}

/** The call that ibcoll_scan() makes. */
static inline ibcoll_call ibcoll_call_scan(const void* send, void* recv, size_t elements,
                                           ibcoll_type type, ibcoll_operator op,
                                           const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_reduce(send, recv, elements, type, op, 0, options);
  call.collective = IBCOLL_SCAN;
  return call;
}

/** The call that ibcoll_exscan() makes. */
static inline ibcoll_call ibcoll_call_exscan(const void* send, void* recv, size_t elements,
                                             ibcoll_type type, ibcoll_operator op,
                                             const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_reduce(send, recv, elements, type, op, 0, options);
  call.collective = IBCOLL_EXSCAN;
  return call;
}

/** The call that ibcoll_barrier() makes. */
static inline ibcoll_call ibcoll_call_barrier(const ibcoll_options* options) {
  return ibcoll_call_of(IBCOLL_BARRIER, options);
}

/** The call that ibcoll_neighbor_allgather() makes. */
static inline ibcoll_call ibcoll_call_neighbor_allgather(ibcoll_graph* graph, const void* send,
                                                         void* recv, size_t block_bytes,
                                                         const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_allgather(send, recv, block_bytes, options);
  call.collective = IBCOLL_NEIGHBOR_ALLGATHER;
  call.graph = graph;
  return call;
}

/** The call that ibcoll_neighbor_allgatherv() makes. */
static inline ibcoll_call ibcoll_call_neighbor_allgatherv(ibcoll_graph* graph, const void* send,
                                                          int64_t send_count, void* recv,
                                                          const int64_t* recv_counts,
                                                          const int64_t* recv_displacements,
                                                          const ibcoll_options* options) {
  ibcoll_call call =
      ibcoll_call_allgatherv(send, send_count, recv, recv_counts, recv_displacements, options);
  call.collective = IBCOLL_NEIGHBOR_ALLGATHERV;
  call.graph = graph;
  return call;
}

/** The call that ibcoll_neighbor_alltoall() makes. */
static inline ibcoll_call ibcoll_call_neighbor_alltoall(ibcoll_graph* graph, const void* send,
                                                        void* recv, size_t block_bytes,
                                                        const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_alltoall(send, recv, block_bytes, options);
  call.collective = IBCOLL_NEIGHBOR_ALLTOALL;
  call.graph = graph;
  return call;
}

/** The call that ibcoll_neighbor_alltoallv() makes. */
static inline ibcoll_call ibcoll_call_neighbor_alltoallv(ibcoll_graph* graph, const void* send,
                                                         const int64_t* send_counts,
                                                         const int64_t* send_displacements,
                                                         void* recv, const int64_t* recv_counts,
                                                         const int64_t* recv_displacements,
                                                         const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_alltoallv(send, send_counts, send_displacements, recv, recv_counts,
                                           recv_displacements, options);
  call.collective = IBCOLL_NEIGHBOR_ALLTOALLV;
  call.graph = graph;
  return call;
}

/** The call that ibcoll_neighbor_alltoallw() makes. */
static inline ibcoll_call ibcoll_call_neighbor_alltoallw(ibcoll_graph* graph, const void* send,
                                                         const ibcoll_block* send_blocks,
                                                         void* recv,
                                                         const ibcoll_block* recv_blocks,
                                                         const ibcoll_options* options) {
  ibcoll_call call = ibcoll_call_alltoallw(send, send_blocks, recv, recv_blocks, options);
  call.collective = IBCOLL_NEIGHBOR_ALLTOALLW;
  call.graph = graph;
  return call;
}

/** @} */

#endif
