// Messages that are kept until somebody can use them.

#include "engine/base/message_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <tuple>

namespace ibcoll {
namespace {

using Key = MessageStore::Key;

void keep(MessageStore& store, const Key& key, uint32_t number) {
  store.keep(key, std::as_bytes(std::span(&number, 1)));
}

/// ~0: there is none.
uint32_t number_of(std::span<const std::byte> message) {
  uint32_t number = ~uint32_t{0};
  if (message.size() == sizeof(number)) std::memcpy(&number, message.data(), sizeof(number));
  return number;
}

TEST(MessageStore, KeepsTheOrderOfEachKey) {
  using Ordered = std::tuple<uint64_t, uint32_t, bool>;
  MessageStore store;
  std::map<Ordered, std::deque<uint32_t>> model;
  std::mt19937 random(1);
  for (uint32_t number = 0; number < 100000; ++number) {
    const Key key{random() % 7, static_cast<uint32_t>(random() % 50), random() % 2 == 0};
    auto& queue = model[{key.group, key.sequence, key.token}];
    // Seasons in which more comes than goes, and the other way round.
    const bool filling = number / 5000 % 2 == 0;
    if (random() % 4 < (filling ? 3U : 1U)) {
      keep(store, key, number);
      queue.push_back(number);
    } else if (!queue.empty()) {
      ASSERT_EQ(number_of(store.front(key)), queue.front());
      store.pop(key);
      queue.pop_front();
    } else {
      ASSERT_TRUE(store.front(key).empty());
    }
    if (number % 9973 == 0) {
      std::map<Ordered, std::deque<uint32_t>> expected;
      std::erase_if(model, [&](auto& one) {
        if (std::get<0>(one.first) != key.group) return false;
        if (!one.second.empty()) expected.insert(one);
        return true;
      });
      size_t left = 0, visited = 0;
      for (const auto& [of, numbers] : expected) left += numbers.size();
      store.forget(key.group, [&](std::span<const std::byte> message) {
        EXPECT_NE(number_of(message), ~uint32_t{0});
        ++visited;
      });
      EXPECT_EQ(visited, left);
    }
    size_t all = 0;
    if (number % 1000 == 0) {
      store.for_each([&all](std::span<const std::byte>) { ++all; });
      size_t expected = 0;
      for (const auto& [of, numbers] : model) expected += numbers.size();
      ASSERT_EQ(all, expected);
      ASSERT_EQ(store.empty(), expected == 0);
    }
  }
}

TEST(MessageStore, FindsAnyMessageInAFewSteps) {
  MessageStore store;
  for (uint32_t i = 0; i < 20000; ++i) {
    keep(store, {1, i, false}, i);
    keep(store, {2, 0, false}, i);  // many of one key stand in nobody's way
  }
  EXPECT_LE(store.longest_walk(), 16U);
  size_t forgotten = 0;
  store.forget(1, [&](std::span<const std::byte>) { ++forgotten; });
  EXPECT_EQ(forgotten, 20000U);
  EXPECT_EQ(store.longest_walk(), 1U);
  EXPECT_EQ(number_of(store.front({2, 0, false})), 0U);
}

}  // namespace
}  // namespace ibcoll
