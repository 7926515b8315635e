#include "engine/core/machine_board.h"

#include <algorithm>
#include <utility>

namespace ibcoll {
namespace {

size_t count_here(Rank me, std::span<const int> machines) {
  const int here = machines[static_cast<size_t>(me)];
  return static_cast<size_t>(std::count(machines.begin(), machines.end(), here));
}

/// Behind the bells.
ProcessPlace* places_in(const SharedRegion& region, size_t ranks) {
  return reinterpret_cast<ProcessPlace*>(region.data() + ranks * sizeof(Bell));
}

}  // namespace

MachineBoard::MachineBoard(SharedRegion region, Rank me, std::span<const int> machines)
    : region_(std::move(region)), ranks_(machines.size()), here_(count_here(me, machines)) {}

SharedRegion::Request MachineBoard::request(Rank me, std::span<const int> machines) {
  const size_t ranks = machines.size();
  const size_t before = count_here(me, machines.first(static_cast<size_t>(me) + 1)) - 1;
  const auto prepare = [me, ranks, before](SharedRegion& region) -> Status {
    IBCOLL_TRY(SharedRegion::reserve_all(region));
    places_in(region, ranks)[before] = this_place(me);
    return {};
  };
  return {.colour = machines[static_cast<size_t>(me)],
          .bytes = ranks * sizeof(Bell) + count_here(me, machines) * sizeof(ProcessPlace),
          .name = "ibcoll-machine",
          .prepare = prepare};
}

std::span<Bell> MachineBoard::bells() const {
  return {reinterpret_cast<Bell*>(region_.data()), ranks_};
}

std::span<const ProcessPlace> MachineBoard::places() const {
  return {places_in(region_, ranks_), here_};
}

}  // namespace ibcoll
