#include "engine/planner/contention_free/timeline.h"

#include <algorithm>

namespace ibcoll::contention_free {

size_t Timeline::find(int64_t time) const {
  // Most of what is asked for lies near the end.
  size_t step = steps_.size() - 1;
  for (int tries = 0; tries < 4; ++tries, --step) {
    if (steps_[step].begin <= time) return step;
    if (step == 0) return 0;
  }
  const auto after = std::upper_bound(
      steps_.begin(), steps_.begin() + static_cast<ptrdiff_t>(step) + 1, time,
      [](int64_t value, const Step& candidate) { return value < candidate.begin; });
  return static_cast<size_t>(std::max<ptrdiff_t>(after - steps_.begin() - 1, 0));
}

int64_t Timeline::fit(int64_t from_ns, int64_t length_ns, int need) const {
  int64_t begin = from_ns;
  for (size_t step = find(from_ns); step < steps_.size(); ++step) {
    const bool last = step + 1 == steps_.size();
    if (steps_[step].used + need > units_) {
      begin = steps_[step + 1].begin;  // the last step is free
    } else if (last || steps_[step + 1].begin >= begin + length_ns) {
      return begin;
    }
  }
  return begin;
}

size_t Timeline::split(int64_t time) {
  const size_t step = find(time);
  if (steps_[step].begin == time) return step;
  steps_.insert(steps_.begin() + static_cast<ptrdiff_t>(step) + 1, {time, steps_[step].used});
  return step + 1;
}

void Timeline::smooth(size_t step) {
  if (step >= steps_.size()) return;
  if (step + 1 < steps_.size() && steps_[step + 1].begin - steps_[step].begin < shortest_ns_) {
    const int before = step == 0 ? units_ : steps_[step - 1].used;
    const int level = std::min(before, steps_[step + 1].used);
    steps_[step].used = std::max(steps_[step].used, level);
  }
  if (step + 1 < steps_.size() && steps_[step + 1].used == steps_[step].used) {
    steps_.erase(steps_.begin() + static_cast<ptrdiff_t>(step) + 1);
  }
  if (step > 0 && steps_[step - 1].used == steps_[step].used) {
    steps_.erase(steps_.begin() + static_cast<ptrdiff_t>(step));
  }
}

void Timeline::take(int64_t begin_ns, int64_t length_ns, int need) {
  if (length_ns <= 0) return;
  const size_t first = split(begin_ns);
  const size_t end = split(begin_ns + length_ns);
  for (size_t step = first; step < end; ++step) steps_[step].used += need;
  smooth(end);
  if (end - 1 != first) smooth(end - 1);
  smooth(first);
  if (first > 0) smooth(first - 1);
}

void Tail::take(int64_t begin_ns, int64_t length_ns, int need) {
  const int64_t end_ns = begin_ns + length_ns;
  if (shares_.size() == 1 && shares_[0].units == need) {
    shares_[0].free_ns = end_ns;
    return;
  }
  size_t gone = 0;
  for (int left = need; left > 0;) {
    const int taken = std::min(left, shares_[gone].units);
    shares_[gone].units -= taken;
    left -= taken;
    if (shares_[gone].units == 0) ++gone;
  }
  shares_.erase(shares_.begin(), shares_.begin() + static_cast<ptrdiff_t>(gone));
  const auto after =
      std::upper_bound(shares_.begin(), shares_.end(), end_ns,
                       [](int64_t time, const Share& share) { return time < share.free_ns; });
  if (after != shares_.begin() && (after - 1)->free_ns == end_ns) {
    (after - 1)->units += need;
  } else {
    shares_.insert(after, {end_ns, need});
  }
}

}  // namespace ibcoll::contention_free
