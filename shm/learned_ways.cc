#include "shm/learned_ways.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace ibcoll::shm {
namespace {

/// The way that a trial goes after that one.
MessageWay after(MessageWay way) {
  return static_cast<MessageWay>((static_cast<size_t>(way) + 1) % kMessageWays);
}

/// A way has to be so much better to be taken.
constexpr bool is_better(uint32_t cost, uint32_t than) { return cost * 10 < than * 9; }

/// What trials may take, in per cent.
constexpr uint32_t kMostLoss = 2;

/// Of a record's costs: so many are a nanosecond, for so many bytes.
constexpr double kPerNanosecond = 4;
constexpr double kBytes = 1024;

}  // namespace

MessageSort MessageSort::of(bool shared, bool one_way, size_t bytes) {
  return {shared, one_way, static_cast<size_t>(std::bit_width((bytes - 1) / kShortest)) - 1};
}

MessageSort MessageSort::at(size_t index) {
  return {index / (2 * kLengths) != 0, index / kLengths % 2 != 0, index % kLengths};
}

/// Of a way that has been timed as often, else 0.
uint32_t LearnedWays::median(const Costs& costs) {
  static_assert(kLatest == 3);
  if (costs[0] == 0) return 0;
  const auto [low, high] = std::minmax(costs[1], costs[2]);
  return std::clamp(costs[0], low, high);
}

LearnedWays::Next LearnedWays::next(const MessageSort& sort, MessageWay usual) const {
  const Record& record = records_[sort.index()];
  const bool tries = record.tried_messages != 0;
  return {tries ? record.tried : own_way(record, usual),
          !awaits() && (tries || record.until_timed == 0)};
}

void LearnedWays::sent(const MessageSort& sort, MessageWay usual, const Next& how, size_t bytes,
                       uint32_t number, int64_t sender_ns) {
  Record& record = records_[sort.index()];
  if (awaits() && ++awaited_.passed > kMostTried) awaited_.sort = kNone;  // it will not be told
  if (how.timed) awaited_ = {sort.index(), how.way, usual, number, sender_ns, bytes, 0};
  if (how.timed)
    record.until_timed = static_cast<uint8_t>(kTimedEach - 1);
  else if (record.until_timed != 0)
    --record.until_timed;
  const MessageWay own = own_way(record, usual);
  if (record.tried_messages == 0) {
    if (record.count < UINT16_MAX) ++record.count;
    if (is_due(record, own)) begin_trial(record, own);
  } else if (++record.tried_messages > kMostTried) {
    end_trial(record, own);
  }
}

void LearnedWays::hear(uint32_t number, uint32_t receiver_ns) {
  if (!awaits() || number != awaited_.number) return;
  const Awaited told = std::exchange(awaited_, Awaited{});
  Record& record = records_[told.sort];
  if (receiver_ns == 0) {
    // Of the messages that a program sends in turn it may be the same one each time that can't be
    // told of.
    random_ = random_ * 1664525 + 1013904223;
    record.until_timed = static_cast<uint8_t>((random_ >> 16) % kTimedEach);
    return;
  }
  const bool tried = record.tried_messages != 0 && told.way == record.tried;
  // The first one finds the caches as the other way has left them.
  if (tried && record.heard++ == 0) return;
  const MessageSort sort = MessageSort::at(told.sort);
  const double ns = message_ns(told.way, sort.shared, sort.one_way,
                               static_cast<double>(told.sender_ns), receiver_ns, round_trip_ns_);
  const double cost = ns * kPerNanosecond * kBytes / static_cast<double>(told.bytes);
  Costs& costs = record.costs[static_cast<size_t>(told.way)];
  costs = {costs[1], costs[2], static_cast<uint16_t>(std::clamp<double>(cost, 1, UINT16_MAX))};
  record.answered |= !tried;
  if (tried && record.heard > kLatest) end_trial(record, own_way(record, told.usual));
}

/// Once it is known what messages take on their own way: after the pause, or at once where another
/// way took less than they take by now. Not as long as nobody tells of them.
bool LearnedWays::is_due(const Record& record, MessageWay own) {
  if (record.count < kSoonest || !record.answered || cost_of(record, own) == 0) return false;
  return record.count >= record.pause || better_way(record, own) != own;
}

/// The way that took least as far as known, if it is worth a change.
MessageWay LearnedWays::better_way(const Record& record, MessageWay own) {
  MessageWay best = own;
  for (const MessageWay way : {MessageWay::kRing, MessageWay::kStreamed, MessageWay::kRead}) {
    const uint32_t cost = cost_of(record, way);
    if (cost != 0 && is_better(cost, cost_of(record, own)) &&
        (best == own || cost < cost_of(record, best)))
      best = way;
  }
  return best;
}

/// A way that took less before goes first, but not before one of which nothing is known: where the
/// costs of two keep changing, the third would never be tried.
void LearnedWays::begin_trial(Record& record, MessageWay own) {
  const MessageWay better = better_way(record, own), next = next_tried(record, own);
  record.tried = better != own && cost_of(record, next) != 0 ? better : next;
  record.before = std::exchange(record.costs[static_cast<size_t>(record.tried)], Costs{});
  record.tried_messages = 1;
  record.heard = 0;
}

void LearnedWays::end_trial(Record& record, MessageWay own) {
  const uint32_t cost = cost_of(record, record.tried);
  if (cost != 0 && is_better(cost, cost_of(record, own))) {
    record.way = own = record.tried;
    record.known = true;
  }
  if (cost == 0) record.costs[static_cast<size_t>(record.tried)] = record.before;
  const uint32_t tried = std::max(std::exchange(record.tried_messages, 0), kTried);
  record.count = 0;
  record.answered = false;
  const uint32_t next = cost_of(record, next_tried(record, own)), now = cost_of(record, own);
  const uint32_t loss = next > now && now != 0 ? (next - now) * 100 / now : 0;  // per cent
  record.pause =
      static_cast<uint16_t>(std::clamp<uint32_t>(tried * loss / kMostLoss, kSoonest, kLatestTrial));
}

MessageWay LearnedWays::next_tried(const Record& record, MessageWay own) {
  const MessageWay next = after(record.tried);
  return next != own ? next : after(next);
}

LearnedWays::Finding LearnedWays::finding(size_t index) const {
  const Record& record = records_[index];
  Finding finding;
  if (record.known) finding.way = record.way;
  for (size_t way = 0; way < kMessageWays; ++way) {
    uint32_t cost = median(record.costs[way]);
    const bool tries = record.tried_messages != 0 && way == static_cast<size_t>(record.tried);
    if (tries && cost == 0) cost = median(record.before);
    finding.ns[way] =
        cost / kPerNanosecond * static_cast<double>(MessageSort::at(index).to()) / kBytes;
  }
  return finding;
}

}  // namespace ibcoll::shm
