// Groups that are cancelled, or run into deadlines, at random moments: peers get the error of their
// group, other groups go on, and nothing is written to memory that was given back.
// TEST_END_SEED=4711 runs one job again, TEST_ENDS=500 so many.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "tests/algorithm_lists.h"
#include "tests/any_call.h"
#include "tests/named.h"

namespace ibcoll {
namespace {

using testing::Item;
using testing::JobOptions;
using testing::kPoison;
using testing::Posted;
using testing::RankView;
using testing::run_job;

constexpr uint32_t kRounds = 20;  // of a job, with a group each that ends
constexpr int64_t kMicrosecondNs = 1000;

/// What all ranks do in a round; computed by each of them from the seed.
struct Round {
  std::vector<Rank> members;
  std::vector<Item> calls;
  std::vector<int> tests_until_cancel;  ///< by rank; negative: it does not cancel
  std::vector<int64_t> late_ns;         ///< by rank: so much later it makes its calls
  int64_t time_limit_ns = 0;
  Item other;  ///< of all ranks, meanwhile
};

Item some_item(std::mt19937& random, size_t ranks, uint32_t number) {
  constexpr std::array<size_t, 10> kSizes = {0,    8,     40,    500,   1024,
                                             4096, 12000, 40000, 70001, 300000};
  Item item;
  item.collective = kCollectives[random() % kCollectives.size()];
  item.root = static_cast<Rank>(random() % ranks);
  item.bytes = kSizes[random() % kSizes.size()];
  item.number = number;
  item.in_place = random() % 4 == 0 && (item.collective == Collective::kAlltoall ||
                                        item.collective == Collective::kAllgather);
  if (item.collective == Collective::kAlltoall && random() % 2 == 0) {
    static const auto all = testing::unplanned_algorithms_of(Collective::kAlltoall);
    item.algorithm = all[random() % all.size()]->name;
  }
  return item;
}

Round some_round(std::mt19937& random, int ranks, uint32_t number) {
  Round round;
  std::vector<Rank> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), random);
  const size_t size = 2 + random() % (all.size() - 1);
  round.members.assign(all.begin(), all.begin() + static_cast<ptrdiff_t>(size));
  const uint32_t calls = 1 + random() % (random() % 8 == 0 ? 30 : 5);
  for (uint32_t i = 0; i < calls; ++i)
    round.calls.push_back(some_item(random, size, number * 100 + i));
  round.other = some_item(random, all.size(), number * 100 + 99);
  round.tests_until_cancel.assign(all.size(), -1);
  round.late_ns.assign(all.size(), 0);
  if (random() % 3 == 0) {
    round.time_limit_ns = (1 + random() % 3000) * kMicrosecondNs;
  } else {
    const size_t several = random() % 4 == 0 ? 2 : 1;
    for (size_t i = 0; i < several; ++i) {
      const int most = 1 << random() % 10;
      round.tests_until_cancel[round.members[random() % size]] =
          static_cast<int>(random() % static_cast<uint32_t>(most));
    }
  }
  if (random() % 2 == 0)
    round.late_ns[round.members[random() % size]] = random() % 4000 * kMicrosecondNs;
  return round;
}

/// Memory that was given back, and filled with what nobody else writes.
class Watched {
 public:
  explicit Watched(std::unique_ptr<Posted> call) : call_(std::move(call)) {
    const auto [send, recv] = call_->memory();
    std::fill(send.begin(), send.end(), kOurs);
    std::fill(recv.begin(), recv.end(), kOurs);
  }
  bool untouched() const {
    const auto ours = [](std::byte byte) { return byte == kOurs; };
    const auto [send, recv] = call_->memory();
    return std::all_of(send.begin(), send.end(), ours) &&
           std::all_of(recv.begin(), recv.end(), ours);
  }
  const Posted& call() const { return *call_; }

 private:
  static constexpr std::byte kOurs{0x3c};
  std::unique_ptr<Posted> call_;
};

class Worker {
 public:
  Worker(const RankView& rank, uint32_t seed) : rank_(rank), common_(seed) {}

  void run() {
    for (uint32_t number = 0; number < kRounds; ++number) {
      const Round round = some_round(common_, rank_.context.size(), number);
      if (!run_round(round, number)) return;
    }
    // All that was on its way has arrived somewhere.
    Posted last(rank_.context.world(),
                some_item(common_, static_cast<size_t>(rank_.context.size()), 100'000));
    if (!make(last)) return;
    while (!watched_.empty()) check_oldest();
  }

 private:
  bool make(Posted& call) {
    if (!rank_.good(call.prepare(), "prepare " + call.describe()) ||
        !rank_.good(call.call().start(), "start " + call.describe()) ||
        !rank_.good(call.call().wait(), "wait for " + call.describe()))
      return false;
    if (!call.right()) rank_.complain("wrong data in " + call.describe());
    return call.right();
  }

  bool run_round(const Round& round, uint32_t number) {
    const Rank me = rank_.context.rank();
    Posted other(rank_.context.world(), round.other);
    if (!rank_.good(other.prepare(), "prepare " + other.describe()) ||
        !rank_.good(other.call().start(), "start " + other.describe()))
      return false;
    const bool member =
        std::find(round.members.begin(), round.members.end(), me) != round.members.end();
    if (member && !run_ended(round, number + 1)) return false;
    if (!rank_.good(other.call().wait(), "wait for " + other.describe())) return false;
    if (!other.right()) {
      rank_.complain("wrong data in " + other.describe());
      return false;
    }
    while (watched_.size() > 60) check_oldest();
    return true;
  }

  /// The group's error, and no wider.
  bool is_end(const Error& error, const Posted& call) {
    const bool is = (error.code == ErrorCode::kCancelled || error.code == ErrorCode::kDeadline) &&
                    error.scope == Scope::kGroup;
    if (!is)
      rank_.complain(
          fmt::format("{}: {}: {}", call.describe(), to_string(error.code), error.message));
    return is;
  }

  bool run_ended(const Round& round, uint64_t id) {
    const auto me = static_cast<size_t>(rank_.context.rank());
    if (round.late_ns[me] != 0)
      std::this_thread::sleep_for(std::chrono::nanoseconds(round.late_ns[me]));
    auto made = rank_.context.groups().create(round.members, id);
    if (!rank_.good(made, "group")) return false;
    const std::shared_ptr<Group> group = std::move(*made);
    std::vector<std::unique_ptr<Posted>> calls;
    for (Item item : round.calls) {
      item.time_limit_ns = round.time_limit_ns;
      auto call = std::make_unique<Posted>(*group, item);
      Status started = call->prepare();
      if (started) started = call->call().start();
      if (!started) {
        if (!is_end(started.error(), *call)) return false;
        break;
      }
      calls.push_back(std::move(call));
    }
    if (!cancel_after(round.tests_until_cancel[me], *group, calls)) return false;
    for (auto& call : calls) {
      if (const Status ended = call->call().wait(); !ended) {
        if (!is_end(ended.error(), *call)) return false;
      } else if (!call->right()) {
        rank_.complain("wrong data in " + call->describe() + ", which ended well");
        return false;
      }
    }
    for (auto& call : calls) watched_.emplace_back(std::move(call));
    return true;
  }

  bool cancel_after(int tests, Group& group, std::vector<std::unique_ptr<Posted>>& calls) {
    if (tests < 0) return true;
    for (int i = 0; i < tests && !calls.empty(); ++i) {
      Posted& call = *calls[static_cast<size_t>(i) % calls.size()];
      if (const Result<bool> done = call.call().test(); !done && !is_end(done.error(), call))
        return false;
    }
    const Rank me = rank_.context.rank();
    rank_.context.executor().end_group(
        group.state(), {me, ErrorCode::kCancelled, fmt::format("rank {} has cancelled it", me)});
    return true;
  }

  void check_oldest() {
    if (!watched_.front().untouched())
      rank_.complain("something was written to memory of " + watched_.front().call().describe() +
                     " after it had been given back");
    watched_.pop_front();
  }

  const RankView& rank_;
  std::mt19937 common_;
  std::deque<Watched> watched_;
};

struct Way {
  const char* name;
  std::vector<std::vector<int>> layouts;
  const char* transport;
  bool adversarial;
};

class RandomEnds : public ::testing::TestWithParam<Way> {
 protected:
  static void run(uint32_t jobs) {
    const Way& way = GetParam();
    if (std::string_view(way.transport) == "verbs") {
      // Whole machines stall for longer than the default bears where a host is overloaded.
      setenv("IBCOLL_ACK_TIMEOUT", "18", 0);
      if (!usable_network_port("verbs"))
        GTEST_SKIP() << "no RDMA device here; ./run softroce brings some";
    }
    const char* const first = getenv("TEST_END_SEED");
    const char* const many = getenv("TEST_ENDS");
    const auto seed = static_cast<uint32_t>(first != nullptr ? std::stoul(first) : 1);
    if (many != nullptr)
      jobs = static_cast<uint32_t>((std::stoul(many) + kRounds - 1) / kRounds);
    else if (first != nullptr)
      jobs = 1;
    for (uint32_t i = seed; i < seed + jobs && !HasFailure(); ++i) {
      JobOptions job;
      job.shape =
          Shape::from_layout(way.layouts[i % way.layouts.size()], Placement::kBlock).value();
      job.context.transport = way.transport;
      job.context.deadline_ns = 30'000'000'000;  // fails instead of hanging
      if (way.adversarial) job.context.loopback_seed = i;
      SCOPED_TRACE(fmt::format("{}, seed {}", way.name, i));
      EXPECT_EQ(run_job(job, [&](const RankView& rank) { Worker(rank, i).run(); }), "");
    }
  }
};

TEST_P(RandomEnds, SpareOtherGroupsAndMemory) { run(4); }

class RandomEndsFull : public RandomEnds {};
TEST_P(RandomEndsFull, AThousand) { run(1000 / kRounds); }

const Way kWays[] = {{"shm", {{2}, {5}, {3}}, "auto", false},
                     {"loopback", {{1, 1}, {2, 1, 2}, {2, 2}, {1, 1, 1, 1}}, "loopback", false},
                     {"adversarial", {{1, 1}, {2, 1, 2}, {2, 2}, {3, 1, 2}}, "loopback", true},
                     {"verbs", {{1, 1}, {2, 1, 2}, {2, 2}}, "verbs", false}};
INSTANTIATE_TEST_SUITE_P(Ways, RandomEnds, ::testing::ValuesIn(kWays), testing::named);
INSTANTIATE_TEST_SUITE_P(Ways, RandomEndsFull, ::testing::ValuesIn(kWays), testing::named);

}  // namespace
}  // namespace ibcoll
