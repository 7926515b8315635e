// Memory that runs out on one rank only.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/exchange.h"

namespace ibcoll {
namespace {

using testing::Complaints;
using testing::Exchange;
using testing::job_of;
using testing::JobOptions;
using testing::RankView;
using testing::run_job;

/// Every rank must get the same error, of memory that ran out on one of them.
void expect_no_memory(const JobOptions& job, const std::function<Status(const RankView&)>& body) {
  Complaints errors(job.shape.ranks());
  int status = 0;
  (void)run_job(
      job,
      [&](const RankView& rank) {
        const Status result = body(rank);
        errors.add(rank.context.rank(), result ? "no error" : result.error().message);
        if (!result && result.error().code != ErrorCode::kNoMemory)
          errors.add(rank.context.rank(), "another code");
      },
      &status);
  // Behind the semicolon each rank says where it was itself.
  const auto common = [&](Rank rank) {
    return errors.of(rank).substr(0, errors.of(rank).find(';'));
  };
  EXPECT_THAT(common(0), ::testing::MatchesRegex("rank [0-9]: can't allocate .*"));
  for (Rank rank = 1; rank < job.shape.ranks(); ++rank) EXPECT_EQ(common(rank), common(0));
}

JobOptions small_heaps(std::vector<int> layout) {
  JobOptions job = job_of(std::move(layout));
  job.context.heap_bytes = size_t{4} << 20;
  return job;
}

TEST(OutOfMemory, BeforeACallIsAnErrorOnAllRanks) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {1, 1, 1}, {2, 1}}) {
    expect_no_memory(small_heaps(layout), [](const RankView& rank) -> Status {
      if (rank.context.rank() == 1) IBCOLL_TRY(rank.context.allocate(size_t{3} << 20));
      Exchange exchange(rank.context.world(), size_t{1} << 20, 0, "bruck");
      IBCOLL_TRY(exchange.post());
      return exchange.call().wait();
    });
  }
}

/// Rank 0 sends so much that who relays it has no room; what it is becomes known in the call's
/// first phase.
TEST(OutOfMemory, BetweenThePhasesOfACallIsAnErrorOnAllRanks) {
  for (const bool polls : {false, true}) {
    const JobOptions job = small_heaps({2, 2});
    expect_no_memory(job, [polls](const RankView& rank) -> Status {
      Group& group = rank.context.world();
      const Rank me = group.rank();
      const std::vector<std::byte> send(size_t{40} << 20);
      std::vector<std::byte> recv(send.size());
      const auto length = [](Rank from, Rank to) {
        return from == 0 && to == 3 ? int64_t{6} << 20 : int64_t{8};
      };
      std::vector<int64_t> send_counts, recv_counts, displacements;
      for (Rank peer = 0; peer < 4; ++peer) {
        send_counts.push_back(length(me, peer));
        recv_counts.push_back(length(peer, me));
        displacements.push_back(int64_t{peer} * (int64_t{8} << 20));
      }
      CallArguments arguments;
      arguments.collective = Collective::kAlltoallv;
      arguments.send = send.data();
      arguments.recv = recv.data();
      arguments.send_counts = send_counts.data();
      arguments.recv_counts = recv_counts.data();
      arguments.send_displacements = arguments.recv_displacements = displacements.data();
      arguments.options.algorithm = "aggregate";
      Call call(group);
      IBCOLL_TRY(call.prepare(arguments));
      IBCOLL_TRY(call.start());
      if (!polls) return call.wait();
      for (;;) {
        IBCOLL_ASSIGN(const bool done, call.test());
        if (done) return {};
      }
    });
  }
}

}  // namespace
}  // namespace ibcoll
