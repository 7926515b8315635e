// A master's window: which multicasts are under way, whom they wait for, which came before.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "engine/multicast/window.h"

namespace ibcoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RankSet group_of(const std::vector<Rank>& members, int ranks = 1000) {
  return RankSet::create(members, ranks).value();
}

TEST(MulticastWindows, NameForEachMemberTheOneBefore) {
  MulticastWindow window(1000, 10);
  std::vector<uint64_t> previous{7};
  EXPECT_EQ(window.start(group_of({1, 2, 3}), previous), 1u);
  EXPECT_THAT(previous, IsEmpty());
  window.start(group_of({3, 500}), previous);
  EXPECT_THAT(previous, ElementsAre(1, 0));
  window.start(group_of({4}), previous);
  EXPECT_THAT(previous, IsEmpty());
  window.start(group_of({0, 2, 3, 4, 500, 900}), previous);
  EXPECT_THAT(previous, ElementsAre(0, 1, 2, 3, 2, 0));
  EXPECT_EQ(window.previous_of(4, 500), 2u);
  EXPECT_EQ(window.previous_of(4, 0), 0u);
  EXPECT_EQ(window.previous_of(4, 1), 0u);
  window.finish(4);
  window.finish(1);
  EXPECT_EQ(window.previous_of(4, 500), 0u);
  window.start(group_of({2, 3, 500}), previous);
  EXPECT_THAT(previous, ElementsAre(0, 2, 2));
  // That a message waits for some alone may be a guess: the others are to wait for it all the same.
  window.late(2, group_of({500}));
  window.late(5, group_of({}));
  window.start(group_of({3, 500, 501}), previous);
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
    const uint64_t counter = window.start(group_of(members, ranks), previous);
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
      window.late(some, group_of({*lacking[some].begin()}, ranks));
    }
    RC_ASSERT(window.under_way() == lacking.size());
  }
}

TEST(MulticastWindows, HoldBackWhatGoesBeyond) {
  MulticastWindow window(10, 2);
  std::vector<uint64_t> previous;
  const RankSet one = group_of({1}), two = group_of({2, 3});
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
  const RankSet all = group_of({1, 2, 3}), in_time = group_of({2, 3}), late = group_of({1});
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(window.held(all));
    const uint64_t counter = window.start(all, previous);
    window.late(counter, group_of({1, 3}));
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
