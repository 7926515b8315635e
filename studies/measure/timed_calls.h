#pragma once
/// Calls back to back, between readings of the clock: what all benchmarks of collectives time.

#include <cstdint>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/call.h"
#include "engine/core/context.h"

namespace ibcoll::measure {

/// One rank's calls of its world group. All functions that return a Result are collective.
class TimedCalls {
 public:
  TimedCalls(Bootstrap& bootstrap, Context& context)
      : bootstrap_(bootstrap),
        context_(context),
        call_(context.world()),
        barrier_(context.world()) {}

  /// Before anything else.
  Status prepare();
  /// The steps of a blocking call of the C interface.
  Status call(const CallArguments& arguments);
  /// A barrier.
  Status synchronise();
  /// So many calls: the ns that one has taken here. Ranks meet at synchronise() before.
  Result<double> batch(const CallArguments& arguments, int64_t calls);
  /// How many calls take so long together, as rank 0 finds out; at least one, the same on all
  /// ranks.
  Result<int64_t> calls_in(int64_t batch_ns, const CallArguments& arguments);
  /// The call that is made, for who records it.
  Call& last() { return call_; }

 private:
  Bootstrap& bootstrap_;
  Context& context_;
  Call call_, barrier_;
};

/// Collective: each rank gives as many times; of each the largest over all ranks.
Status take_slowest(Bootstrap& bootstrap, std::vector<double>& times);

}  // namespace ibcoll::measure
