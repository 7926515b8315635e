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

double message_ns(MessageWay way, bool shared, bool one_way, double sender_ns, double reader_ns,
                  double round_trip_ns) {
  if (way == MessageWay::kRead) {
    // The reader copies alone, and answers with a line when it has.
    const double ns = reader_ns + round_trip_ns;
    return shared || one_way ? ns : kWorthTheSender * ns;
  }
  // Through the ring the sender copies, then the reader. Who only sends copies the next message
  // while the last one is read, as far as the ring has room.
  return one_way ? std::max(sender_ns, reader_ns) : sender_ns + reader_ns;
}

RingLimits longest_limits(int ranks) {
  constexpr int kManyReaders = 4;
  constexpr size_t kShort = 16384;
  RingLimits limits;
  // Many can read at once what one has to send to all of them.
  if (ranks > kManyReaders) limits.of_private_one_way = kShort;
  return limits;
}

RingLimits ring_limits(const PairCosts& costs) {
  const bool streams = costs.stream_write[0] > 0 && costs.stream_read[0] > 0;
  RingLimits limits;
  limits.round_trip_ns = costs.round_trip;
  const auto through_ring = [&](bool streamed, bool one_way, double bytes) {
    return message_ns(streamed ? MessageWay::kStreamed : MessageWay::kRing, false, one_way,
                      time_of(streamed ? costs.stream_write : costs.write, bytes),
                      time_of(streamed ? costs.stream_read : costs.read, bytes), costs.round_trip);
  };
  if (streams) {
    const std::vector<size_t> all = lengths();
    const auto last = std::find_if(all.rbegin(), all.rend(), [&](size_t length) {
      const auto bytes = static_cast<double>(length);
      return through_ring(true, false, bytes) > kWorthIt * through_ring(false, false, bytes);
    });
    if (last == all.rend())
      limits.streaming = kShortest;
    else if (last != all.rbegin())
      limits.streaming = *std::prev(last);
  }
  const auto read = [&](bool shared, bool one_way, double reader_ns) {
    return message_ns(MessageWay::kRead, shared, one_way, 0, reader_ns, costs.round_trip);
  };
  const auto longest_in_ring = [&](bool shared, bool one_way, const auto& reader_ns) {
    return longest([&](double bytes) {
      const bool streamed = static_cast<size_t>(bytes) >= limits.streaming;
      return through_ring(streamed, one_way, bytes) <= read(shared, one_way, reader_ns(bytes));
    });
  };
  // Longer ones than usual gain nothing, whatever a line takes: ranks that exchange messages wait
  // for each other's answers at the same time.
  const RingLimits usual;
  const auto by_mapping = [&](double bytes) { return time_of(costs.read, bytes); };
  limits.of_shared = std::min(usual.of_shared, longest_in_ring(true, false, by_mapping));
  limits.of_shared_one_way =
      std::min(usual.of_shared_one_way, longest_in_ring(true, true, by_mapping));
  if (costs.vm_call == 0) return limits;  // the kernel forbids it: there is no other way
  // The kernel looks up one page after the other; small ones, for nobody knows before.
  const auto by_kernel = [&](double bytes) {
    return costs.vm_call + std::ceil(bytes / static_cast<double>(page_bytes())) * costs.vm_page;
  };
  limits.of_private = longest_in_ring(false, false, by_kernel);
  limits.of_private_one_way = longest_in_ring(false, true, by_kernel);
  return limits;
}

}  // namespace ibcoll
