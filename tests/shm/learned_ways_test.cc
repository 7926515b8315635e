// How a sender follows what its messages take, whatever that is: the test says it.

#include "shm/learned_ways.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace ibcoll::shm {
namespace {

/// What the copies of a message take: the sender's and the reader's.
struct Copies {
  int64_t sender_ns = 0;
  uint32_t reader_ns = 0;
};
using Machine = std::function<Copies(MessageWay way, size_t bytes)>;

/// Two caches, of which the sender's lines are dear to write once the reader has read them.
Copies caches_apart(MessageWay way, size_t bytes) {
  const auto kb = static_cast<int64_t>(bytes / 1024);
  if (way == MessageWay::kRead) return {0, static_cast<uint32_t>(700 + 60 * kb)};
  if (way == MessageWay::kStreamed) return {100 * kb, static_cast<uint32_t>(100 * kb)};
  return {300 * kb, static_cast<uint32_t>(40 * kb)};
}

/// One cache, out of which copies are cheap.
Copies shared_cache(MessageWay way, size_t bytes) {
  const auto kb = static_cast<int64_t>(bytes / 1024);
  if (way == MessageWay::kRead) return {0, static_cast<uint32_t>(2000 + 120 * kb)};
  if (way == MessageWay::kStreamed) return {90 * kb, static_cast<uint32_t>(110 * kb)};
  return {20 * kb, static_cast<uint32_t>(20 * kb)};
}

class Sender {
 public:
  explicit Sender(Machine machine) : machine_(std::move(machine)) {}

  /// One message; gives the way that it went.
  MessageWay send(size_t bytes, MessageWay usual = MessageWay::kRing) {
    const MessageSort sort = MessageSort::of(false, false, bytes);
    const LearnedWays::Next next = ways_.next(sort, usual);
    const Copies copies = machine_(next.way, bytes);
    ways_.sent(sort, usual, next, bytes, ++number_, next.timed ? copies.sender_ns : 0);
    timed_ += next.timed;
    if (next.timed && hears_)
      ways_.hear(number_, copies_ == nullptr || copies_(number_) ? copies.reader_ns : 0);
    return next.way;
  }
  /// How many of the next messages go that way.
  int count(MessageWay way, int messages, size_t bytes, MessageWay usual = MessageWay::kRing) {
    int count = 0;
    for (int i = 0; i < messages; ++i) count += send(bytes, usual) == way;
    return count;
  }
  void move_to(Machine machine) { machine_ = std::move(machine); }
  void hear_nothing() { hears_ = false; }
  /// Only of these the receiver can say what they take: it does not combine them.
  void hear_of(std::function<bool(uint32_t number)> copies) { copies_ = std::move(copies); }
  int timed() const { return timed_; }
  const LearnedWays& ways() const { return ways_; }

 private:
  Machine machine_;
  LearnedWays ways_{100};
  uint32_t number_ = 0;
  int timed_ = 0;
  bool hears_ = true;
  std::function<bool(uint32_t)> copies_;  ///< null: all are
};

constexpr size_t kLong = 65536;

TEST(LearnedWays, AMessageGoesTheUsualWayUntilAnotherHasTakenLess) {
  Sender sender(caches_apart);
  EXPECT_EQ(sender.count(MessageWay::kRing, 40, kLong), 40);
  sender.count(MessageWay::kRing, 400, kLong);
  // 0.7 of 4640 ns, beside 12800 and 21760.
  EXPECT_GE(sender.count(MessageWay::kRead, 1000, kLong), 970);
}

/// A busy machine: each way is dear once it is in use, and dearer than the other was before.
TEST(LearnedWays, AWayThatWasNeverTriedGoesBeforeOneThatTookLessBefore) {
  MessageWay latest = MessageWay::kRead;
  int in_a_row = 0, uses = 0;
  Sender sender([&](MessageWay way, size_t bytes) {
    if (way == MessageWay::kRead) return Copies{0, 1000};
    in_a_row = way == latest ? in_a_row + 1 : 0;
    latest = way;
    if (in_a_row == 8) ++uses;
    const int64_t for_each_kb = in_a_row < 8 ? 100 : 200 + 100 * uses;
    return Copies{for_each_kb * static_cast<int64_t>(bytes / 1024), 1000};
  });
  sender.count(MessageWay::kRing, 150, kLong);
  EXPECT_GE(sender.count(MessageWay::kRead, 100, kLong), 90);
}

TEST(LearnedWays, RanksThatAreMovedFollowWithinAHundredMessages) {
  Sender sender(shared_cache);
  sender.count(MessageWay::kRing, 2000, kLong);
  EXPECT_GE(sender.count(MessageWay::kRing, 1000, kLong), 950);
  sender.move_to(caches_apart);
  sender.count(MessageWay::kRing, 100, kLong);
  EXPECT_GE(sender.count(MessageWay::kRead, 100, kLong), 90);
}

TEST(LearnedWays, AWayThatHasBecomeBetterIsFoundAfterAWhile) {
  Sender sender(caches_apart);
  sender.count(MessageWay::kRing, 2000, kLong);
  sender.move_to(shared_cache);
  sender.count(MessageWay::kRing, 3000, kLong);
  EXPECT_GE(sender.count(MessageWay::kRing, 1000, kLong), 950);
}

TEST(LearnedWays, TrialsTakeAFewHundredthsOfTheTime) {
  for (const Machine& machine : {Machine(caches_apart), Machine(shared_cache)}) {
    for (const size_t bytes : {size_t{2048}, size_t{16384}, kLong}) {
      Sender sender(machine);
      sender.count(MessageWay::kRing, 5000, bytes);
      const auto cost = [&](MessageWay way) {
        const Copies copies = machine(way, bytes);
        return message_ns(way, false, false, static_cast<double>(copies.sender_ns),
                          copies.reader_ns, 100);
      };
      const double best =
          std::min({cost(MessageWay::kRing), cost(MessageWay::kStreamed), cost(MessageWay::kRead)});
      double all = 0;
      constexpr int kMessages = 50'000;
      for (int i = 0; i < kMessages; ++i) all += cost(sender.send(bytes));
      EXPECT_LE(all, 1.1 * best * kMessages) << bytes;
      // A way that is hardly better is not worth a change, but trials take little.
      EXPECT_LE(sender.timed(), kMessages / 4) << bytes;
    }
  }
}

TEST(LearnedWays, AMessageThatTookLongOnceChangesNothing) {
  int messages = 0;
  Sender sender([&messages](MessageWay way, size_t bytes) {
    Copies copies = shared_cache(way, bytes);
    if (++messages % 97 == 0) copies.sender_ns += 5'000'000;  // another program had the core
    return copies;
  });
  sender.count(MessageWay::kRing, 500, kLong);
  EXPECT_GE(sender.count(MessageWay::kRing, 20'000, kLong), 19'000);
}

TEST(LearnedWays, AReceiverThatTellsNothingChangesNothing) {
  Sender sender(caches_apart);
  sender.hear_nothing();
  EXPECT_EQ(sender.count(MessageWay::kRing, 5000, kLong), 5000);
  EXPECT_EQ(sender.ways().finding(MessageSort::of(false, false, kLong).index()).way, std::nullopt);
}

TEST(LearnedWays, MessagesThatNobodyCanTellOfAreNotTriedOtherWays) {
  Sender sender(shared_cache);
  sender.count(MessageWay::kRing, 2000, kLong);
  sender.hear_of([](uint32_t) { return false; });
  EXPECT_GE(sender.count(MessageWay::kRing, 100'000, kLong), 100'000 - 200);
  // What was known before the trial that nobody told of still holds.
  sender.hear_of(nullptr);
  sender.move_to(caches_apart);
  sender.count(MessageWay::kRing, 200, kLong);
  EXPECT_GE(sender.count(MessageWay::kRead, 100, kLong), 90);
}

TEST(LearnedWays, SomeOfThemMayBeAmongOthersInAnyPattern) {
  for (const uint32_t period : {2U, 3U, 4U, 8U}) {
    Sender sender(caches_apart);
    sender.hear_of([period](uint32_t number) { return number % period == 0; });
    sender.count(MessageWay::kRing, 20'000, kLong);
    EXPECT_GE(sender.count(MessageWay::kRead, 1000, kLong), 900) << period;
  }
}

TEST(LearnedWays, LengthsAndKindsOfMemoryAreLearnedApart) {
  Sender sender(caches_apart);
  sender.count(MessageWay::kRing, 2000, kLong);
  const auto finding = [&sender](const MessageSort& sort) {
    return sender.ways().finding(sort.index());
  };
  const LearnedWays::Finding found = finding(MessageSort::of(false, false, kLong));
  EXPECT_EQ(found.way, MessageWay::kRead);
  EXPECT_NEAR(found.ns[static_cast<size_t>(MessageWay::kRead)], 0.7 * (700 + 60 * 64 + 100), 100);
  EXPECT_EQ(finding(MessageSort::of(false, false, 32768)).way, std::nullopt);
  EXPECT_EQ(finding(MessageSort::of(false, true, kLong)).way, std::nullopt);
  EXPECT_EQ(finding(MessageSort::of(true, false, kLong)).way, std::nullopt);
}

TEST(LearnedWays, WhatIsKnownIsReportedDuringATrialToo) {
  Sender sender(shared_cache);
  sender.count(MessageWay::kRing, 200, kLong);
  int tried = 0;
  for (int i = 0; i < 2000; ++i) {
    tried += sender.send(kLong) != MessageWay::kRing;
    for (const double ns : sender.ways().finding(MessageSort::of(false, false, kLong).index()).ns)
      ASSERT_GT(ns, 0) << i;
  }
  EXPECT_GT(tried, 0);
}

TEST(MessageSort, HoldsTheLengthsUpToAPowerOfTwo) {
  EXPECT_EQ(MessageSort::of(true, true, 1025).from(), 1025);
  EXPECT_EQ(MessageSort::of(true, true, 2048).to(), 2048);
  EXPECT_EQ(MessageSort::of(true, true, 2049).length, 1);
  EXPECT_EQ(MessageSort::of(false, true, 131072).length, MessageSort::kLengths - 1);
  for (size_t i = 0; i < MessageSort::kSorts; ++i) EXPECT_EQ(MessageSort::at(i).index(), i);
}

}  // namespace
}  // namespace ibcoll::shm
