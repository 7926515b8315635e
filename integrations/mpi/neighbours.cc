#include "integrations/mpi/neighbours.h"

#include <algorithm>

namespace ibcoll::mpi {

namespace {

/// Ranks of the communicator or MPI_PROC_NULL, one a slot.
struct Lists {
  std::vector<int> sources, destinations;
};

bool read_cart(Handle handle, Lists& lists) {
  const Library& mpi = library();
  int dimensions = 0;
  if (mpi.Cartdim_get(handle, &dimensions) != 0) return false;
  for (int i = 0; i < dimensions; ++i) {
    int below = 0, above = 0;
    if (mpi.Cart_shift(handle, i, 1, &below, &above) != 0) return false;
    lists.sources.push_back(below);
    lists.sources.push_back(above);
  }
  lists.destinations = lists.sources;
  return true;
}

bool read_graph(Handle handle, int rank, Lists& lists) {
  const Library& mpi = library();
  int count = 0;
  if (mpi.Graph_neighbors_count(handle, rank, &count) != 0) return false;
  lists.sources.resize(static_cast<size_t>(count));
  if (mpi.Graph_neighbors(handle, rank, count, lists.sources.data()) != 0) return false;
  lists.destinations = lists.sources;
  return true;
}

bool read_dist_graph(Handle handle, Lists& lists) {
  const Library& mpi = library();
  int sources = 0, destinations = 0, weighted = 0;
  if (mpi.Dist_graph_neighbors_count(handle, &sources, &destinations, &weighted) != 0) return false;
  // Never empty: a null array is a mistake to some.
  lists.sources.resize(static_cast<size_t>(sources) + 1);
  lists.destinations.resize(static_cast<size_t>(destinations) + 1);
  std::vector<int> weights_in(lists.sources.size()), weights_out(lists.destinations.size());
  if (mpi.Dist_graph_neighbors(handle, sources, lists.sources.data(), weights_in.data(),
                               destinations, lists.destinations.data(), weights_out.data()) != 0)
    return false;
  lists.sources.pop_back();
  lists.destinations.pop_back();
  return true;
}

bool read_lists(Handle handle, int rank, Lists& lists) {
  const Library& mpi = library();
  int topology = 0;
  if (mpi.Topo_test(handle, &topology) != 0) return false;
  if (topology == mpi.constants.topology_cart) return read_cart(handle, lists);
  if (topology == mpi.constants.topology_graph) return read_graph(handle, rank, lists);
  return topology == mpi.constants.topology_dist_graph && read_dist_graph(handle, lists);
}

/// The ranks of the edges.
std::vector<int> take_edges(const std::vector<int>& ranks, NeighbourSlots& side) {
  side.count = static_cast<int>(ranks.size());
  std::vector<int> edges;
  for (int slot = 0; slot < side.count; ++slot) {
    if (ranks[slot] == library().constants.proc_null) continue;
    edges.push_back(ranks[slot]);
    side.slots.push_back(slot);
  }
  side.plain = edges.size() == ranks.size();
  return edges;
}

/// Whether several edges lead from one rank to another, as in a ring of two.
bool has_copies(std::vector<int> edges) {
  std::sort(edges.begin(), edges.end());
  return std::adjacent_find(edges.begin(), edges.end()) != edges.end();
}

}  // namespace

std::vector<int> neighbours_sent_to(Handle handle, int rank) {
  Lists lists;
  if (!read_lists(handle, rank, lists)) return {};
  return std::move(lists.destinations);
}

Neighbours::~Neighbours() { (void)ibcoll_graph_free(graph); }

const Neighbours* make_neighbours(const Communicator& on, Handle handle) {
  Lists lists;
  if (!read_lists(handle, on.rank, lists)) return nullptr;
  auto made = std::make_shared<Neighbours>();
  const std::vector<int> from = take_edges(lists.sources, made->sources),
                         to = take_edges(lists.destinations, made->destinations);
  // Which of several edges a block takes differs from MPI to MPI, and in one from function to
  // function.
  const uint64_t copies = has_copies(from) || has_copies(to) ? 1 : 0;
  uint64_t anywhere = 0;
  ibcoll_status status =
      ibcoll_allreduce(on.group, &copies, &anywhere, 1, IBCOLL_UINT64, IBCOLL_MAX, nullptr);
  if (status == IBCOLL_OK && anywhere == 0) {
    status = ibcoll_graph_create(on.group, static_cast<int>(from.size()), from.data(),
                                 static_cast<int>(to.size()), to.data(), &made->graph);
  }
  if (status != IBCOLL_OK) {
    made->reason = Reason::kNoGroup;
    made->is_over = ibcoll_group_status(on.group) != IBCOLL_OK;
    if (on.rank == 0 && !made->is_over) say(ibcoll_last_error());
  }
  on.neighbours = std::move(made);
  return on.neighbours.get();
}

bool take_graph_along(const Communicator& on, Handle handle, ibcoll_call& call) {
  if (call.graph == nullptr) return true;
  const Neighbours* const neighbours = make_neighbours(on, handle);
  if (neighbours == nullptr || neighbours->graph == nullptr) return false;
  call.graph = neighbours->graph;
  return true;
}

}  // namespace ibcoll::mpi
