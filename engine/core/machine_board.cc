#include "engine/core/machine_board.h"

#include <algorithm>
#include <utility>

namespace ibcoll {
namespace {

std::vector<Rank> ranks_here(Rank me, std::span<const int> machines) {
  std::vector<Rank> ranks;
  for (size_t rank = 0; rank < machines.size(); ++rank)
    if (machines[rank] == machines[static_cast<size_t>(me)])
      ranks.push_back(static_cast<Rank>(rank));
  return ranks;
}

/// Behind the bells.
ProcessPlace* places_in(const SharedRegion& region, size_t ranks) {
  return reinterpret_cast<ProcessPlace*>(region.data() + ranks * sizeof(Bell));
}

}  // namespace

MachineBoard::MachineBoard(SharedRegion region, Rank me, std::span<const int> machines)
    : region_(std::move(region)), ranks_(ranks_here(me, machines)) {}

SharedRegion::Request MachineBoard::request(Rank me, std::span<const int> machines) {
  const std::vector<Rank> here = ranks_here(me, machines);
  const size_t place =
      static_cast<size_t>(std::lower_bound(here.begin(), here.end(), me) - here.begin());
  const auto prepare = [me, place, ranks = here.size()](SharedRegion& region) -> Status {
    IBCOLL_TRY(SharedRegion::reserve_all(region));
    places_in(region, ranks)[place] = this_place(me);
    return {};
  };
  return {.colour = machines[static_cast<size_t>(me)],
          .bytes = here.size() * (sizeof(Bell) + sizeof(ProcessPlace)),
          .name = "ibcoll-machine",
          .prepare = prepare};
}

Bells MachineBoard::bells() const {
  return {{reinterpret_cast<Bell*>(region_.data()), ranks_.size()}, ranks_};
}

std::span<const ProcessPlace> MachineBoard::places() const {
  return {places_in(region_, ranks_.size()), ranks_.size()};
}

}  // namespace ibcoll
