// Every algorithm over a network that reorders and delays all it may.

#include <gtest/gtest.h>

#include "tests/sweep.h"

namespace ibcoll {
namespace {

using testing::JobOptions;
using testing::shape_of;
using testing::shapes;
using testing::sweep;

TEST(ExecuteSweep, AdversarialLoopback) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    JobOptions job;
    job.shape = shape_of(seed % 2 == 0 ? std::vector<int>{3, 1, 2} : std::vector<int>{2, 2},
                         Placement::kBlock);
    job.threads = seed > 4;
    job.context.loopback_seed = seed;
    // A plan for a network so slow that tokens are sent ahead.
    if (seed % 3 != 0) job.context.fabric = {"single-switch:4,latency=1ms", ""};
    sweep(job, {0, 7, 4096});
  }
}

TEST(ExecuteSweepFull, AdversarialLoopbackManySeeds) {
  for (uint64_t seed = 100; seed < 160; ++seed) {
    const std::vector<Shape> all = shapes(2 + static_cast<int>(seed % 7));
    JobOptions job;
    job.shape = all[seed % all.size()];
    job.threads = seed % 3 == 0;
    job.context.loopback_seed = seed;
    sweep(job, {0, 7, 4096, 20000});
  }
}

}  // namespace
}  // namespace ibcoll
