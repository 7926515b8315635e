#include "studies/measure/clock_offset.h"

#include <algorithm>
#include <array>
#include <vector>

#include "engine/base/clock.h"
#include "engine/bootstrap/machine.h"

namespace ibcoll::measure {
namespace {

constexpr int kBarriers = 20;

struct Passages {
  std::array<int64_t, kBarriers> entered{}, left{};
};

}  // namespace

Result<ClockOffset> measure_clock_offset(Bootstrap& bootstrap) {
  IBCOLL_ASSIGN(const std::vector<ProcessPlace> places, exchange_places(bootstrap));
  const auto me = static_cast<size_t>(bootstrap.rank());
  Passages mine;
  for (int i = 0; i < kBarriers; ++i) {
    mine.entered[i] = now_ns();
    IBCOLL_TRY(bootstrap.barrier());
    mine.left[i] = now_ns();
  }
  std::vector<Passages> all(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, all.data()));
  if (places[me].machine.boot == places[0].machine.boot) return ClockOffset{};
  int64_t low = INT64_MIN, high = INT64_MAX;
  for (int i = 0; i < kBarriers; ++i) {
    low = std::max(low, mine.entered[i] - all[0].left[i]);
    high = std::min(high, mine.left[i] - all[0].entered[i]);
  }
  return ClockOffset{low + (high - low) / 2, (high - low) / 2};
}

}  // namespace ibcoll::measure
