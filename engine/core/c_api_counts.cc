// The C interface: counts and displacements of persistent calls.

#include "engine/core/c_api.h"

namespace ibcoll::c_api {

void CountCopies::copy(CallArguments& arguments, const Group& group) {
  if (has_graph(arguments.collective)) return copy_of_neighbors(arguments, group);
  const auto ranks = static_cast<size_t>(group.size());
  const bool holds_all = !has_root(arguments.collective) || arguments.root == group.rank();
  const bool unequal = is_unequal(arguments.collective);
  const bool scatters = arguments.collective == Collective::kScatterv;
  const bool sends = is_alltoall(arguments.collective) && !arguments.in_place;
  const auto keep = [&](std::vector<int64_t>& place, const int64_t*& array, bool read,
                        const ibcoll_block* blocks) {
    place.clear();
    read = read && blocks == nullptr;
    if (read) place.assign(array, array + ranks);
    array = read ? place.data() : nullptr;
  };
  keep(send_counts_, arguments.send_counts, unequal && holds_all && (scatters || sends),
       arguments.send_blocks);
  keep(send_displacements_, arguments.send_displacements,
       unequal && holds_all && (scatters || sends), arguments.send_blocks);
  keep(recv_counts_, arguments.recv_counts, unequal && holds_all && !scatters,
       arguments.recv_blocks);
  keep(recv_displacements_, arguments.recv_displacements,
       unequal && holds_all && !scatters && arguments.collective != Collective::kReduceScatter,
       arguments.recv_blocks);
}

void CountCopies::copy_of_neighbors(CallArguments& arguments, const Group& group) {
  const Graph& graph = *arguments.options.graph;
  const auto keep = [](std::vector<int64_t>& place, const int64_t*& array, size_t count) {
    place.clear();
    if (count != 0) place.assign(array, array + count);
    array = place.data();
  };
  const bool sends = lists_all(arguments.collective, true) && arguments.send_blocks == nullptr;
  const bool receives = lists_all(arguments.collective, false) && arguments.recv_blocks == nullptr;
  const size_t sent = sends ? graph.destinations(group.rank()).size() : 0;
  const size_t received = receives ? graph.sources(group.rank()).size() : 0;
  keep(send_counts_, arguments.send_counts, sent);
  keep(send_displacements_, arguments.send_displacements, sent);
  keep(recv_counts_, arguments.recv_counts, received);
  keep(recv_displacements_, arguments.recv_displacements, received);
}

}  // namespace ibcoll::c_api
