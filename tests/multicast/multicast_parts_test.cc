// What the runtime of multicasts is made of: the pool, and the order of delivery.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

#include "engine/multicast/delivery_order.h"
#include "engine/multicast/pool.h"
#include "engine/multicast/window.h"
#include "tests/multicast_job.h"

namespace ibcoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kKb;

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

using Messages = std::vector<DeliveryOrder::MessageName>;

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

}  // namespace
}  // namespace ibcoll
