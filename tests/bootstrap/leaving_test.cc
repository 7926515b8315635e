// Ranks that leave in order while others wait for them in a collective: all end with one error that
// names who has left, the one that leaves by finalizing, too.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "engine/bootstrap/launch.h"
#include "ibcoll/ibcoll.h"
#include "tests/joined_job.h"

namespace ibcoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::JobOptions;
using testing::RankView;

const char* const kLeft = "rank 2 has left the job while others still wait for it";

Status exchange(Context& context, bool polling = false) {
  std::vector<std::byte> send(static_cast<size_t>(context.size()) * 1000), recv(send.size());
  CallArguments arguments;
  arguments.collective = Collective::kAlltoall;
  arguments.send = send.data();
  arguments.recv = recv.data();
  arguments.block_bytes = 1000;
  Call call(context.world());
  IBCOLL_TRY(call.prepare(arguments));
  IBCOLL_TRY(call.start());
  while (polling) {
    IBCOLL_ASSIGN(const bool done, call.test());
    if (done) return {};
  }
  return call.wait();
}

JobOptions job_of(const std::vector<int>& layout) {
  JobOptions job;
  job.shape = *Shape::from_layout(layout, Placement::kBlock);
  job.context.heap_bytes = size_t{1} << 24;
  return job;
}

TEST(Leaving, ByFinalizingIsOneErrorOnAllRanks) {
  for (const std::vector<int>& layout : {std::vector{3}, std::vector{2, 1}}) {
    for (const bool threads : {false, true}) {
      for (const bool polling : {false, true}) {
        if (threads && polling) continue;
        JobOptions job = job_of(layout);
        job.threads = threads;
        const std::string all = testing::run_job(job, [&](const RankView& rank) {
          if (!rank.good(exchange(rank.context), "first")) return;
          if (rank.context.rank() == 2) return;  // its context is closed
          if (const Status done = exchange(rank.context, polling); !done)
            rank.complain(done.error().message);
        });
        EXPECT_THAT(all, AllOf(HasSubstr(fmt::format("rank 0: {}; rank 0 was waiting", kLeft)),
                               HasSubstr(fmt::format("rank 1: {}; rank 1 was waiting", kLeft)),
                               HasSubstr(fmt::format("rank 2: close: {}", kLeft))));
      }
    }
  }
}

TEST(Leaving, WithoutFinalizingIsOneErrorOnTheOthers) {
  for (const std::vector<int>& layout : {std::vector{3}, std::vector{2, 1}}) {
    const JobOptions job = job_of(layout);
    int status = 0;
    const std::string all = testing::run_job(
        job,
        [&](const RankView& rank) {
          if (!rank.good(exchange(rank.context), "first")) return;
          if (rank.context.rank() == 2) _exit(0);
          if (const Status done = exchange(rank.context); !done) {
            rank.complain(done.error().message);
            _exit(3);
          }
        },
        &status);
    EXPECT_THAT(all, AllOf(HasSubstr(fmt::format("rank 0: {}; ", kLeft)),
                           HasSubstr(fmt::format("rank 1: {}; ", kLeft))));
    EXPECT_EQ(status, 3);
  }
}

TEST(Leaving, OfALateRankIsSaidInTheWarning) {
  JobOptions job = job_of({3});
  // When who waits first looks for who has left; the error that ends it comes 700 ms after.
  job.context.late_ns = 300'000'000;
  ::testing::internal::CaptureStderr();
  (void)testing::run_job(job, [](const RankView& rank) {
    if (rank.context.rank() == 2) return;
    for (int naps = 0; naps < 20'000 && !rank.context.job().bootstrap().absence(2); ++naps)
      usleep(1000);
    (void)exchange(rank.context);
  });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("waiting for rank 2"), HasSubstr(fmt::format("({})", kLeft))));
}

TEST(Leaving, AJoinedJobIsTheSame) {
  for (const std::vector<int>& machines : {std::vector{0, 0, 0}, std::vector{0, 1, 1}}) {
    for (const bool finalizes : {true, false}) {
      const std::string all =
          testing::run_joined(machines, [&](Bootstrap& bootstrap) -> std::string {
            ContextOptions options;
            options.heap_bytes = size_t{1} << 24;
            options.shape = *Shape::from_layout(std::vector{1, 2}, Placement::kBlock);
            options.transport = "loopback";
            const auto context = Context::create(bootstrap, options);
            if (!context) return "no context: " + context.error().message;
            if (const Status done = exchange(**context); !done) return done.error().message;
            if (bootstrap.rank() == 2 && !finalizes) std::exit(0);
            const Status ended = bootstrap.rank() == 2 ? (*context)->close() : exchange(**context);
            return ended ? "succeeds" : ended.error().message;
          });
      EXPECT_THAT(all, AllOf(HasSubstr(fmt::format("rank 0: {}; rank 0 was waiting", kLeft)),
                             HasSubstr(fmt::format("rank 1: {}; rank 1 was waiting", kLeft))));
      if (finalizes) {
        EXPECT_THAT(all, HasSubstr(fmt::format("rank 2: {}", kLeft)));
      }
    }
  }
}

/// A context that ends in order can be followed by another one.
TEST(Leaving, TogetherIsNoErrorAndMayBeRepeated) {
  LaunchOptions launch;
  launch.ranks = 3;
  const auto status = launch_processes(launch, [](Bootstrap& bootstrap) -> int {
    for (int i = 0; i < 2; ++i) {
      ContextOptions options;
      options.heap_bytes = size_t{1} << 24;
      const auto context = Context::create(bootstrap, options);
      if (!context || !exchange(**context)) return 1;
      if (bootstrap.rank() == i) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
      if (!(*context)->close()) return 2;
      if (i == 0 && (bootstrap.absence(0) || bootstrap.absence(1))) return 3;
    }
    return 0;
  });
  EXPECT_EQ(status.value(), 0);
}

/// Through the C interface: a rank that returns while others wait has not ended well.
TEST(Leaving, TheLaunchersStatusTellsOfIt) {
  ibcoll_launch_options options = IBCOLL_LAUNCH_OPTIONS_INIT;
  options.ranks = 3;
  int status = 0;
  const auto main = [](ibcoll_context* context, void*) -> int {
    if (ibcoll_rank(context) == 2) return 0;
    (void)ibcoll_barrier(ibcoll_world(context), nullptr);
    return 0;
  };
  ASSERT_EQ(ibcoll_launch(&options, main, nullptr, &status), IBCOLL_OK);
  EXPECT_EQ(status, 1);
}

}  // namespace
}  // namespace ibcoll
