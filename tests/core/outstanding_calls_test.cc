// More calls under way than any table was made for, and ranks that make them in different orders.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "ibcoll/blocks.h"
#include "tests/exchange.h"

namespace ibcoll {
namespace {

using testing::Exchange;
using testing::job_of;
using testing::JobOptions;
using testing::RankView;
using testing::run_job;

using Calls = std::vector<std::unique_ptr<Exchange>>;

bool post(const RankView& rank, Group& group, size_t bytes, uint32_t calls, Calls& all) {
  for (uint32_t i = 0; i < calls; ++i) {
    all.push_back(std::make_unique<Exchange>(group, bytes, static_cast<uint32_t>(all.size())));
    if (!rank.good(all.back()->post(), "post")) return false;
  }
  return true;
}

void finish(const RankView& rank, Calls& calls) {
  for (auto& exchange : calls) {
    if (!rank.good(exchange->call().wait(), "wait")) return;
    if (!exchange->right()) rank.complain("wrong data");
  }
}

/// Fails instead of hanging.
JobOptions with_deadline(JobOptions job) {
  job.context.deadline_ns = 20'000'000'000;
  return job;
}

TEST(OutstandingCalls, OfOneGroupMayBeHundreds) {
  for (const std::vector<int>& layout : {std::vector<int>{2}, {1, 1}, {2, 1}}) {
    EXPECT_EQ(run_job(with_deadline(job_of(layout)),
                      [](const RankView& rank) {
                        Calls calls;
                        if (post(rank, rank.context.world(), 5000, 300, calls)) finish(rank, calls);
                      }),
              "");
  }
}

TEST(OutstandingCalls, OfManyGroupsMayBePostedInOppositeOrders) {
  for (const std::vector<int>& layout : {std::vector<int>{2}, {1, 1}}) {
    EXPECT_EQ(run_job(with_deadline(job_of(layout)),
                      [](const RankView& rank) {
                        constexpr size_t kGroups = 40;
                        std::vector<std::shared_ptr<Group>> groups;
                        for (size_t i = 0; i < kGroups; ++i) {
                          auto group = rank.context.groups().create({0, 1});
                          if (!rank.good(group, "group")) return;
                          groups.push_back(std::move(*group));
                        }
                        if (rank.context.rank() == 1) std::reverse(groups.begin(), groups.end());
                        std::vector<Calls> calls(kGroups);
                        for (size_t i = 0; i < kGroups; ++i) {
                          if (!post(rank, *groups[i], 9000, 20, calls[i])) return;
                        }
                        for (Calls& of_group : calls) finish(rank, of_group);
                      }),
              "");
  }
}

TEST(OutstandingCalls, OfOneGroupDoNotHoldUpAnother) {
  for (const size_t bytes : {size_t{64} << 10, size_t{9000}, size_t{64}}) {
    for (const std::vector<int>& layout : {std::vector<int>{2}, {1, 1}}) {
      for (const bool private_reads : {true, false}) {
        JobOptions job = with_deadline(job_of(layout));
        job.context.allow_process_vm = private_reads;
        EXPECT_EQ(
            run_job(job,
                    [bytes](const RankView& rank) {
                      auto first = rank.context.groups().create({0, 1});
                      auto second = rank.context.groups().create({1, 0});
                      if (!rank.good(first, "group") || !rank.good(second, "group")) return;
                      Calls of_first, of_second;
                      if (rank.context.rank() == 0) {
                        for (int i = 0; i < 12; ++i) {
                          if (!post(rank, **first, bytes, 1, of_first)) return;
                          rank.context.executor().progress();
                        }
                      }
                      if (!post(rank, **second, bytes, 1, of_second)) return;
                      finish(rank, of_second);
                      if (rank.context.rank() == 1 && !post(rank, **first, bytes, 12, of_first))
                        return;
                      finish(rank, of_first);
                    }),
            "")
            << bytes << " bytes, layout of " << layout.size();
      }
    }
  }
}

struct Crossing {
  const char* name;
  std::vector<int> layout;
  size_t bytes;
  int calls;
  bool private_reads = true;
  bool several_threads = false;
};

/// Each rank is the root of broadcasts to the next one, on a group whose calls that one makes last;
/// between these they make a call on a third group. What stands in the rings first must not keep
/// that from them.
void cross(const RankView& rank, const Crossing& crossing, const Algorithm& algorithm) {
  constexpr size_t kShort = 1024;
  const size_t bytes = crossing.bytes;
  const Rank me = rank.context.rank(), size = rank.context.size();
  const Rank next = (me + 1) % size, before = (me + size - 1) % size;
  if (crossing.several_threads && !rank.good(rank.context.threads().use(true, false), "threads"))
    return;
  std::vector<Rank> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  auto combining = rank.context.groups().create(all);
  auto mine = rank.context.groups().create({me, next}, 1);
  auto others = rank.context.groups().create({before, me}, 1);
  if (!rank.good(combining, "group") || !rank.good(mine, "group") || !rank.good(others, "group"))
    return;
  const auto number = [](Rank root) { return std::byte{static_cast<uint8_t>(root + 1)}; };
  std::vector<std::byte> sent(std::max(bytes, kShort * static_cast<size_t>(size)), number(me));
  std::vector<std::vector<std::byte>> received(static_cast<size_t>(crossing.calls),
                                               std::vector<std::byte>(bytes));
  std::vector<std::byte> sum(static_cast<size_t>(size) * kShort);
  std::vector<std::unique_ptr<Call>> calls;
  const auto start = [&](Group& group, const CallArguments& arguments) {
    calls.push_back(std::make_unique<Call>(group));
    return rank.good(calls.back()->prepare(arguments), "prepare") &&
           rank.good(calls.back()->start(), "start");
  };
  CallArguments bcast;
  bcast.collective = Collective::kBcast;
  bcast.block_bytes = bytes;
  bcast.send = bcast.recv = sent.data();
  for (int i = 0; i < crossing.calls; ++i) {
    if (!start(**mine, bcast)) return;
  }
  CallArguments combine;
  combine.collective = algorithm.collective;
  combine.options.algorithm = algorithm.name;
  combine.block_bytes = kShort;
  combine.send = sent.data();
  combine.recv = sum.data();
  combine.reduction = find_reduction(ElementType::kUint8, Operator::kMax).value();
  if (!start(**combining, combine)) return;
  if (!rank.good(calls.back()->wait(), "combine")) return;
  const bool combines = algorithm.collective == Collective::kAllreduce;
  if (sum[kShort - 1] != (combines ? number(size - 1) : number(0))) rank.complain("wrong sum");
  for (auto& block : received) {
    bcast.send = bcast.recv = block.data();
    if (!start(**others, bcast)) return;
  }
  for (const auto& call : calls) {
    if (!rank.good(call->wait(), "wait")) return;
  }
  for (const auto& block : received) {
    if (block != std::vector<std::byte>(bytes, number(before))) return rank.complain("wrong data");
  }
}

class OutstandingCallsCrosswise : public ::testing::TestWithParam<Crossing> {};

TEST_P(OutstandingCallsCrosswise, HoldUpNoOtherGroup) {
  const Crossing& crossing = GetParam();
  JobOptions job = with_deadline(job_of(crossing.layout));
  job.context.allow_process_vm = crossing.private_reads;
  for (const Algorithm& algorithm : algorithms()) {
    const bool combines = algorithm.collective == Collective::kAllreduce;
    if (!combines && algorithm.collective != Collective::kAlltoall) continue;
    EXPECT_EQ(run_job(job, [&](const RankView& rank) { cross(rank, crossing, algorithm); }), "")
        << to_string(algorithm.collective) << " " << algorithm.name;
  }
}

constexpr size_t kLong = size_t{120} << 10, kLonger = size_t{32} << 20;
const Crossing kCrossings[] = {
    {"long", {2}, kLong, 4},
    {"long_through_the_ring", {2}, kLong, 4, false},
    {"short", {2}, 40, 900},
    {"short_through_the_ring", {2}, 1000, 900, false},
    {"one_of_many_pieces", {2}, kLonger, 1},
    {"one_of_many_chunks", {2}, kLonger / 4, 1, false},
    {"in_a_cycle", {3}, kLong, 4, false},
    {"in_a_cycle_of_short_ones", {4}, 1000, 900, false},
    {"on_several_threads", {2}, kLong, 4, false, true},
};
INSTANTIATE_TEST_SUITE_P(Ways, OutstandingCallsCrosswise, ::testing::ValuesIn(kCrossings),
                         [](const auto& info) { return std::string(info.param.name); });

/// The root of a scatterv has nothing for a rank that makes its calls when the ring to it has long
/// been full: what carries no data waits for a line as anything else.
TEST(OutstandingCalls, NothingIsLostOrReadForAMessageOfNoBytesToAFullRing) {
  constexpr int kCalls = 2000;
  constexpr int64_t kRun = 512, kRuns = 8;  // what the root has for itself lies in strides
  for (const bool strided : {false, true}) {
    EXPECT_EQ(run_job(with_deadline(job_of({2})),
                      [&](const RankView& rank) {
                        auto group = rank.context.groups().create({0, 1});
                        if (!rank.good(group, "group")) return;
                        const bool root = rank.context.rank() == 0;
                        std::vector<std::byte> from(2 * kRun * kRuns, std::byte{7});
                        std::vector<std::byte> to(kRun * kRuns);
                        const std::array<int64_t, 2> lengths{kRun * kRuns, 0}, places{0, 0};
                        const std::array<ibcoll_block, 2> blocks{
                            ibcoll_block_vector(0, kRun, kRuns, 2 * kRun),
                            ibcoll_block_vector(0, kRun, 0, 2 * kRun)};
                        CallArguments scatter;
                        scatter.collective = Collective::kScatterv;
                        scatter.send = root ? from.data() : nullptr;
                        scatter.recv = to.data();
                        scatter.own_count = root ? lengths[0] : lengths[1];
                        if (root && strided) scatter.send_blocks = blocks.data();
                        if (root && !strided) {
                          scatter.send_counts = lengths.data();
                          scatter.send_displacements = places.data();
                        }
                        for (int i = 0; i < kCalls; ++i) {
                          // Late again and again; the root runs ahead meanwhile.
                          if (!root && i % 500 == 0)
                            std::this_thread::sleep_for(std::chrono::milliseconds(20));
                          Call call(**group);
                          if (!rank.good(call.prepare(scatter), "prepare") ||
                              !rank.good(call.start(), "start") || !rank.good(call.wait(), "wait"))
                            return;
                        }
                      }),
              "")
        << strided;
  }
}

}  // namespace
}  // namespace ibcoll
