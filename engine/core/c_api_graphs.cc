// The C interface: graphs, and the neighbour collectives on them.

#include <memory>

#include "engine/core/c_api.h"
#include "engine/core/graph_creation.h"

using namespace ibcoll;  // this file is nothing but the C face of that namespace
using namespace ibcoll::c_api;

namespace {

/// Runs a body that may wait on a group or a graph.
template <class Handle, class Body>
ibcoll_status in_turn(Handle& handle, Body&& body) {
  return inside_job(*handle.context, [&]() -> ibcoll_status {
    if (handle.busy) [[unlikely]]
      return refuse("another thread is in a blocking call on this group or graph");
    const Busy busy(handle);
    return body();
  });
}

ibcoll_status run(ibcoll_graph* handle, const ibcoll_call& call) {
  if (!is_live(handle)) return refuse_handle("graph", handle);
  return in_turn(*handle, [&]() -> ibcoll_status {
    if (!handle->blocking) handle->blocking = std::make_unique<BlockingCalls>();
    return give(handle->blocking->carry_out(*handle->context, handle->group, call));
  });
}

}  // namespace

void ibcoll::c_api::drop(ibcoll_graph& graph) {
  graph.blocking.reset();
  if (graph.group && graph.graph) graph.group->plans().forget(graph.graph);
  graph.graph.reset();
  graph.group.reset();
  graph.context->graphs.give_back(graph);
}

ibcoll_status ibcoll_graph_create(ibcoll_group* group, int sources, const int* source_ranks,
                                  int destinations, const int* destination_ranks,
                                  ibcoll_graph** graph) {
  if (!is_live(group)) return refuse_handle("group", group);
  if (group->set) return refuse("a graph needs a group: a set has none");
  return in_turn(*group, [&]() -> ibcoll_status {
    GraphLists lists{sources, destinations, source_ranks, destination_ranks};
    // The others make their calls all the same, and are to have this error.
    if (graph == nullptr) lists.refused = "the place for the graph is null";
    auto made = create_graph(*group->group, lists);
    if (!made) return report(made.error());
    ibcoll_graph& handle = group->context->graphs.take();
    handle.context = group->context;
    handle.group = group->group;
    handle.graph = std::move(*made);
    *graph = &handle;
    return IBCOLL_OK;
  });
}

ibcoll_status ibcoll_graph_free(ibcoll_graph* graph) {
  if (graph == nullptr) return IBCOLL_OK;
  if (!is_live(graph)) return refuse_handle("graph", graph);
  return inside(*graph->context, [&]() -> ibcoll_status {
    if (graph->busy) return refuse("another thread is in a blocking call on this graph");
    drop(*graph);  // its requests keep what they need of it
    return IBCOLL_OK;
  });
}

ibcoll_status ibcoll_neighbor_allgather(ibcoll_graph* graph, const void* send, void* recv,
                                        size_t block_bytes, const ibcoll_options* options) {
  return run(graph, ibcoll_call_neighbor_allgather(graph, send, recv, block_bytes, options));
}

ibcoll_status ibcoll_neighbor_allgatherv(ibcoll_graph* graph, const void* send, int64_t send_count,
                                         void* recv, const int64_t* recv_counts,
                                         const int64_t* recv_displacements,
                                         const ibcoll_options* options) {
  return run(graph, ibcoll_call_neighbor_allgatherv(graph, send, send_count, recv, recv_counts,
                                                    recv_displacements, options));
}

ibcoll_status ibcoll_neighbor_alltoall(ibcoll_graph* graph, const void* send, void* recv,
                                       size_t block_bytes, const ibcoll_options* options) {
  return run(graph, ibcoll_call_neighbor_alltoall(graph, send, recv, block_bytes, options));
}

ibcoll_status ibcoll_neighbor_alltoallv(ibcoll_graph* graph, const void* send,
                                        const int64_t* send_counts,
                                        const int64_t* send_displacements, void* recv,
                                        const int64_t* recv_counts,
                                        const int64_t* recv_displacements,
                                        const ibcoll_options* options) {
  return run(graph, ibcoll_call_neighbor_alltoallv(graph, send, send_counts, send_displacements,
                                                   recv, recv_counts, recv_displacements, options));
}

ibcoll_status ibcoll_neighbor_alltoallw(ibcoll_graph* graph, const void* send,
                                        const ibcoll_block* send_blocks, void* recv,
                                        const ibcoll_block* recv_blocks,
                                        const ibcoll_options* options) {
  return run(graph,
             ibcoll_call_neighbor_alltoallw(graph, send, send_blocks, recv, recv_blocks, options));
}
