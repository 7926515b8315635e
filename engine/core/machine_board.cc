#include "engine/core/machine_board.h"

#include <algorithm>
#include <utility>

#include "engine/base/pages.h"

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

/// Behind the places.
size_t begin_of_verdicts(size_t ranks) {
  return round_up(ranks * (sizeof(Bell) + sizeof(ProcessPlace)), 64);
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
    if (place == 0) Verdicts::prepare(region.data() + begin_of_verdicts(ranks));
    return {};
  };
  return {.colour = machines[static_cast<size_t>(me)],
          .bytes = begin_of_verdicts(here.size()) + Verdicts::bytes(here.size()),
          .name = "ibcoll-machine",
          .prepare = prepare};
}

Bells MachineBoard::bells() const {
  return {{reinterpret_cast<Bell*>(region_.data()), ranks_.size()}, ranks_};
}

std::span<const ProcessPlace> MachineBoard::places() const {
  return {places_in(region_, ranks_.size()), ranks_.size()};
}

Verdicts MachineBoard::verdicts() const {
  return {region_.data() + begin_of_verdicts(ranks_.size()), ranks_.size()};
}

}  // namespace ibcoll
