// Memory that the program registers itself: what calls in it cost, that data is right wherever in
// it buffers lie. When it may be deregistered stands in memory_in_use_test.cc.

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/execute/user_registrations.h"
#include "perf/support/empty_transports.h"
#include "tests/execute/key_counting.h"
#include "tests/job.h"
#include "tests/proc.h"

namespace ibcoll {
namespace {

using testing::Complaints;
using testing::KeyCounting;

uint64_t counter(ibcoll_context* context, std::string_view wanted) {
  const char* name = nullptr;
  uint64_t value = 0;
  for (int i = 0; ibcoll_get_named_counter(context, i, &name, &value) == IBCOLL_OK; ++i) {
    if (name == wanted) return value;
  }
  return 0;  // of a single server
}

/// Where a job runs. `seed`: of the adversarial loopback; null: it delays nothing.
struct Place {
  const char* layout;
  int ranks;
  const char* seed;
};
constexpr std::array<Place, 6> kPlaces = {Place{"3", 3, nullptr}, {"1,1", 2, nullptr},
                                          {"2,1,2", 5, nullptr},  {"1,1", 2, "7"},
                                          {"2,2", 4, "1"},        {"2,1,2", 5, "2"}};

/// Runs `body` on every rank; gives what they complain of, also what it throws.
std::string run_each(const Place& place,
                     const std::function<void(ibcoll::context&, Complaints&)>& body) {
  if (place.seed != nullptr) setenv("IBCOLL_LOOPBACK_SEED", place.seed, 1);
  Complaints complaints(place.ranks);
  const auto main = [&](ibcoll::context& context) {
    try {
      body(context, complaints);
    } catch (const std::exception& thrown) {
      complaints.add(context.rank(), thrown.what());
      throw;
    }
    return 0;
  };
  const int status = ibcoll::launch(place.ranks, main, place.layout);
  unsetenv("IBCOLL_LOOPBACK_SEED");
  if (status != 0 && complaints.all().empty()) return fmt::format("a rank returned {}", status);
  return complaints.all();
}

std::byte content(int from, int to, size_t offset, int round) {
  return testing::pattern(from, to, offset, static_cast<uint32_t>(round));
}

/// The calls that this test makes, with buffers at odd places of one piece of memory.
class Calls {
 public:
  /// Blocks are too long to travel as mails.
  static constexpr size_t kBlock = 4999;
  static size_t memory_for(int ranks) { return 4 * kBlock * (static_cast<size_t>(ranks) + 1); }

  Calls(const ibcoll::context& context, std::span<std::byte> memory)
      : world_(context.world()), ranks_(static_cast<size_t>(world_.size())), memory_(memory) {}

  /// False: what came is wrong. Other places each round.
  bool all_to_all(int round) {
    const auto [send, recv] = sides(round);
    fill(send, round);
    world_.alltoall<std::byte>(send, recv, {.algorithm = "two_level_ring"});
    return right(recv, round);
  }
  bool all_to_allv(int round) {
    const auto [send, recv] = sides(round);
    fill(send, round);
    const std::vector<int64_t> counts(ranks_, kBlock);
    std::vector<int64_t> places(ranks_);
    for (size_t i = 0; i < ranks_; ++i) places[i] = static_cast<int64_t>(i * kBlock);
    const ibcoll::layout blocks{counts, places};
    world_.alltoallv<std::byte>(send, blocks, recv, blocks, {.algorithm = "linear"});
    return right(recv, round);
  }
  bool broadcast(int round) {
    const int root = round % world_.size();
    const auto data = memory_.subspan(odd(round), kBlock);
    for (size_t i = 0; i < kBlock; ++i)
      data[i] = world_.rank() == root ? content(root, -1, i, round) : testing::kPoison;
    world_.bcast<std::byte>(data, root, {.algorithm = "linear"});
    for (size_t i = 0; i < kBlock; ++i)
      if (data[i] != content(root, -1, i, round)) return false;
    return true;
  }
  /// All of them.
  std::string wrong(int round) {
    if (!all_to_all(round)) return fmt::format("wrong data of alltoall {}", round);
    if (!all_to_allv(round)) return fmt::format("wrong data of alltoallv {}", round);
    if (!broadcast(round)) return fmt::format("wrong data of bcast {}", round);
    return "";
  }

 private:
  static size_t odd(int round) { return 2 * (static_cast<size_t>(round) * 37 % 1000) + 1; }
  std::pair<std::span<std::byte>, std::span<std::byte>> sides(int round) {
    const size_t half = memory_.size() / 2, bytes = ranks_ * kBlock;
    return {memory_.subspan(odd(round), bytes), memory_.subspan(half + odd(round + 5), bytes)};
  }
  void fill(std::span<std::byte> send, int round) const {
    for (size_t i = 0; i < send.size(); ++i)
      send[i] = content(world_.rank(), static_cast<int>(i / kBlock), i % kBlock, round);
  }
  bool right(std::span<const std::byte> recv, int round) const {
    for (size_t i = 0; i < recv.size(); ++i)
      if (recv[i] != content(static_cast<int>(i / kBlock), world_.rank(), i % kBlock, round))
        return false;
    return true;
  }

  ibcoll::group world_;
  size_t ranks_;
  std::span<std::byte> memory_;
};

TEST(RegisteredMemory, IsRegisteredOnceAndItsKeysTravelOnce) {
  KeyCounting::replace_loopback();
  for (const Place& place : kPlaces) {
    SCOPED_TRACE(fmt::format("{}, seed {}", place.layout, place.seed ? place.seed : "none"));
    EXPECT_EQ(
        run_each(place,
                 [](ibcoll::context& context, Complaints& complaints) {
                   std::vector<std::byte> memory(Calls::memory_for(context.size()) + 3);
                   const std::span<std::byte> odd = std::span(memory).subspan(3);
                   Calls calls(context, odd);
                   struct Count {
                     uint64_t registrations, keys;
                     bool operator==(const Count&) const = default;
                   };
                   const auto count = [&] {
                     return Count{counter(context.handle(), "registrations"),
                                  counter(context.handle(), "keys")};
                   };
                   const Count none = count();
                   auto registered = context.register_memory(odd);
                   std::string wrong;
                   int round = 0;
                   // As many as there are roots.
                   for (; round < context.size() && wrong.empty(); ++round)
                     wrong = calls.wrong(round);
                   const Count first = count();
                   if (context.servers() > 1 && first.registrations != none.registrations + 1)
                     complaints.add(context.rank(),
                                    fmt::format("{} registrations", first.registrations));
                   for (; round < 30 && wrong.empty(); ++round) wrong = calls.wrong(round);
                   if (count() != first)
                     complaints.add(context.rank(),
                                    "later calls have registered memory or sent keys");
                   registered.deregister();
                   if (wrong.empty()) wrong = calls.wrong(round);
                   if (context.servers() > 1 &&
                       (count().registrations == first.registrations || count().keys == first.keys))
                     complaints.add(context.rank(), "this test sees no registrations, or no keys");
                   if (!wrong.empty()) complaints.add(context.rank(), wrong);
                 }),
        "");
  }
}

/// Registered memory that comes and goes, overlaps, and holds some of the buffers only.
TEST(RegisteredMemory, MayOverlapAndComeAndGo) {
  for (const Place& place : kPlaces) {
    SCOPED_TRACE(fmt::format("{}, seed {}", place.layout, place.seed ? place.seed : "none"));
    EXPECT_EQ(run_each(place,
                       [](ibcoll::context& context, Complaints& complaints) {
                         std::vector<std::byte> memory(Calls::memory_for(context.size()));
                         Calls calls(context, memory);
                         // Ranks differ in what they register.
                         std::mt19937 random(static_cast<uint32_t>(context.rank()));
                         std::vector<ibcoll::registered_memory> registered;
                         for (int round = 0; round < 40; ++round) {
                           if (random() % 3 == 0 && !registered.empty())
                             registered.erase(registered.begin() +
                                              static_cast<ptrdiff_t>(random() % registered.size()));
                           const size_t begin = random() % memory.size();
                           const size_t bytes = random() % (memory.size() - begin + 1);
                           registered.push_back(
                               context.register_memory(std::span(memory).subspan(begin, bytes)));
                           if (const std::string wrong = calls.wrong(round); !wrong.empty())
                             return complaints.add(context.rank(), wrong);
                         }
                       }),
              "");
  }
}

/// What find() and touch() give, against a look at each.
TEST(RegisteredMemory, IsFoundWhereverItCovers) {
  perf::EmptyNetwork network;
  OwnRegions regions;
  UserRegistrations all(&network, regions);
  std::array<std::byte, 60> memory;
  std::vector<std::unique_ptr<UserRegistration>> made;
  std::mt19937 random(3);
  for (int step = 0; step < 300; ++step) {
    if (random() % 3 == 0 && !made.empty()) {
      const auto gone = made.begin() + static_cast<ptrdiff_t>(random() % made.size());
      all.remove(**gone);
      made.erase(gone);
    } else {
      auto next = std::make_unique<UserRegistration>();
      const size_t begin = random() % memory.size();
      next->begin = memory.data() + begin;
      next->bytes = random() % (memory.size() - begin + 1) / (1 + random() % 4);
      ASSERT_TRUE(all.add(*next));
      made.push_back(std::move(next));
    }
    for (size_t begin = 0; begin < memory.size(); ++begin) {
      for (size_t end = begin + 1; end <= memory.size(); ++end) {
        bool covers = false, touches = false;
        const std::byte* const from = memory.data() + begin;
        const std::byte* const to = memory.data() + end;
        for (const auto& each : made) {
          covers |= each->begin <= from && to <= each->end();
          touches |= each->bytes > 0 && each->begin < to && from < each->end();
        }
        const UserRegistration* const found = all.find(from, end - begin);
        ASSERT_EQ(found != nullptr, covers);
        if (covers) {
          ASSERT_TRUE(found->begin <= from && to <= found->end());
        }
        ASSERT_EQ(all.touch(from, end - begin), touches);
      }
    }
  }
}

TEST(RegisteredMemory, LeavesNoTrace) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps what is freed";
#endif
  for (const Place& place : {Place{"2", 2, nullptr}, Place{"1,1", 2, nullptr}}) {
    EXPECT_EQ(run_each(place,
                       [](ibcoll::context& context, Complaints& complaints) {
                         std::vector<std::byte> memory(100'000);
                         const ibcoll::group world = context.world();
                         size_t before = 0;
                         for (int i = 0; i < 10'000; ++i) {
                           const auto registered = context.register_memory(
                               std::span(memory).subspan(static_cast<size_t>(i) % 1000));
                           if (i % 100 == 0)
                             world.bcast<std::byte>(std::span(memory).subspan(1000, 8000), 0);
                           if (i == 2000) before = testing::anonymous_bytes();
                         }
                         if (const size_t after = testing::anonymous_bytes();
                             before == 0 || after > before + 256 * 1024)
                           complaints.add(context.rank(), fmt::format("{} KB, then {} KB",
                                                                      before / 1024, after / 1024));
                       }),
              "")
        << place.layout;
  }
}

}  // namespace
}  // namespace ibcoll
