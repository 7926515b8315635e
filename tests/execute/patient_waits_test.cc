// Waits for what is no call of the program's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "tests/api_job.h"
#include "tests/execute/made_runs.h"

namespace ibcoll {
namespace {

using testing::check;
using testing::job_of;
using testing::JobOptions;
using testing::progress_until;
using testing::RankView;
using testing::run_job;
using testing::Runs;
using testing::SharedFlags;

/// Each way to wait: a thread alone, several that take turns, with a thread that makes progress.
class PatientWaits : public ::testing::TestWithParam<std::pair<bool, bool>> {
 protected:
  std::string run(JobOptions job, const std::function<void(const RankView&)>& body,
                  int* status = nullptr) {
    return run_job(
        job,
        [&](const RankView& rank) {
          const auto [several, progress_thread] = GetParam();
          rank.good(rank.context.threads().use(several, progress_thread), "threads");
          body(rank);
          rank.context.threads().stop();
        },
        status);
  }
};

TEST_P(PatientWaits, EndInTimeAndKnowNoDeadline) {
  JobOptions job = job_of({2});
  job.context.deadline_ns = 50'000'000;
  job.context.late_ns = 20'000'000;
  ::testing::internal::CaptureStderr();
  const std::string complaints = run(job, [](const RankView& rank) {
    const EntryGuard::Entry entry(rank.context.threads().guard());
    Completion never;
    const int64_t until = now_ns() + 300'000'000;
    if (!rank.good(rank.context.executor().wait(never, until), "wait")) return;
    if (never.done) rank.complain("it is done");
    if (now_ns() < until) rank.complain("it ended before its time");
  });
  EXPECT_EQ(complaints, "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_P(PatientWaits, EndWhenSomethingArrives) {
  EXPECT_EQ(run(job_of({2}),
                [](const RankView& rank) {
                  const EntryGuard::Entry entry(rank.context.threads().guard());
                  Runs runs(rank.context);
                  Completion finished;
                  runs.on_finish = [&] { finished.done = true; };
                  if (rank.context.rank() == 0) {
                    usleep(100'000);
                    runs.make(1, 100'000);
                    runs.tell(1, 100'000);
                  }
                  if (!rank.good(rank.context.executor().wait(finished, 0), "wait")) return;
                  check(rank, runs, 1);
                }),
            "");
}

TEST_P(PatientWaits, LearnOfDeathsThatTheJobSurvives) {
  constexpr size_t kTakes = 0, kTaken = 1;  // what rank 0 sends: rank 1
  SharedFlags& flags = SharedFlags::create();
  int status = 0;
  testing::Complaints complaints(3);  // but for those of leaving after a death
  run(
      job_of({3}),
      [&](const RankView& view) {
        const RankView rank{view.context, complaints};
        const EntryGuard::Entry entry(rank.context.threads().guard());
        Runs runs(rank.context);
        Completion told;
        runs.on_lost = [&] { told.done = true; };
        if (rank.context.rank() == 1) {
          runs.on_take = [&] { flags.raise(kTaken); };
          flags.raise(kTakes);
        }
        if (rank.context.rank() == 0) {
          flags.await(kTakes, 1);
          // Rank 1 takes part in it, rank 2 does not.
          runs.make(1, 1'000'000);
          runs.tell(1, 1'000'000);
        }
        if (rank.context.rank() == 2) {
          flags.await(kTaken, 1);
          usleep(100'000);
          raise(SIGKILL);
        }
        if (!rank.good(rank.context.executor().wait(told, 0), "wait")) return;
        if (runs.lost_ranks != std::vector<Rank>{2}) rank.complain("another one died");
        if (runs.death.find("rank 2") == std::string::npos) rank.complain(runs.death);
        // The dead rank's part counts as taken.
        progress_until(rank, [&] { return !runs.busy(); });
        check(rank, runs, 1);
        complaints.add(rank.context.rank(), "as it should be");
      },
      &status);
  EXPECT_EQ(complaints.all(), "rank 0: as it should be\nrank 1: as it should be\n");
}

INSTANTIATE_TEST_SUITE_P(Threads, PatientWaits,
                         ::testing::Values(std::pair{false, false}, std::pair{true, false},
                                           std::pair{false, true}, std::pair{true, true}));

}  // namespace
}  // namespace ibcoll
