// Thousands of calls of all kinds under way at once, over dozens of groups that overlap, posted by
// every rank in an order of its own and ended in another: every byte of every buffer is checked.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>

#include "tests/any_call.h"
#include "tests/named.h"

namespace ibcoll {
namespace {

using testing::Item;
using testing::JobOptions;
using testing::Posted;
using testing::RankView;

/// What the whole job does; computed by every rank from the seed.
struct Work {
  std::vector<std::vector<Rank>> groups;
  std::vector<std::vector<Item>> rounds;  ///< calls that are under way together
  std::vector<Item> persistent;           ///< started in every round
};

constexpr size_t kGroups = 50;

Item some_item(std::mt19937& random, const Work& work, uint32_t number) {
  constexpr std::array<size_t, 16> kSizes = {0,   1,   7,   8,    8,    24,   40,    100,
                                             100, 333, 500, 1000, 1024, 4000, 20000, 70001};
  Item item;
  item.group = random() % work.groups.size();
  item.collective = kCollectives[random() % kCollectives.size()];
  item.root = static_cast<Rank>(random() % work.groups[item.group].size());
  item.bytes = kSizes[random() % kSizes.size()];
  item.number = number;
  item.in_place = random() % 4 == 0 && (item.collective == Collective::kAlltoall ||
                                        item.collective == Collective::kAllgather);
  return item;
}

Work some_work(uint32_t seed, int ranks, uint32_t calls, uint32_t rounds) {
  std::mt19937 random(seed);
  Work work;
  std::vector<Rank> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  for (size_t i = 0; i < kGroups; ++i) {
    // Small groups occur more than once with the same ranks, in the same and in another order.
    std::shuffle(all.begin(), all.end(), random);
    const size_t size = 1 + random() % all.size();
    work.groups.emplace_back(all.begin(), all.begin() + static_cast<ptrdiff_t>(size));
  }
  uint32_t number = 0;
  const uint32_t in_round = calls / rounds;
  for (uint32_t i = 0; i < in_round / 5; ++i) {
    work.persistent.push_back(some_item(random, work, number++));
    work.persistent.back().persistent = true;
  }
  work.rounds.resize(rounds);
  for (std::vector<Item>& round : work.rounds) {
    while (round.size() + work.persistent.size() < in_round)
      round.push_back(some_item(random, work, number++));
  }
  return work;
}

/// One rank's part of the work.
class Worker {
 public:
  Worker(const RankView& rank, const Work& work, uint32_t seed)
      : rank_(rank),
        work_(work),
        random_(seed * 1000 + static_cast<uint32_t>(rank.context.rank())) {}

  void run() {
    if (!make_groups()) return;
    for (const Item& item : work_.persistent) {
      if (!groups_[item.group]) continue;
      persistent_.push_back(std::make_unique<Posted>(*groups_[item.group], item));
      if (!rank_.good(persistent_.back()->prepare(), "prepare")) return;
    }
    for (size_t round = 0; round < work_.rounds.size(); ++round) {
      if (!post(round) || !finish()) return;
    }
  }

 private:
  bool make_groups() {
    for (const std::vector<Rank>& members : work_.groups) {
      groups_.emplace_back();
      if (std::find(members.begin(), members.end(), rank_.context.rank()) == members.end())
        continue;
      auto group = rank_.context.groups().create(members);
      if (!rank_.good(group, "group")) return false;
      groups_.back() = std::move(*group);
    }
    return true;
  }

  /// Starts all calls of a round: those of a group in their order, groups in any order.
  bool post(size_t round) {
    std::vector<std::deque<std::pair<const Item*, Posted*>>> queues(kGroups);
    for (const auto& call : persistent_)
      queues[call->item().group].emplace_back(&call->item(), call.get());
    for (const Item& item : work_.rounds[round]) {
      if (groups_[item.group]) queues[item.group].emplace_back(&item, nullptr);
    }
    std::vector<size_t> open;
    for (size_t i = 0; i < kGroups; ++i) {
      if (!queues[i].empty()) open.push_back(i);
    }
    while (!open.empty()) {
      const size_t place = random_() % open.size();
      auto& queue = queues[open[place]];
      auto [item, call] = queue.front();
      queue.pop_front();
      if (queue.empty()) {
        open[place] = open.back();
        open.pop_back();
      }
      if (call == nullptr) {
        made_.push_back(std::make_unique<Posted>(*groups_[item->group], *item));
        call = made_.back().get();
        if (!rank_.good(call->prepare(), "prepare " + call->describe())) return false;
      } else {
        call->fill(item->number + static_cast<uint32_t>(round) * 1'000'000);
      }
      if (!rank_.good(call->call().start(), "start " + call->describe())) return false;
      under_way_.push_back(call);
      if (random_() % 8 == 0 && !test(random_() % under_way_.size())) return false;
    }
    return true;
  }

  bool finish() {
    while (!under_way_.empty()) {
      const size_t place = random_() % under_way_.size();
      if (random_() % 4 != 0) {
        if (!test(place)) return false;
        continue;
      }
      Posted* call = under_way_[place];
      if (!rank_.good(call->call().wait(), "wait for " + call->describe())) return false;
      if (!ended(place)) return false;
    }
    made_.clear();
    return true;
  }

  bool test(size_t place) {
    const Result<bool> done = under_way_[place]->call().test();
    if (!rank_.good(done, "test of " + under_way_[place]->describe())) return false;
    return !*done || ended(place);
  }
  bool ended(size_t place) {
    const Posted& call = *under_way_[place];
    if (!call.right()) rank_.complain("wrong data in " + call.describe());
    under_way_[place] = under_way_.back();
    under_way_.pop_back();
    return call.right();
  }

  const RankView& rank_;
  const Work& work_;
  std::mt19937 random_;
  std::vector<decltype(rank_.context.groups().create({}))::value_type> groups_;
  std::vector<std::unique_ptr<Posted>> persistent_, made_;
  std::vector<Posted*> under_way_;
};

/// What carries the messages.
struct Way {
  const char* name;
  std::vector<int> layout;
  const char* transport;
  uint64_t loopback_seed = 0;
  CheckMode check = CheckMode::kOff;
};

class MixedCalls : public ::testing::TestWithParam<Way> {
 protected:
  /// `rounds`: so many times a part of the calls is under way, all of a part at once.
  static void run(uint32_t seed, uint32_t calls, uint32_t rounds) {
    const Way& way = GetParam();
    if (std::string_view(way.transport) == "verbs") {
      // Whole machines stall for longer than the default bears where a host is overloaded.
      setenv("IBCOLL_ACK_TIMEOUT", "18", 0);
      if (!usable_network_port("verbs"))
        GTEST_SKIP() << "no RDMA device here; ./run softroce brings some";
    }
    JobOptions job;
    job.shape = Shape::from_layout(way.layout, Placement::kBlock).value();
    job.context.transport = way.transport;
    job.context.loopback_seed = way.loopback_seed;
    job.context.check = way.check;
    const Work work = some_work(seed, job.shape.ranks(), calls, rounds);
    SCOPED_TRACE(fmt::format("{}, seed {}", way.name, seed));
    EXPECT_EQ(run_job(job, [&](const RankView& rank) { Worker(rank, work, seed).run(); }), "");
  }
};

TEST_P(MixedCalls, InAnyOrderOnFiftyGroups) {
  run(1, 600, 1);
  run(2, 600, 3);
}

class MixedCallsFull : public MixedCalls {};

TEST_P(MixedCallsFull, TenThousandAtOnce) { run(3, 10'000, 1); }
TEST_P(MixedCallsFull, TenThousandInTenRounds) {
  run(4, 10'000, 10);
  run(5, 10'000, 10);
}

const Way kWays[] = {{"shm", {5}, "auto"},
                     {"loopback", {2, 1, 2}, "loopback"},
                     {"adversarial", {2, 1, 2}, "loopback", 12345},
                     {"checked", {5}, "auto", 0, CheckMode::kData},
                     {"checked_adversarial", {2, 1, 2}, "loopback", 12345, CheckMode::kData},
                     {"checked_late", {2, 1, 2}, "loopback", 12345, CheckMode::kLate},
                     {"verbs", {2, 1, 2}, "verbs"}};
INSTANTIATE_TEST_SUITE_P(Ways, MixedCalls, ::testing::ValuesIn(kWays), testing::named);
INSTANTIATE_TEST_SUITE_P(Ways, MixedCallsFull, ::testing::ValuesIn(kWays), testing::named);

}  // namespace
}  // namespace ibcoll
