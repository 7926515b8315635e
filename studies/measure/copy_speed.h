#pragma once
/// How fast the cores of this machine could carry out a collective if nobody ever had to wait: the
/// yardstick for what shared memory allows.

#include <memory>
#include <string_view>
#include <vector>

#include "engine/base/copy.h"
#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"
#include "studies/measure/traffic.h"

namespace ibcoll::measure {

/// Copies exactly the blocks of a collective, from the origins' buffers into the targets', with as
/// many processes and the same total footprint, and no synchronisation in what is timed.
///
/// Ranks that share a core copy in turns, each its part of one call, and only the copying is timed:
/// so between two uses of a block all others were used, as in the collective itself. (Left to the
/// scheduler's time slices, the ranks that happen to run would find their blocks in the cache and
/// make the machine look several times faster than it is.) The time of one call is the sum over
/// the ranks of a core, of the core that takes longest.
class CopySpeed {
 public:
  /// Collective over all ranks, which must be on one machine. Takes memory for `largest`.
  static Result<CopySpeed> create(Bootstrap& bootstrap, const Traffic& largest);
  CopySpeed(CopySpeed&&) noexcept;
  ~CopySpeed();

  /// Collective: nanoseconds of copying in one call, for each of `samples` calls (or means over
  /// several calls where one is too short to time). The same on all ranks.
  Result<std::vector<double>> time_calls(const Traffic& traffic, CopyKernel kernel, int samples);

  /// Collective: median nanoseconds of one call with the fastest kernel, and which one it was.
  struct Best {
    double call_ns = 0;
    std::string_view kernel;
  };
  Result<Best> best(const Traffic& traffic, int samples);

 private:
  struct State;
  explicit CopySpeed(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ibcoll::measure
