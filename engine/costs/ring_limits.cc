#include "engine/costs/ring_limits.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/pages.h"

namespace ibcoll {
namespace {

constexpr size_t kShortest = 512;
/// Writing past the caches has to save a twentieth.
constexpr double kWorthIt = 0.95;
/// What the kernel copies takes none of the sender's time and no room in its caches, so the ring
/// has to save more.
constexpr double kWorthTheSender = 0.7;
/// Between the lengths that were measured a straight line, outside of them in proportion.
double time_of(const CopyTimes& times, double bytes) {
  size_t i = 0;
  while (i < kCopyBytes.size() && static_cast<double>(kCopyBytes[i]) < bytes) ++i;
  const auto length = [](size_t of) { return static_cast<double>(kCopyBytes[of]); };
  if (i == 0) return times[0] * bytes / length(0);
  if (i == kCopyBytes.size()) return times[i - 1] * bytes / length(i - 1);
  const double part = (bytes - length(i - 1)) / (length(i) - length(i - 1));
  return times[i - 1] + part * (times[i] - times[i - 1]);
}

/// The lengths that limits are looked for among: eight to each doubling.
std::vector<size_t> lengths() {
  std::vector<size_t> all;
  for (size_t power = kShortest; power < kLongestInRing; power *= 2)
    for (size_t i = 8; i < 16; ++i) all.push_back(power * i / 8);
  all.push_back(kLongestInRing);
  return all;
}

/// The longest one up to which `is_better`(length) never fails; the shortest of all, if none.
template <class Better>
size_t longest(const Better& is_better) {
  size_t limit = kShortest;
  for (const size_t length : lengths()) {
    if (!is_better(static_cast<double>(length))) break;
    limit = length;
  }
  return limit;
}

}  // namespace

RingLimits ring_limits(const PairCosts& costs) {
  const bool streams = costs.stream_write[0] > 0 && costs.stream_read[0] > 0;
  const auto write = [&](double bytes) { return time_of(costs.write, bytes); };
  const auto read = [&](double bytes) { return time_of(costs.read, bytes); };
  const auto streamed_write = [&](double bytes) { return time_of(costs.stream_write, bytes); };
  const auto streamed_read = [&](double bytes) { return time_of(costs.stream_read, bytes); };
  RingLimits limits;
  if (streams) {
    const std::vector<size_t> all = lengths();
    const auto last = std::find_if(all.rbegin(), all.rend(), [&](size_t length) {
      const auto bytes = static_cast<double>(length);
      return streamed_write(bytes) + streamed_read(bytes) > kWorthIt * (write(bytes) + read(bytes));
    });
    if (last == all.rend())
      limits.streaming = kShortest;
    else if (last != all.rbegin())
      limits.streaming = *std::prev(last);
  }
  // Through the ring the sender copies, then the reader.
  struct Copies {
    double sender, reader;
  };
  const auto ring = [&](double bytes) {
    if (static_cast<size_t>(bytes) < limits.streaming) return Copies{write(bytes), read(bytes)};
    return Copies{streamed_write(bytes), streamed_read(bytes)};
  };
  const auto one_after_the_other = [&](double bytes) {
    const Copies copies = ring(bytes);
    return copies.sender + copies.reader;
  };
  // Who only sends copies the next message while the last one is read, as far as the ring has room.
  const auto overlapping = [&](double bytes) {
    const Copies copies = ring(bytes);
    return std::max(copies.sender, copies.reader);
  };
  // Otherwise the reader copies alone, and answers with a line when it has. Longer ones than usual
  // gain nothing, whatever a line takes: ranks that exchange messages wait for each other's answers
  // at the same time.
  const auto by_mapping = [&](double bytes) { return read(bytes) + costs.round_trip; };
  const RingLimits usual;
  limits.of_shared = std::min(usual.of_shared, longest([&](double bytes) {
                                return one_after_the_other(bytes) <= by_mapping(bytes);
                              }));
  limits.of_shared_one_way =
      std::min(usual.of_shared_one_way,
               longest([&](double bytes) { return overlapping(bytes) <= by_mapping(bytes); }));
  if (costs.vm_call == 0) return limits;  // the kernel forbids it: there is no other way
  // The kernel looks up one page after the other; small ones, for nobody knows before.
  const auto by_kernel = [&](double bytes) {
    const double pages = std::ceil(bytes / static_cast<double>(page_bytes()));
    return costs.vm_call + pages * costs.vm_page + costs.round_trip;
  };
  limits.of_private = longest([&](double bytes) {
    return one_after_the_other(bytes) <= kWorthTheSender * by_kernel(bytes);
  });
  limits.of_private_one_way =
      longest([&](double bytes) { return overlapping(bytes) <= by_kernel(bytes); });
  return limits;
}

}  // namespace ibcoll
