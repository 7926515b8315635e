// Reductions with results on many servers along plans for a network that is described: sums are
// right on every layout, and what plans can't do is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/schedule/layout.h"
#include "tests/job.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;
using testing::JobOptions;
using testing::RankView;
using testing::run_job;

Status make(Group& group, const CallArguments& arguments) {
  Call call(group);
  IBCOLL_TRY(call.prepare(arguments));
  IBCOLL_TRY(call.start());
  return call.wait();
}

JobOptions job_of(const char* layout, Placement placement = Placement::kBlock) {
  JobOptions job;
  job.shape = parse_layout(layout, placement).value();
  job.context.fabric = {"fat-tree:2,3", ""};
  return job;
}

/// What rank r has at place i; of all ranks: their sum.
int64_t value(int64_t i, int64_t r) { return 7 * i + 1000 * r; }
int64_t sum(int64_t i, int64_t ranks) { return ranks * 7 * i + 1000 * ranks * (ranks - 1) / 2; }

CallArguments arguments_of(Collective collective) {
  CallArguments a;
  a.collective = collective;
  a.options.algorithm = "contention_free";
  a.reduction = find_reduction(ElementType::kInt64, Operator::kSum).value();
  return a;
}

void expect_sums(const RankView& rank, const std::vector<int64_t>& got, int64_t first,
                 const std::string& what) {
  const int ranks = rank.context.world().size();
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == sum(first + static_cast<int64_t>(i), ranks)) continue;
    return rank.complain(fmt::format("{}: element {} is {}", what, i, got[i]));
  }
}

void allreduce(const RankView& rank, size_t count, bool in_place) {
  std::vector<int64_t> mine(count), sums(count);
  for (size_t i = 0; i < count; ++i) mine[i] = value(static_cast<int64_t>(i), rank.context.rank());
  CallArguments a = arguments_of(Collective::kAllreduce);
  if (in_place) sums = mine;
  a.in_place = in_place;
  a.send = in_place ? nullptr : mine.data();
  a.recv = sums.data();
  a.block_bytes = count * sizeof(int64_t);
  const std::string what = fmt::format("allreduce of {}{}", count, in_place ? " in place" : "");
  if (rank.good(make(rank.context.world(), a), what)) expect_sums(rank, sums, 0, what);
}

void reduce_scatter(const RankView& rank, const std::vector<int64_t>& counts, bool alike) {
  const auto me = static_cast<size_t>(rank.context.rank());
  int64_t all = 0, first = 0;
  for (size_t r = 0; r < counts.size(); ++r) {
    if (r == me) first = all;
    all += counts[r];
  }
  std::vector<int64_t> mine(static_cast<size_t>(all)), sums(static_cast<size_t>(counts[me]));
  for (size_t i = 0; i < mine.size(); ++i) {
    mine[i] = value(static_cast<int64_t>(i), rank.context.rank());
  }
  CallArguments a =
      arguments_of(alike ? Collective::kReduceScatterBlock : Collective::kReduceScatter);
  a.send = mine.data();
  a.recv = sums.data();
  a.recv_counts = alike ? nullptr : counts.data();
  a.block_bytes = static_cast<size_t>(counts[me]) * sizeof(int64_t);
  const std::string what = fmt::format("{} of {}", to_string(a.collective), all);
  if (rank.good(make(rank.context.world(), a), what)) expect_sums(rank, sums, first, what);
}

void reduce_all(const RankView& rank) {
  const int ranks = rank.context.world().size();
  for (const size_t count : {0, 1, 5, 1000, 50'001}) {
    allreduce(rank, count, false);
    allreduce(rank, count, true);
  }
  for (const int64_t count : {0, 1, 300, 9'001}) {
    reduce_scatter(rank, std::vector<int64_t>(ranks, count), true);
    std::vector<int64_t> counts(ranks);
    for (int r = 0; r < ranks; ++r) counts[r] = r % 3 == 1 ? 0 : (r + 1) * count;
    reduce_scatter(rank, counts, false);
  }
}

TEST(PlannedReductions, AreRightOnEveryLayout) {
  for (const char* layout : {"1", "3", "1,1", "1,1,1", "2,1,2", "5x1", "3,1,2,1", "3x4"}) {
    for (const Placement placement : {Placement::kBlock, Placement::kCyclic}) {
      EXPECT_EQ(run_job(job_of(layout, placement), reduce_all), "") << layout;
    }
  }
}

TEST(PlannedReductions, OrderIsRefusedByName) {
  const auto refused = [](const RankView& rank) {
    std::vector<int64_t> mine(10), sums(10);
    CallArguments a = arguments_of(Collective::kAllreduce);
    a.send = mine.data();
    a.recv = sums.data();
    a.block_bytes = 80;
    a.options.ordered = true;
    const Status status = Call(rank.context.world()).prepare(a);
    rank.complain(status ? "was let in" : status.error().message);
  };
  EXPECT_THAT(run_job(job_of("1,1"), refused), HasSubstr("contention_free"));
}

}  // namespace
}  // namespace ibcoll
