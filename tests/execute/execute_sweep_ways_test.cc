// Every algorithm in other ways: large blocks, ranks as threads, memory that can not be read.

#include <gtest/gtest.h>

#include "tests/sweep.h"

namespace ibcoll {
namespace {

using testing::JobOptions;
using testing::shape_of;
using testing::sweep;

TEST(ExecuteSweep, ThreeOneTwo) {
  JobOptions job;
  job.shape = shape_of({3, 1, 2});
  sweep(job, {0, 1, 7, 4096, 1 << 20});
}

TEST(ExecuteSweep, ThreadsAsRanks) {
  for (const std::vector<int>& layout : {std::vector<int>{3, 1, 2}, {4}, {1, 1, 1}}) {
    JobOptions job;
    job.shape = shape_of(layout, Placement::kCyclic);
    job.threads = true;
    sweep(job, {0, 7, 4096, 20000});
  }
}

TEST(ExecuteSweep, WithoutReadingPrivateMemory) {
  JobOptions job;
  job.shape = shape_of({3, 2});
  job.context.allow_process_vm = false;
  sweep(job, {0, 7, 20000, 300000});
}

}  // namespace
}  // namespace ibcoll
