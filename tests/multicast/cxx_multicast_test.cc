// The C++ interface of multicasts: data to random sets, messages and handlers as objects, bounds,
// and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/cxx_job.h"

namespace ibcoll {
namespace {

using testing::expect;
using ::testing::HasSubstr;
using testing::kRanks;
using testing::on_four_ranks;
using testing::Thrown;
using testing::thrown_by;
using namespace std::chrono_literals;

/// A multicast that all ranks know of beforehand, to compare.
struct Planned {
  rank_set to;
  std::vector<uint32_t> data;
  multicast_options options;

  Planned(int master, uint64_t number) {
    std::mt19937 random(static_cast<uint32_t>(master + kRanks * number));
    const unsigned set = 1 + random() % ((1u << kRanks) - 1);
    for (int rank = 0; rank < kRanks; ++rank) {
      if ((set >> rank & 1) != 0) to.add(rank);
    }
    constexpr size_t kSizes[] = {0, 1, 7, 800, 5000, 60000};
    data.resize(kSizes[random() % std::size(kSizes)]);
    std::generate(data.begin(), data.end(), std::ref(random));
    options.tag = number;
    options.acknowledged = random() % 2 != 0;
    options.pieces = random() % 3;
    if (random() % 4 == 0) options.algorithm = "chain";
  }
  /// The master is the last member.
  int id_of(int rank, int master) const {
    if (rank == master) return to.size() - 1;
    return to.id_of(rank) - (to.has(master) && master < rank ? 1 : 0);
  }
};

/// Takes messages, which must be those that are planned, in the order of each master.
class Checker {
 public:
  explicit Checker(int rank) : rank_(rank) {}

  void take(const message_view& message) {
    const int master = message.master();
    uint64_t& next = next_.at(static_cast<size_t>(master));
    while (!Planned(master, next).to.has(rank_)) ++next;
    expect(message.tag() == next, "another message than the next one");
    const Planned planned(master, next++);
    expect(std::ranges::equal(message.as<uint32_t>(), planned.data), "other data");
    expect(message.members() == planned.to.size(), "another number of members");
    expect(message.id() == planned.id_of(rank_, master), "another place among the members");
    ++taken_;
  }
  int taken() const { return taken_; }

 private:
  int rank_;
  int taken_ = 0;
  std::vector<uint64_t> next_ = std::vector<uint64_t>(kRanks);
};

int planned_for(int rank, uint64_t each) {
  int count = 0;
  for (int master = 0; master < kRanks; ++master) {
    for (uint64_t number = 0; number < each; ++number)
      count += Planned(master, number).to.has(rank) ? 1 : 0;
  }
  return count;
}

/// All ranks send at a time, and take what comes while they can't.
void send_all(const context& rank, uint64_t each, const std::function<void()>& meanwhile) {
  std::vector<Planned> plans;
  for (uint64_t number = 0; number < each; ++number) plans.emplace_back(rank.rank(), number);
  std::vector<request> requests;
  for (const Planned& plan : plans) {
    for (;;) {
      auto sent = rank.try_multicast<uint32_t>(plan.to, plan.data, plan.options);
      if (sent) {
        requests.push_back(std::move(*sent));
        break;
      }
      meanwhile();
    }
  }
  for (request& one : requests) {
    while (!one.test()) meanwhile();
    expect(one.missing().empty(), "somebody lacks it");
  }
}

TEST(MulticastsInCxx, BringTheirDataToTheMembers) {
  constexpr uint64_t kEach = 80;
  EXPECT_EQ(on_four_ranks([](const context& rank) {
              Checker checker(rank.rank());
              send_all(rank, kEach, [&] {
                if (const auto message = rank.receive(0us)) checker.take(*message);
              });
              const int all = planned_for(rank.rank(), kEach);
              while (checker.taken() < all) checker.take(rank.receive());
              rank.world().barrier();
              expect(!rank.receive(0us).has_value(), "one more");
              const ibcoll_multicast_counters counters = rank.multicast_counters();
              expect(counters.sent == kEach, "sent");
              expect(counters.received == static_cast<uint64_t>(all), "received");
              // What others lack of messages that this rank passes on is its memory, too.
              const auto end = std::chrono::steady_clock::now() + 30s;
              while (rank.multicast_counters().memory_bytes != 0) {
                expect(std::chrono::steady_clock::now() < end, "memory that is not given back");
                rank.progress();
              }
            }),
            "");
}

TEST(MulticastsInCxx, AreHandedToAFunction) {
  constexpr uint64_t kEach = 40;
  EXPECT_EQ(on_four_ranks([](const context& rank) {
              Checker checker(rank.rank());
              std::string wrong;
              const int all = planned_for(rank.rank(), kEach);
              {
                const multicast_handler handler = rank.handle_messages([&](const message_view& m) {
                  try {
                    checker.take(m);
                  } catch (const std::exception& e) {
                    wrong = e.what();
                  }
                });
                expect(
                    thrown_by([&] { rank.receive(0us); }).text.find("handler") != std::string::npos,
                    "taken although there is a handler");
                send_all(rank, kEach, [&] { rank.progress(); });
                while (checker.taken() < all && wrong.empty()) rank.progress();
              }
              expect(wrong.empty(), wrong);
              // Afterwards they wait again.
              rank.world().barrier();
              const std::vector<int> number(1, 7);
              if (rank.rank() == 1) rank.multicast<int>({0, 1, 2, 3}, number).wait();
              expect(rank.receive().as<int>()[0] == 7, "other data");
              expect(checker.taken() == all, "handed to a function that is gone");
            }),
            "");
}

TEST(MulticastsInCxx, AreMessagesThatFreeThemselves) {
  const job alone;
  const context rank = alone.context();
  const std::vector<double> numbers{1.5, 2.5, 3.5};
  const auto send = [&] { rank.multicast<double>({0}, numbers, {.tag = 9}).wait(); };
  send();
  send();
  message first = rank.receive(), second = rank.receive();
  EXPECT_EQ(first.tag(), 9u);
  EXPECT_EQ(first.master(), 0);
  EXPECT_EQ(first.members(), 1);
  EXPECT_EQ(first.id(), 0);
  EXPECT_EQ(first.bytes().size(), 24u);
  EXPECT_NE(first.bytes().data(), second.bytes().data());
  EXPECT_TRUE(std::ranges::equal(first.as<double>(), numbers));
  struct Sixteen {
    double two[2];
  };
  EXPECT_THAT(thrown_by([&] { first.as<Sixteen>(); }).text,
              HasSubstr("a message of 24 bytes does not divide into elements of 16"));
  const uint64_t both = rank.multicast_counters().memory_bytes;
  EXPECT_GT(both, 0u);
  { const message gone = std::move(first); }
  EXPECT_EQ(rank.multicast_counters().memory_bytes, both / 2);
  first = std::move(second);
  EXPECT_TRUE(std::ranges::equal(first.as<double>(), numbers));
  EXPECT_EQ(rank.multicast_counters().memory_bytes, both / 2);
  { const message gone = std::move(first); }
  EXPECT_EQ(rank.multicast_counters().memory_bytes, 0u);
}

TEST(MulticastsInCxx, AreBoundedWhereCostsAreKnown) {
  const std::string path = ::testing::TempDir() + "cxx_multicast_costs." + std::to_string(getpid());
  {
    std::ofstream file(path);
    for (const char* layer : {"shm", "network"}) {
      file << R"({"layer":")" << layer
           << R"(","bytes":8,"hop_p99_ns":3000,"hop_max_ns":9000,"gap_p99_ns":1000,)"
           << R"("wake_p99_ns":50000,"operation_p99_ns":80,"ranks_per_core":2})"
           << "\n";
    }
  }
  const auto bounds = [] {
    return on_four_ranks([](const context& rank) {
      if (std::getenv("IBCOLL_LOGP") == nullptr) {
        const Thrown thrown = thrown_by([&] { rank.multicast_bound({1, 2}, 8); });
        expect(thrown.status == IBCOLL_ERR_UNSUPPORTED, "another error: " + thrown.text);
        return;
      }
      const std::chrono::duration<double> bound = rank.multicast_bound({0, 1, 2}, 8);
      expect(bound > 3us && bound < 1s, "the bound is " + std::to_string(bound.count()) + " s");
      expect(rank.multicast_bound({0, 1, 2}, 80000) > bound, "long messages take no longer");
    });
  };
  EXPECT_EQ(bounds(), "");
  setenv("IBCOLL_LOGP", path.c_str(), 1);
  EXPECT_EQ(bounds(), "");
  unsetenv("IBCOLL_LOGP");
  std::filesystem::remove(path);
}

/// What sends to each rank itself is refused between servers only.
TEST(MulticastsInCxx, GoByAnyAlgorithmInsideAServer) {
  const job alone;
  const context rank = alone.context();
  const std::vector<int> data(5, 7);
  for (const char* const algorithm : {"linear", "binomial", "chain"}) {
    rank.multicast<int>({0}, data, {.algorithm = algorithm}).wait();
    const message got = rank.receive();
    EXPECT_TRUE(std::ranges::equal(got.as<int>(), data)) << algorithm;
  }
}

TEST(MulticastsInCxx, AreRefusedWithALine) {
  const job alone;
  const context rank = alone.context();
  const std::vector<int> data(5);
  const auto refusal = [&](const rank_set& to, const multicast_options& o = {}) {
    const Thrown thrown = thrown_by([&] { rank.multicast<int>(to, data, o).wait(); });
    EXPECT_EQ(thrown.status, IBCOLL_ERR_INVALID);
    EXPECT_EQ(thrown.scope, IBCOLL_SCOPE_CALL);
    return thrown.text;
  };
  EXPECT_THAT(refusal({}), HasSubstr("a multicast to nobody"));
  EXPECT_THAT(refusal({0, 3}), HasSubstr("3"));
  EXPECT_THAT(refusal({0}, {.algorithm = "fastest"}), HasSubstr("fastest"));
  EXPECT_THAT(refusal({0}, {.deadline = -1us}), HasSubstr("a deadline of -1 us"));
  EXPECT_THAT(thrown_by([&] { rank.receive(-2us); }).text, HasSubstr("a timeout of -2 us"));
  EXPECT_THAT(thrown_by([&] { const auto none = rank.handle_messages({}); }).text,
              HasSubstr("empty"));
  EXPECT_FALSE(rank.receive(1us).has_value());
}

}  // namespace
}  // namespace ibcoll
