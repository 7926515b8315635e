// Calls on sets of ranks, each a group of its own: thousands of all kinds under way at once, made
// by every rank in an order of its own, ended in another and freed in a third; every byte is
// checked.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "engine/core/set_call_counts.h"
#include "tests/any_call.h"

namespace ibcoll {
namespace {

using testing::Item;
using testing::job_of;
using testing::JobOptions;
using testing::Posted;
using testing::RankView;

/// A call as all its members know it: Item::group is an index of SetWork::sets.
struct SetCall {
  Item item;
  uint64_t tag = 0;
};

/// What the whole job does; computed by every rank from the seed.
struct SetWork {
  std::vector<std::vector<Rank>> sets;
  std::vector<SetCall> calls;
};

std::vector<Rank> some_set(std::mt19937& random, int ranks) {
  std::vector<Rank> members;
  while (members.empty()) {
    const uint32_t dense = 1 + random() % 4;
    for (Rank rank = 0; rank < ranks; ++rank) {
      if (random() % 4 < dense) members.push_back(rank);
    }
  }
  return members;
}

SetWork some_set_work(uint32_t seed, int ranks, uint32_t sets, uint32_t calls) {
  constexpr std::array<size_t, 12> kSizes = {0,   1,   7,    8,    24,    40,
                                             100, 333, 1000, 4000, 20000, 70001};
  std::mt19937 random(seed);
  SetWork work;
  for (uint32_t i = 0; i < sets; ++i) work.sets.push_back(some_set(random, ranks));
  for (uint32_t number = 0; number < calls; ++number) {
    SetCall call;
    call.tag = random() % 3;
    call.item.group = random() % work.sets.size();
    call.item.collective = kCollectives[number % kCollectives.size()];
    call.item.root = static_cast<Rank>(random() % work.sets[call.item.group].size());
    call.item.bytes = kSizes[random() % kSizes.size()];
    call.item.number = number;
    call.item.persistent = random() % 5 == 0;
    call.item.in_place = random() % 4 == 0 && (call.item.collective == Collective::kAlltoall ||
                                               call.item.collective == Collective::kAllgather);
    work.calls.push_back(call);
  }
  return work;
}

/// One rank's part of the work.
class SetWorker {
 public:
  SetWorker(const RankView& rank, const SetWork& work, uint32_t seed)
      : rank_(rank),
        work_(work),
        random_(seed * 1000 + static_cast<uint32_t>(rank.context.rank())) {}

  void run() {
    sort_into_queues();
    while (!queues_.empty() || !ready_.empty() || !under_way_.empty()) {
      const uint32_t what = random_() % 8;
      bool good = true;
      if (what < 3 && !queues_.empty()) {
        good = make();
      } else if (what < 6 && !ready_.empty()) {
        good = start();
      } else if (!under_way_.empty()) {
        good = end(what == 7 && all_started());
      }
      if (!good) return;
      // Some are freed at once, others much later.
      while (ended_.size() > 40 || (!ended_.empty() && random_() % 3 == 0))
        ended_.erase(ended_.begin() + static_cast<ptrdiff_t>(random_() % ended_.size()));
    }
  }

 private:
  struct Running {
    std::unique_ptr<Posted> call;
    int starts = 1;  ///< that are left
  };

  /// Calls of one set with one tag, which are made in their order, by both of these.
  void sort_into_queues() {
    std::map<std::pair<std::vector<Rank>, uint64_t>, std::deque<const SetCall*>> by_pair;
    for (const SetCall& call : work_.calls) {
      const std::vector<Rank>& members = work_.sets[call.item.group];
      if (std::binary_search(members.begin(), members.end(), rank_.context.rank()))
        by_pair[{members, call.tag}].push_back(&call);
    }
    for (auto& [pair, queue] : by_pair) queues_.push_back(std::move(queue));
  }

  bool make() {
    const size_t place = random_() % queues_.size();
    std::deque<const SetCall*>& queue = queues_[place];
    const SetCall& call = *queue.front();
    queue.pop_front();
    if (queue.empty()) {
      queue.swap(queues_.back());
      queues_.pop_back();
    }
    auto group = rank_.context.groups().of_call(work_.sets[call.item.group], call.tag);
    if (!rank_.good(group, "group")) return false;
    ready_.push_back({std::make_unique<Posted>(**group, call.item), call.item.persistent ? 3 : 1});
    return rank_.good(ready_.back().call->prepare(), "prepare " + ready_.back().call->describe());
  }

  bool start() {
    const size_t place = random_() % ready_.size();
    Running running = std::move(ready_[place]);
    ready_.erase(ready_.begin() + static_cast<ptrdiff_t>(place));
    Posted& call = *running.call;
    call.fill(call.item().number + 1'000'000u * static_cast<uint32_t>(running.starts--));
    under_way_.push_back(std::move(running));
    return rank_.good(call.call().start(), "start " + call.describe());
  }

  /// Others may wait for those that are not.
  bool all_started() const {
    return queues_.empty() && ready_.empty() &&
           std::none_of(under_way_.begin(), under_way_.end(),
                        [](const Running& running) { return running.starts > 0; });
  }

  bool end(bool waits) {
    const size_t place = random_() % under_way_.size();
    Posted& call = *under_way_[place].call;
    if (waits) {
      if (!rank_.good(call.call().wait(), "wait for " + call.describe())) return false;
    } else {
      const Result<bool> done = call.call().test();
      if (!rank_.good(done, "test " + call.describe())) return false;
      if (!*done) return true;
    }
    if (!call.right()) {
      rank_.complain("wrong data in " + call.describe());
      return false;
    }
    Running running = std::move(under_way_[place]);
    under_way_.erase(under_way_.begin() + static_cast<ptrdiff_t>(place));
    if (running.starts > 0) {
      ready_.push_back(std::move(running));
    } else {
      ended_.push_back(std::move(running.call));
    }
    return true;
  }

  const RankView& rank_;
  const SetWork& work_;
  std::mt19937 random_;
  std::vector<std::deque<const SetCall*>> queues_;
  std::vector<Running> ready_, under_way_;
  std::vector<std::unique_ptr<Posted>> ended_;
};

void expect_right(const JobOptions& job, uint32_t seed, uint32_t sets, uint32_t calls) {
  const SetWork work = some_set_work(seed, job.shape.ranks(), sets, calls);
  EXPECT_EQ(run_job(job, [&](const RankView& rank) { SetWorker(rank, work, seed).run(); }), "")
      << job.shape.describe() << ", seed " << seed;
}

TEST(SetCalls, InOneServer) { expect_right(job_of({5}), 1, 12, 1100); }

TEST(SetCalls, BetweenServers) {
  expect_right(job_of({3, 1, 2}), 2, 14, 880);
  expect_right(job_of({2, 2, 2}, Placement::kCyclic), 3, 14, 880);
}

TEST(SetCalls, OverANetworkThatReordersAndDelays) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    JobOptions job = job_of(seed % 2 == 0 ? std::vector<int>{2, 3} : std::vector<int>{1, 2, 1});
    job.context.loopback_seed = seed;
    job.threads = seed > 2;
    expect_right(job, static_cast<uint32_t>(10 + seed), 10, 440);
  }
}

TEST(SetCallsFull, ManySeeds) {
  for (uint32_t seed = 100; seed < 130; ++seed) {
    JobOptions job = job_of(seed % 3 == 0 ? std::vector<int>{6} : std::vector<int>{3, 2, 2});
    job.context.loopback_seed = seed % 2 == 0 ? seed : 0;
    expect_right(job, seed, 20, 2200);
  }
}

/// A member whose call was refused on it alone makes the next one in its place.
TEST(SetCalls, ThatAreTakenBackDoNotCount) {
  const auto body = [](const RankView& rank) {
    for (uint32_t i = 0; i < 30; ++i) {
      if (i % 3 == static_cast<uint32_t>(rank.context.rank())) {
        auto refused = rank.context.groups().of_call({0, 1}, 5);
        if (!rank.good(refused, "group")) return;
        rank.context.groups().take_back(**refused);
      }
      auto group = rank.context.groups().of_call({0, 1}, 5);
      if (!rank.good(group, "group")) return;
      Item item;
      item.collective = Collective::kAllgather;
      item.bytes = 40;
      item.number = i;
      Posted call(**group, item);
      if (!rank.good(call.prepare(), "prepare") || !rank.good(call.call().start(), "start") ||
          !rank.good(call.call().wait(), "wait"))
        return;
      if (!call.right()) rank.complain("wrong data");
    }
  };
  EXPECT_EQ(run_job(job_of({2}), body), "");
  EXPECT_EQ(run_job(job_of({1, 1}), body), "");
}

TEST(SetCalls, HaveNamesOfTheirOwn) {
  const auto body = [](const RankView& rank) {
    std::set<uint64_t> keys;
    size_t made = 0;
    std::vector<std::shared_ptr<Group>> groups;
    const auto add = [&](Result<std::shared_ptr<Group>> group) {
      if (!rank.good(group, "group")) return;
      keys.insert((*group)->identity().key);
      groups.push_back(std::move(*group));
      ++made;
    };
    for (uint64_t id = 0; id < 20; ++id) {
      add(rank.context.groups().create({0, 1}, id));
      for (int i = 0; i < 3; ++i) {
        add(rank.context.groups().of_call({0, 1}, id));
        add(rank.context.groups().of_call({rank.context.rank()}, id));
      }
    }
    if (keys.size() != made) rank.complain(fmt::format("{} keys of {}", keys.size(), made));
  };
  EXPECT_EQ(run_job(job_of({2}), body), "");
}

size_t bytes_in_use() {
  const struct mallinfo2 all = mallinfo2();
  return all.uordblks + all.hblkhd;
}

/// Whatever is kept of many calls, on sets that change all the time, is bounded.
TEST(SetCalls, LeaveNoMemoryBehind) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr uint32_t kCalls = 10'000, kWarm = 2'000;  // mallinfo2 sees nothing of its allocator
#else
  constexpr uint32_t kCalls = 30'000, kWarm = 10'000;
#endif
  const auto body = [](const RankView& rank) {
    const int ranks = rank.context.size();
    std::mt19937 random(7);
    constexpr size_t kLong = 2048;  // numbers; between servers such blocks need exposures
    std::vector<int64_t> send(kLong), recv(kLong * static_cast<size_t>(ranks));
    size_t warm = 0;
    for (uint32_t i = 0; i < kCalls; ++i) {
      if (i == kWarm) warm = bytes_in_use();
      const std::vector<Rank> members = some_set(random, ranks);
      const auto place = std::find(members.begin(), members.end(), rank.context.rank());
      if (place == members.end()) continue;
      auto group = rank.context.groups().of_call(members, i);
      if (!rank.good(group, "group")) return;
      CallArguments arguments;
      arguments.collective = Collective::kAllgather;
      arguments.send = send.data();
      arguments.recv = recv.data();
      const size_t numbers = i % 16 == 0 ? kLong : 1;
      arguments.block_bytes = numbers * sizeof(int64_t);
      send[0] = i + 100'000 * rank.context.rank();
      Call call(**group);
      if (!rank.good(call.prepare(arguments), "prepare") || !rank.good(call.start(), "start") ||
          !rank.good(call.wait(), "wait"))
        return;
      for (size_t k = 0; k < members.size(); ++k) {
        if (recv[k * numbers] != i + 100'000 * members[k]) return rank.complain("wrong data");
      }
    }
    // A group that is left behind takes over a kilobyte, of which there would be 20 000.
    constexpr size_t kMost = SetCallCounts::kMostBytes + (size_t{1} << 18);
    const size_t now = bytes_in_use();
    if (now > warm + kMost) rank.complain(fmt::format("{} bytes more", now - warm));
  };
  EXPECT_EQ(run_job(job_of({3}), body), "");
  EXPECT_EQ(run_job(job_of({2, 1}), body), "");
}

TEST(SetCallCounts, RememberTheLatestAndGrowNoFurther) {
  SetCallCounts counts;
  constexpr uint64_t kOften = 0, kSeldom = 2;  // hashes may be anything
  EXPECT_EQ(counts.made(kOften), 0u);
  EXPECT_EQ(counts.take(kSeldom), 0u);
  std::mt19937_64 random(3);
  uint32_t often = 0;
  for (size_t i = 0; i < 5 * SetCallCounts::kRemembered; ++i) {
    counts.take(random() | 8);
    if (i % (SetCallCounts::kRemembered - 1) == 0) {
      ASSERT_EQ(counts.made(kOften), often);
      ASSERT_EQ(counts.take(kOften), often++);
    }
    ASSERT_LE(counts.memory_bytes(), SetCallCounts::kMostBytes);
  }
  EXPECT_GE(often, 5u);
  EXPECT_EQ(counts.made(kSeldom), 0u) << "nothing is forgotten";
  counts.put_back(kOften);
  EXPECT_EQ(counts.take(kOften), often - 1);
}

}  // namespace
}  // namespace ibcoll
