#include "engine/planner/contention_free/link_calendar.h"

#include <algorithm>

namespace ibcoll::contention_free {

namespace {

/// Steps of a block; one with more is cut in two.
constexpr size_t kMostInBlock = 256;

}  // namespace

LinkCalendar::At LinkCalendar::find(int64_t time) const {
  // Most of what is asked for lies near the end.
  size_t block = blocks_.size() - 1;
  if (begins_[block] > time) {
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), time);
    block = static_cast<size_t>(std::max<ptrdiff_t>(after - begins_.begin() - 1, 0));
  }
  const Block& steps = blocks_[block];
  size_t index = steps.size() - 1;
  for (int tries = 0; tries < 4; ++tries, --index) {
    if (index == 0 || steps[index].begin <= time) return {block, index};
  }
  const auto after =
      std::upper_bound(steps.begin(), steps.begin() + static_cast<ptrdiff_t>(index) + 1, time,
                       [](int64_t value, const Step& step) { return value < step.begin; });
  return {block, static_cast<size_t>(std::max<ptrdiff_t>(after - steps.begin() - 1, 0))};
}

int64_t LinkCalendar::fit(int64_t from_ns, int64_t length_ns, int need) const {
  int64_t begin = from_ns;
  for (At at = find(from_ns);; at = next(at)) {
    if (is_last(at)) return begin;  // the last step is free
    const int64_t end = step(next(at)).begin;
    if (step(at).used + need > units_) {
      begin = end;
    } else if (end >= begin + length_ns) {
      return begin;
    }
  }
}

LinkCalendar::At LinkCalendar::split(int64_t time) {
  const At at = find(time);
  if (step(at).begin == time) return at;
  Block& steps = blocks_[at.block];
  steps.insert(steps.begin() + static_cast<ptrdiff_t>(at.index) + 1, {time, steps[at.index].used});
  if (steps.size() <= kMostInBlock) return {at.block, at.index + 1};
  const auto middle = steps.begin() + static_cast<ptrdiff_t>(kMostInBlock / 2);
  Block rest(middle, steps.end());
  steps.erase(middle, steps.end());
  const auto place = static_cast<ptrdiff_t>(at.block) + 1;
  begins_.insert(begins_.begin() + place, rest.front().begin);
  blocks_.insert(blocks_.begin() + place, std::move(rest));
  return find(time);
}

void LinkCalendar::erase(At at) {
  Block& steps = blocks_[at.block];
  steps.erase(steps.begin() + static_cast<ptrdiff_t>(at.index));
  const auto place = static_cast<ptrdiff_t>(at.block);
  if (steps.empty()) {
    blocks_.erase(blocks_.begin() + place);
    begins_.erase(begins_.begin() + place);
  } else {
    begins_[at.block] = steps.front().begin;
  }
}

void LinkCalendar::smooth(At at) {
  const bool first = at == At{0, 0};
  if (!is_last(at)) {
    const Step& after = step(next(at));
    if (after.begin - step(at).begin < shortest_ns_) {
      const int before = first ? units_ : step(previous(at)).used;
      step(at).used = std::max(step(at).used, std::min(before, after.used));
    }
    if (after.used == step(at).used) erase(next(at));
  }
  if (!first && step(previous(at)).used == step(at).used) erase(at);
}

void LinkCalendar::take(int64_t begin_ns, int64_t length_ns, int need) {
  if (length_ns <= 0) return;
  split(begin_ns);
  const At end = split(begin_ns + length_ns);
  const At first = find(begin_ns), last = previous(end);
  for (At at = first; at != end; at = next(at)) step(at).used += need;
  smooth(end);
  if (last != first) smooth(last);
  smooth(first);
  if (first != At{0, 0}) smooth(previous(first));
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
