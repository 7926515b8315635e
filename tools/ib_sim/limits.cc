#include "tools/ib_sim/limits.h"

#include <algorithm>

#include "engine/base/units.h"
#include "studies/simulate/run_estimate.h"

namespace ibcoll::tools {

using namespace ibcoll::sim;

CollectiveOptions options_of(const Settings& settings, size_t shape, Mode mode, int64_t size) {
  CollectiveOptions options = settings.options;
  options.mode = mode;
  options.run.block_bytes = static_cast<uint64_t>(size);
  options.hosts = settings.hosts[shape];
  options.algorithm.graph = settings.graphs[shape];
  return options;
}

Status check_limits(const Settings& settings) {
  if (settings.options.network.level != Level::kFlow) return {};
  double seconds = 0;
  for (size_t i = 0; i < settings.shapes.size(); ++i) {
    const Shape& shape = settings.shapes[i];
    for (const Algorithm* algorithm : settings.algorithms) {
      for (const Mode mode : settings.modes) {
        for (const int64_t size : settings.sizes) {
          const RunEstimate run =
              estimate_run(*algorithm, shape, settings.fabric, options_of(settings, i, mode, size));
          seconds += run.seconds;
          const uint64_t bytes = run.bytes + run.flight_bytes;
          if (bytes <= settings.most_bytes && seconds <= settings.most_seconds) continue;
          return fail(ErrorCode::kInvalidArgument,
                      "{} {} of {} ranks as flows takes some {:.1f} GB of memory, and the runs up "
                      "to it {:.0f} s of processor time or more; allowed are {:.1f} GB "
                      "(--most-memory) and {:.0f} s (--most-time)",
                      to_string(settings.collective), algorithm->name, shape.describe(),
                      static_cast<double>(bytes) / 1e9, seconds,
                      static_cast<double>(settings.most_bytes) / 1e9, settings.most_seconds);
        }
      }
    }
  }
  return {};
}

}  // namespace ibcoll::tools
