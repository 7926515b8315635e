// Every algorithm with blocks of all layouts, in every way that data travels.

#include <gtest/gtest.h>

#include "tests/algorithm_lists.h"
#include "tests/strided_sweep.h"
#include "tests/sweep.h"
#include "tests/threads_transport.h"

namespace ibcoll {
namespace {

using testing::JobOptions;
using testing::LongRuns;
using testing::run_job;
using testing::shape_of;
using testing::shapes;
using testing::strided_sweep;

TEST(StridedSweep, EveryAlgorithmOnUpToThreeRanks) {
  uint32_t first = 0;
  for (const int ranks : {1, 2, 3}) {
    for (const Shape& shape : shapes(ranks)) {
      JobOptions job;
      job.shape = shape;
      strided_sweep(job, {0, 24, 24000}, first += 7);
    }
  }
}

/// In each placement other blocks.
void sweep_unequal_servers(const std::vector<std::vector<int>>& layouts,
                           const std::vector<size_t>& block, const std::vector<size_t>& cyclic) {
  for (const Placement placement : {Placement::kBlock, Placement::kCyclic}) {
    for (const std::vector<int>& layout : layouts) {
      JobOptions job;
      job.shape = shape_of(layout, placement);
      const bool in_blocks = placement == Placement::kBlock;
      strided_sweep(job, in_blocks ? block : cyclic, in_blocks ? 0 : 1001);
    }
  }
}

TEST(StridedSweep, UnequalServersInAnyPlacement) {
  sweep_unequal_servers({{3, 1, 1}, {4, 3}}, {96}, {12000});
}

TEST(StridedSweep, WhereNobodyMayReadAnothersMemory) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {2, 1}}) {
    JobOptions job;
    job.shape = shape_of(layout);
    job.context.allow_process_vm = false;
    strided_sweep(job, {24, 60000});
  }
}

TEST(StridedSweep, LongBlocksGoInPieces) {
  JobOptions job;
  job.shape = shape_of({2, 1});
  strided_sweep(job, {160'000}, 1);
}

TEST(StridedSweep, WithoutEagerMessagesAndWithThreads) {
  for (const bool threads : {false, true}) {
    JobOptions job;
    job.shape = shape_of({2, 1, 2});
    job.threads = threads;
    job.context.eager_bytes = 0;
    strided_sweep(job, {24, 6000}, 5);
  }
}

TEST(StridedSweep, AdversarialLoopback) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    JobOptions job;
    job.shape = shape_of(seed % 2 == 0 ? std::vector<int>{3, 1, 2} : std::vector<int>{2, 2});
    job.threads = seed > 3;
    job.context.loopback_seed = seed;
    strided_sweep(job, {24, 6000}, static_cast<uint32_t>(seed) * 13);
  }
}

/// All lengths that blocks have are multiples of a long run's.
constexpr size_t kLongRuns = 6 * 4096;

TEST(StridedSweep, LongRunsArePutFromWhereTheyLie) {
  for (const uint64_t seed : {0, 1, 2}) {
    JobOptions job;
    job.shape = shape_of(seed == 1 ? std::vector<int>{1, 2} : std::vector<int>{1, 1});
    job.threads = seed == 2;
    job.context.loopback_seed = seed;
    strided_sweep(job, {kLongRuns}, static_cast<uint32_t>(seed) * 3, LongRuns::kSome);
  }
}

/// Over a network that gathers two segments at a time.
TEST(StridedSweep, MoreRunsThanAPutTakesGoInSeveral) {
  testing::ThreadsTransport::add();
  JobOptions job;
  job.shape = shape_of({1, 1, 1});
  job.threads = true;
  job.context.transport = testing::ThreadsTransport::kName;
  strided_sweep(job, {kLongRuns}, 5, LongRuns::kSome);
}

/// Several puts a message, between which there may be no room.
TEST(StridedSweep, PutsOfOneMessageGoOnWhereThereWasNoRoom) {
  for (const uint64_t seed : {1, 2}) {
    JobOptions job;
    job.shape = shape_of({1, 1});
    job.threads = seed == 2;
    job.context.loopback_seed = seed;
    strided_sweep(job, {40 * 4096}, static_cast<uint32_t>(seed), LongRuns::kSome);
  }
}

TEST(StridedCalls, LengthsThatDifferAreAnErrorThatNamesThem) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {1, 1, 1}, {2, 1}}) {
    for (const Algorithm* const algorithm :
         testing::unplanned_algorithms_of(Collective::kAlltoallw)) {
      SCOPED_TRACE(algorithm->name);
      JobOptions job;
      job.shape = shape_of(layout);
      testing::Complaints errors(3);
      int status = 0;
      (void)run_job(
          job,
          [&](const testing::RankView& rank) {
            std::vector<ibcoll_block> send(3, ibcoll_block_vector(0, 8, 4, 16)), recv;
            for (int i = 0; i < 3; ++i) recv.push_back(ibcoll_block_vector(i * 100, 4, 8, 8));
            if (rank.context.rank() == 0) recv[2] = ibcoll_block_vector(200, 8, 5, 16);
            std::vector<std::byte> from(300), to(300);
            CallArguments arguments;
            arguments.collective = Collective::kAlltoallw;
            arguments.send = from.data();
            arguments.recv = to.data();
            arguments.send_blocks = send.data();
            arguments.recv_blocks = recv.data();
            arguments.options.algorithm = algorithm->name;
            const auto error_of = [&]() -> Status {
              Call call(rank.context.world()), after(rank.context.world());
              IBCOLL_TRY(call.prepare(arguments));
              IBCOLL_TRY(call.start());
              IBCOLL_TRY(call.wait());
              // Who was not told in the first call is in the next one.
              CallArguments barrier;
              IBCOLL_TRY(after.prepare(barrier));
              IBCOLL_TRY(after.start());
              return after.wait();
            };
            const Status result = error_of();
            errors.add(rank.context.rank(), result ? "no error" : result.error().message);
          },
          &status);
      for (Rank rank = 0; rank < 3; ++rank) {
        EXPECT_NE(errors.of(rank).find("32"), std::string::npos) << errors.of(rank);
        EXPECT_NE(errors.of(rank).find("40"), std::string::npos) << errors.of(rank);
        EXPECT_NE(errors.of(rank).find("rank 2"), std::string::npos) << errors.of(rank);
      }
    }
  }
}

TEST(StridedSweepFull, UnequalServersInAnyPlacement) {
  sweep_unequal_servers({{5}, {3, 1, 1}, {4, 3}, {5, 2, 4, 1}}, {96, 12000}, {96, 12000});
}

TEST(StridedSweepFull, EveryAlgorithmOnEveryShape) {
  for (const int ranks : {4, 5, 7, 8, 12}) {
    for (const Shape& shape : shapes(ranks)) {
      JobOptions job;
      job.shape = shape;
      strided_sweep(job, {0, 7, 4096, 100'000});
    }
  }
}

}  // namespace
}  // namespace ibcoll
