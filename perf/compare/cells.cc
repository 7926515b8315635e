#include "perf/compare/cells.h"

#include <algorithm>

#include "engine/base/stats.h"

namespace ibcoll::compare {

double least_faster(int ranks, int cores) { return ranks > cores ? 0.90 : 0.95; }

Interval speedup(const Rounds& theirs, const Rounds& ours) {
  const std::vector<double> a = medians(theirs), b = medians(ours);
  std::vector<double> faster;
  for (size_t i = 0; i < a.size(); ++i) faster.push_back(a[i] / b[i]);
  return interval(faster);
}

Interval speedup_over_fastest(const std::vector<const Rounds*>& theirs, const Rounds& ours) {
  const auto fastest =
      std::min_element(theirs.begin(), theirs.end(), [](const Rounds* one, const Rounds* other) {
        return median(medians(*one)) < median(medians(*other));
      });
  return speedup(**fastest, ours);
}

char mark(bool measured_again, bool below) { return below ? '!' : measured_again ? '?' : ' '; }

void add_interval(nlohmann::ordered_json& line, const std::string& name, const Interval& interval) {
  line[name] = interval.value;
  line[name + "_low"] = interval.low;
  line[name + "_high"] = interval.high;
}

}  // namespace ibcoll::compare
