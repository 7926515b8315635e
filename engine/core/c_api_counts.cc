#include "engine/core/c_api_counts.h"

#include <cstring>

namespace ibcoll::c_api {

void CountCopies::copy(CallArguments& a, const Group& group) {
  const CollectiveTraits& row = traits(a.collective);
  const Graph* const graph = a.options.graph.get();
  const Rank me = group.rank();
  // Entries that are read: of lists, unless layouts stand in their place.
  uint32_t sent = 0, received = 0;
  const bool one_list = a.in_place && row.in_place == InPlace::kAside;
  if (row.send.lists() && !one_list && a.send_blocks == nullptr)
    sent = send_slots(a.collective, group.shape(), me, a.root, graph);
  if (row.recv.lists() && a.recv_blocks == nullptr)
    received = recv_slots(a.collective, group.shape(), me, a.root, graph);
  const bool elements = row.recv.lengths == Lengths::kElements;
  const auto keep = [](std::vector<int64_t>& place, const int64_t*& array, uint32_t count) {
    place.clear();
    if (count != 0) place.assign(array, array + count);
    array = count != 0 ? place.data() : nullptr;
  };
  keep(send_counts_, a.send_counts, sent);
  keep(send_displacements_, a.send_displacements, sent);
  keep(recv_counts_, a.recv_counts, elements ? static_cast<uint32_t>(group.size()) : received);
  keep(recv_displacements_, a.recv_displacements, received);
}

bool CountCopies::are_of(const ibcoll_call& call) const {
  const auto same = [](const std::vector<int64_t>& copy, const int64_t* array) {
    return copy.empty() || std::memcmp(copy.data(), array, copy.size() * sizeof *array) == 0;
  };
  return same(send_counts_, call.send_counts) &&
         same(send_displacements_, call.send_displacements) &&
         same(recv_counts_, call.recv_counts) && same(recv_displacements_, call.recv_displacements);
}

}  // namespace ibcoll::c_api
