// A transport is one file: tests/threads_transport.h adds a network between threads, and everything
// then runs over it.

#include <gtest/gtest.h>

#include "tests/sweep.h"
#include "tests/threads_transport.h"

namespace ibcoll {
namespace {

using testing::JobOptions;
using testing::RankView;
using testing::run_job;
using testing::shape_of;
using testing::sweep;
using testing::ThreadsTransport;

JobOptions job_over_threads(const std::vector<int>& layout) {
  ThreadsTransport::add();
  JobOptions job;
  job.shape = shape_of(layout, Placement::kCyclic);
  job.threads = true;
  job.context.transport = ThreadsTransport::kName;
  return job;
}

TEST(AddedTransport, CarriesEveryAlgorithm) {
  for (const std::vector<int>& layout : {std::vector<int>{1, 1}, {2, 2, 1}, {3, 1, 2}})
    sweep(job_over_threads(layout), {0, 7, 4096, 20000});
}

TEST(AddedTransport, IsWhatTheContextUses) {
  EXPECT_EQ(run_job(job_over_threads({1, 1}),
                    [](const RankView& rank) {
                      if (rank.context.job().network_reason() != ThreadsTransport::kName)
                        rank.complain("uses " + rank.context.job().network_reason());
                    }),
            "");
}

}  // namespace
}  // namespace ibcoll
