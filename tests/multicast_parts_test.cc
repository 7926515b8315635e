// What the runtime of multicasts is made of: the pool, the order of delivery, the master's window.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "engine/multicast/delivery_order.h"
#include "engine/multicast/pool.h"
#include "engine/multicast/window.h"

namespace ibcoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Memory that is counted, and runs out where it is told to.
struct Memory {
  size_t taken = 0, most = 0, times = 0, limit = SIZE_MAX;

  MulticastPool pool(size_t bytes) {
    return MulticastPool(
        bytes,
        [this](size_t size) -> Result<std::byte*> {
          if (taken + size > limit) return fail(ErrorCode::kNoMemory, "out of memory");
          taken += size;
          most = std::max(most, taken);
          ++times;
          return static_cast<std::byte*>(std::aligned_alloc(64, size));
        },
        [this](std::byte* buffer, size_t size) {
          taken -= size;
          std::free(buffer);
        });
  }
};

std::byte* taken(MulticastPool& pool, Rank master, size_t bytes) {
  return pool.take(master, bytes).value().value_or(nullptr);
}

constexpr size_t kKb = 1024;

TEST(MulticastPools, LeaveAMasterAsMuchAsIsFree) {
  Memory memory;
  auto pool = memory.pool(12 * kKb);
  std::vector<std::byte*> of_one, of_two;
  while (std::byte* buffer = taken(pool, 1, kKb)) of_one.push_back(buffer);
  EXPECT_EQ(of_one.size(), 6u);
  while (std::byte* buffer = taken(pool, 2, kKb)) of_two.push_back(buffer);
  EXPECT_EQ(of_two.size(), 3u);
  std::byte* const of_three = taken(pool, 3, kKb);
  EXPECT_NE(of_three, nullptr);
  EXPECT_EQ(pool.used(), 10 * kKb);
  // With two masters each has a third once the first has given some back.
  pool.give_back(3, of_three, kKb);
  for (int i = 0; i < 2; ++i) {
    pool.give_back(1, of_one.back(), kKb);
    of_one.pop_back();
  }
  of_two.push_back(taken(pool, 2, kKb));
  EXPECT_NE(of_two.back(), nullptr);
  EXPECT_EQ(taken(pool, 2, kKb), nullptr);
  EXPECT_EQ(taken(pool, 1, kKb), nullptr);
  for (std::byte* buffer : of_one) pool.give_back(1, buffer, kKb);
  for (std::byte* buffer : of_two) pool.give_back(2, buffer, kKb);
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_EQ(pool.most_used(), 10 * kKb);
}

TEST(MulticastPools, HoldOneThatIsLongerThanHalfAlone) {
  Memory memory;
  auto pool = memory.pool(10000);
  std::byte* const small = taken(pool, 1, 1);
  EXPECT_EQ(taken(pool, 2, 9000), nullptr);
  pool.give_back(1, small, 1);
  std::byte* const large = taken(pool, 2, 10000);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(taken(pool, 1, 1), nullptr);
  pool.give_back(2, large, 10000);
  EXPECT_NE(taken(pool, 1, 0), nullptr);
  EXPECT_EQ(pool.used(), 0u);
  const auto refused = pool.take(7, 10049);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoMemory);
  EXPECT_THAT(refused.error().message, HasSubstr("10049 bytes from rank 7"));
  EXPECT_THAT(refused.error().message, HasSubstr("IBCOLL_MULTICAST_MEMORY"));
}

TEST(MulticastPools, KeepBuffersForLaterMessages) {
  Memory memory;
  {
    auto pool = memory.pool(64 * kKb);
    for (int i = 0; i < 100; ++i) pool.give_back(1, taken(pool, 1, 9000), 9000);
    EXPECT_EQ(memory.times, 1u);
    EXPECT_EQ(pool.used(), 0u);
    EXPECT_EQ(pool.kept(), memory.taken);
    // What is kept makes room for others.
    std::byte* const large = taken(pool, 1, 60 * kKb);
    EXPECT_NE(large, nullptr);
    EXPECT_LE(memory.taken, 64 * kKb);
    pool.give_back(1, large, 60 * kKb);
  }
  EXPECT_EQ(memory.taken, 0u);
}

TEST(MulticastPools, SayThatMemoryHasRunOut) {
  Memory memory;
  memory.limit = 8 * kKb;
  auto pool = memory.pool(64 * kKb);
  std::byte* const first = taken(pool, 1, 6 * kKb);
  EXPECT_EQ(pool.take(1, 6 * kKb).error().code, ErrorCode::kNoMemory);
  EXPECT_EQ(pool.used(), 6 * kKb);
  pool.give_back(1, first, 6 * kKb);
  // Kept memory of another size is given back rather than that a message fails.
  std::byte* const other = taken(pool, 1, 4 * kKb);
  EXPECT_NE(other, nullptr);
  pool.give_back(1, other, 4 * kKb);
}

RC_GTEST_PROP(MulticastPools, StayWithinTheirLimit, ()) {
  Memory memory;
  const size_t limit = 64 * *rc::gen::inRange<size_t>(1, 2000);
  std::map<Rank, size_t> held;
  {
    auto pool = memory.pool(limit);
    std::mt19937_64 random(*rc::gen::inRange(0u, 1000000u));
    struct Held {
      Rank master;
      std::byte* buffer;
      size_t bytes;
    };
    std::vector<Held> out;
    for (int step = 0; step < 500; ++step) {
      if (random() % 2 == 0) {
        const auto master = static_cast<Rank>(random() % 3);
        const size_t bytes = random() % (limit >> random() % 6) + 1;
        std::byte* const buffer = taken(pool, master, bytes);
        if (buffer == nullptr) {
          RC_ASSERT(!out.empty());  // an empty pool refuses nothing
          continue;
        }
        RC_ASSERT(reinterpret_cast<uintptr_t>(buffer) % 64 == 0u);
        std::fill_n(buffer, bytes, static_cast<std::byte>(step));
        out.push_back({master, buffer, bytes});
        held[master] += bytes;
      } else if (!out.empty()) {
        std::swap(out[random() % out.size()], out.back());
        pool.give_back(out.back().master, out.back().buffer, out.back().bytes);
        held[out.back().master] -= out.back().bytes;
        out.pop_back();
      }
      size_t all = 0;
      for (const auto& [master, bytes] : held) all += bytes;
      RC_ASSERT(all <= pool.used());
      RC_ASSERT(pool.used() <= limit);
      RC_ASSERT(memory.taken == pool.used() + pool.kept());
      RC_ASSERT(memory.taken <= limit);
    }
    for (const Held& one : out) pool.give_back(one.master, one.buffer, one.bytes);
    RC_ASSERT(pool.used() == 0u);
  }
  RC_ASSERT(memory.taken == 0u);
}

using Messages = std::vector<DeliveryOrder::Message>;

TEST(DeliveryOrders, WaitForTheOneBefore) {
  DeliveryOrder order;
  Messages ready;
  EXPECT_TRUE(order.announce(3, 5, 2));
  order.complete(3, 5, ready);
  EXPECT_THAT(ready, IsEmpty());  // 2 has not been announced
  EXPECT_TRUE(order.announce(4, 9, 0));
  order.complete(4, 9, ready);
  EXPECT_THAT(ready, ElementsAre(std::pair(4, 9)));  // another master's
  EXPECT_TRUE(order.announce(3, 2, 0));
  EXPECT_FALSE(order.announce(3, 2, 0));
  ready.clear();
  order.complete(3, 2, ready);
  EXPECT_THAT(ready, ElementsAre(std::pair(3, 2), std::pair(3, 5)));
  EXPECT_FALSE(order.announce(3, 4, 2));
  EXPECT_EQ(order.remembered(), 2u);
}

TEST(DeliveryOrders, GoOnBehindWhatIsSkipped) {
  DeliveryOrder order;
  Messages ready;
  for (const uint64_t counter : {1, 2, 3, 4}) EXPECT_TRUE(order.announce(0, counter, counter - 1));
  order.complete(0, 2, ready);
  order.complete(0, 4, ready);
  order.skip(0, 6, 5, ready);  // neither 5 nor 6 has been announced
  EXPECT_THAT(ready, IsEmpty());
  order.skip(0, 1, 0, ready);
  EXPECT_THAT(ready, ElementsAre(std::pair(0, 2)));
  order.skip(0, 3, 2, ready);
  EXPECT_THAT(ready, ElementsAre(std::pair(0, 2), std::pair(0, 4)));
  EXPECT_FALSE(order.announce(0, 6, 5));
  EXPECT_TRUE(order.announce(0, 7, 6));
  order.complete(0, 7, ready);
  EXPECT_TRUE(order.announce(0, 5, 4));
  ready.clear();
  order.complete(0, 5, ready);
  EXPECT_THAT(ready, ElementsAre(std::pair(0, 5), std::pair(0, 7)));
  EXPECT_EQ(order.remembered(), 1u);
}

TEST(DeliveryOrders, DropACompleteOneThatIsSkipped) {
  DeliveryOrder order;
  Messages ready;
  EXPECT_TRUE(order.announce(0, 2, 1));
  EXPECT_TRUE(order.announce(0, 3, 2));
  order.complete(0, 2, ready);
  order.complete(0, 3, ready);
  order.skip(0, 2, 1, ready);
  order.complete(0, 2, ready);
  order.skip(0, 1, 0, ready);
  EXPECT_THAT(ready, ElementsAre(std::pair(0, 3)));
}

/// A master that sends to several ranks, its window, and what each rank makes of messages that come
/// in any order, some of them never.
RC_GTEST_PROP(DeliveryOrders, AreThatOfTheMasterHoweverMessagesCome, ()) {
  std::mt19937_64 random(*rc::gen::inRange(0u, 1000000u));
  const int ranks = *rc::gen::inRange(1, 6);
  MulticastWindow window(ranks, 8);
  std::vector<DeliveryOrder> orders(ranks);
  std::vector<std::vector<uint64_t>> got(ranks), wanted(ranks);
  struct UnderWay {
    uint64_t counter;
    std::vector<std::pair<Rank, uint64_t>> to;  ///< and the previous
  };
  std::vector<UnderWay> under_way;
  int left = 200;
  while (left > 0 || !under_way.empty()) {
    std::vector<Rank> members;
    for (Rank rank = 0; rank < ranks; ++rank) {
      if (random() % 2 == 0) members.push_back(rank);
    }
    const RankSet set = RankSet::create(members, ranks).value();
    if (left > 0 && random() % 3 == 0 && !set.empty() && !window.held(set)) {
      std::vector<uint64_t> previous;
      under_way.push_back({window.start(set, previous), {}});
      for (size_t id = 0; id < members.size(); ++id) {
        under_way.back().to.emplace_back(members[id], previous.empty() ? 0 : previous[id]);
      }
      --left;
    }
    if (under_way.empty()) continue;
    UnderWay& one = under_way[random() % under_way.size()];
    std::swap(one.to[random() % one.to.size()], one.to.back());
    const auto [rank, previous] = one.to.back();
    RC_ASSERT(window.previous_of(one.counter, rank) == previous);
    one.to.pop_back();
    Messages ready;
    if (random() % 10 == 0) {
      orders[rank].skip(0, one.counter, previous, ready);
    } else {
      RC_ASSERT(orders[rank].announce(0, one.counter, previous));
      orders[rank].complete(0, one.counter, ready);
      wanted[rank].push_back(one.counter);
    }
    for (const auto& [master, counter] : ready) got[rank].push_back(counter);
    if (!one.to.empty()) continue;
    window.finish(one.counter);
    std::swap(one, under_way.back());
    under_way.pop_back();
  }
  for (Rank rank = 0; rank < ranks; ++rank) {
    std::sort(wanted[rank].begin(), wanted[rank].end());
    RC_ASSERT(got[rank] == wanted[rank]);
    RC_ASSERT(orders[rank].remembered() <= 1u);
  }
}

RankSet set_of(const std::vector<Rank>& members, int ranks = 1000) {
  return RankSet::create(members, ranks).value();
}

TEST(MulticastWindows, NameForEachMemberTheOneBefore) {
  MulticastWindow window(1000, 10);
  std::vector<uint64_t> previous{7};
  EXPECT_EQ(window.start(set_of({1, 2, 3}), previous), 1u);
  EXPECT_THAT(previous, IsEmpty());
  window.start(set_of({3, 500}), previous);
  EXPECT_THAT(previous, ElementsAre(1, 0));
  window.start(set_of({4}), previous);
  EXPECT_THAT(previous, IsEmpty());
  window.start(set_of({0, 2, 3, 4, 500, 900}), previous);
  EXPECT_THAT(previous, ElementsAre(0, 1, 2, 3, 2, 0));
  EXPECT_EQ(window.previous_of(4, 500), 2u);
  EXPECT_EQ(window.previous_of(4, 0), 0u);
  EXPECT_EQ(window.previous_of(4, 1), 0u);
  window.finish(4);
  window.finish(1);
  EXPECT_EQ(window.previous_of(4, 500), 0u);
  window.start(set_of({2, 3, 500}), previous);
  EXPECT_THAT(previous, ElementsAre(0, 2, 2));
  // That a message waits for some alone may be a guess: the others are to wait for it all the same.
  window.late(2, set_of({500}));
  window.late(5, set_of({}));
  window.start(set_of({3, 500, 501}), previous);
  EXPECT_THAT(previous, ElementsAre(5, 5, 0));
}

RC_GTEST_PROP(MulticastWindows, FindTheOneBeforeAsAListOfAllDoes, ()) {
  std::mt19937_64 random(*rc::gen::inRange(0u, 1000000u));
  const int ranks = *rc::gen::inRange(1, 400);
  MulticastWindow window(ranks, 1000);
  std::map<uint64_t, std::set<Rank>> lacking;
  for (int step = 0; step < 100; ++step) {
    std::vector<Rank> members;
    const auto first = static_cast<Rank>(random() % ranks);
    for (Rank rank = first; rank < ranks; ++rank) {
      if (step % 3 == 0 || random() % 4 == 0) members.push_back(rank);
    }
    std::vector<uint64_t> previous, wanted;
    for (const Rank member : members) {
      wanted.push_back(0);
      for (const auto& [counter, who] : lacking) {
        if (who.contains(member)) wanted.back() = counter;
      }
    }
    const uint64_t counter = window.start(set_of(members, ranks), previous);
    const bool is_any = std::any_of(wanted.begin(), wanted.end(), [](uint64_t c) { return c; });
    RC_ASSERT(previous == (is_any ? wanted : std::vector<uint64_t>()));
    for (size_t id = 0; id < members.size(); ++id) {
      RC_ASSERT(window.previous_of(counter, members[id]) == wanted[id]);
    }
    lacking[counter] = {members.begin(), members.end()};
    const uint64_t some = random() % counter + 1;
    if (random() % 2 == 0) {
      window.finish(some);
      lacking.erase(some);
    } else if (lacking.contains(some)) {
      window.late(some, set_of({*lacking[some].begin()}, ranks));
    }
    RC_ASSERT(window.under_way() == lacking.size());
  }
}

TEST(MulticastWindows, HoldBackWhatGoesBeyond) {
  MulticastWindow window(10, 2);
  std::vector<uint64_t> previous;
  const RankSet one = set_of({1}), two = set_of({2, 3});
  EXPECT_FALSE(window.held(one));
  window.start(two, previous);
  window.start(one, previous);
  EXPECT_EQ(window.held(one), (MulticastWindow::Held{-1, 2, false}));
  window.finish(1);
  EXPECT_FALSE(window.held(two));
  window.start(two, previous);
  EXPECT_EQ(window.held(two), (MulticastWindow::Held{1, 2, false}));  // all of them lack the oldest
  window.finish(9);
  window.finish(1);
  EXPECT_TRUE(window.held(two));
}

TEST(MulticastWindows, CountWhatOnlyLateRanksLackAgainstThese) {
  MulticastWindow window(10, 2);
  std::vector<uint64_t> previous;
  const RankSet all = set_of({1, 2, 3}), in_time = set_of({2, 3}), late = set_of({1});
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(window.held(all));
    const uint64_t counter = window.start(all, previous);
    window.late(counter, set_of({1, 3}));
    window.late(counter, late);
  }
  const MulticastWindow::Held held{1, 2, true};
  EXPECT_EQ(window.held(all), held);
  EXPECT_EQ(window.held(late), held);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(window.held(in_time));
    window.start(in_time, previous);
  }
  EXPECT_EQ(window.held(in_time), (MulticastWindow::Held{-1, 2, false}));
  EXPECT_EQ(window.under_way(), 4u);
  for (const uint64_t counter : {3, 4, 1}) window.finish(counter);
  EXPECT_FALSE(window.held(all));
  window.late(1, all);  // is over
  EXPECT_FALSE(window.held(all));
  window.finish(2);
  EXPECT_EQ(window.under_way(), 0u);
}

std::vector<std::byte> encoded(const std::vector<uint64_t>& previous, uint64_t counter) {
  std::vector<std::byte> out;
  encode_previous(previous, counter, out);
  return out;
}

RC_GTEST_PROP(PreviousCounters, TravelWholeAndShort, ()) {
  const uint64_t counter = *rc::gen::inRange<uint64_t>(1, UINT64_MAX);
  const auto distances = *rc::gen::container<std::vector<std::pair<uint64_t, int>>>(rc::gen::pair(
      rc::gen::element<uint64_t>(0, 1, 2, 300, 0xfffffffe, 0xffffffff, 1ull << 40, UINT64_MAX),
      rc::gen::inRange(1, 20)));
  std::vector<uint64_t> previous;
  for (const auto& [distance, length] : distances) {
    previous.insert(previous.end(), length, distance < counter ? counter - distance : 0);
    if (distance == 0) std::fill(previous.end() - length, previous.end(), 0);
  }
  auto bytes = encoded(previous, counter);
  const size_t length = bytes.size();
  RC_ASSERT(length <= 5 + 20 * distances.size());
  const bool is_any = std::any_of(previous.begin(), previous.end(), [](uint64_t c) { return c; });
  bytes.push_back(std::byte{42});
  std::span<const std::byte> in = bytes;
  const auto read = decode_previous(in, counter, previous.size());
  RC_ASSERT(read.value() == (is_any ? previous : std::vector<uint64_t>()));
  RC_ASSERT(in.size() == 1u);
  for (size_t cut = 0; cut < length; ++cut) {
    std::span<const std::byte> part(bytes.data(), cut);
    RC_ASSERT(!decode_previous(part, counter, previous.size()).has_value());
  }
}

TEST(PreviousCounters, TakeAFewBytesWhereTheyAreEqual) {
  EXPECT_EQ(encoded({}, 5).size(), 1u);
  EXPECT_EQ(encoded(std::vector<uint64_t>(100000, 0), 5).size(), 1u);
  EXPECT_EQ(encoded(std::vector<uint64_t>(100000, 1000000), 1000007).size(), 2u);
}

TEST(PreviousCounters, AreRefusedAsNobodyWritesThem) {
  const auto refusal = [](std::initializer_list<int> values, uint64_t counter, size_t members) {
    std::vector<std::byte> bytes;
    for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
    std::span<const std::byte> in = bytes;
    const auto read = decode_previous(in, counter, members);
    return read ? std::string("no error") : read.error().message;
  };
  EXPECT_EQ(refusal({2, 1, 3, 0}, 9, 4), "no error");
  EXPECT_THAT(refusal({3, 1, 1, 0, 1, 1}, 9, 2), HasSubstr("the limit of 2"));
  EXPECT_THAT(refusal({2, 1, 4, 0}, 9, 4), HasSubstr("the limit of 3"));
  EXPECT_THAT(refusal({2, 1, 0, 0}, 9, 4), HasSubstr("no members"));
  EXPECT_THAT(refusal({2, 1, 1, 1}, 9, 4), HasSubstr("behind the same"));
  EXPECT_THAT(refusal({1, 0}, 9, 4), HasSubstr("behind no multicast"));
  EXPECT_THAT(refusal({1, 9}, 9, 4), HasSubstr("lies 9 before"));
  EXPECT_THAT(refusal({1, 255, 255, 255, 255, 15, 0, 5}, 9, 4), HasSubstr("two halves"));
  // Any bytes at all: an error or numbers that are below the counter, never more than members.
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> bytes(random() % 12);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> random() % 8);
    std::span<const std::byte> in = bytes;
    const auto read = decode_previous(in, 1000, 5);
    if (!read) continue;
    EXPECT_TRUE(read->empty() || read->size() == 5u);
    for (const uint64_t counter : *read) EXPECT_LT(counter, 1000u);
  }
}

}  // namespace
}  // namespace ibcoll
