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
  Digest kernel;
  std::array<int64_t, kBarriers> entered{}, left{};
};

}  // namespace

Result<ClockOffset> measure_clock_offset(Bootstrap& bootstrap) {
  Passages mine{.kernel = this_kernel()};
  for (int i = 0; i < kBarriers; ++i) {
    mine.entered[i] = now_ns();
    IBCOLL_TRY(bootstrap.barrier());
    mine.left[i] = now_ns();
  }
  std::vector<Passages> all(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, all.data()));
  if (mine.kernel == all[0].kernel) return ClockOffset{};
  int64_t low = INT64_MIN, high = INT64_MAX;
  for (int i = 0; i < kBarriers; ++i) {
    low = std::max(low, mine.entered[i] - all[0].left[i]);
    high = std::min(high, mine.left[i] - all[0].entered[i]);
  }
  return ClockOffset{low + (high - low) / 2, (high - low) / 2};
}

}  // namespace ibcoll::measure
