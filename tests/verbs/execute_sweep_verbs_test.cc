// Every algorithm between emulated servers that each have an RDMA device; skipped where there is
// none.

#include <gtest/gtest.h>

#include "tests/strided_sweep.h"
#include "tests/sweep.h"

namespace ibcoll {
namespace {

using testing::JobOptions;
using testing::LongRuns;
using testing::shape_of;
using testing::strided_sweep;
using testing::sweep;

class ExecuteSweepVerbs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!usable_network_port("verbs"))
      GTEST_SKIP() << "no RDMA device here; ./run softroce brings some";
  }
  /// `first`: number of the first case; memory alternates between private and shared from there.
  static void sweep_verbs(const Shape& shape, const std::vector<size_t>& sizes,
                          uint32_t first = 0) {
    JobOptions job;
    job.shape = shape;
    job.context.transport = "verbs";
    sweep(job, sizes, first);
  }
};

TEST_F(ExecuteSweepVerbs, FourServersOfTwo) {
  sweep_verbs(shape_of({2, 2, 2, 2}), {0, 1, 7, 4096, 20000});
}
TEST_F(ExecuteSweepVerbs, FourServersOfTwoDealtCyclically) {
  sweep_verbs(shape_of({2, 2, 2, 2}, Placement::kCyclic), {7, 20000});
}
TEST_F(ExecuteSweepVerbs, ThreeOneTwo) { sweep_verbs(shape_of({3, 1, 2}), {0, 7, 4096}); }
TEST_F(ExecuteSweepVerbs, ThreeOneTwoDealtCyclically) {
  sweep_verbs(shape_of({3, 1, 2}, Placement::kCyclic), {0, 7, 20000});
}

TEST_F(ExecuteSweepVerbs, StridedBlocks) {
  JobOptions job;
  job.shape = shape_of({1, 2, 1});
  job.context.transport = "verbs";
  strided_sweep(job, {24, 6 * 4096}, 0, LongRuns::kSome);
}

using ExecuteSweepVerbsFull = ExecuteSweepVerbs;
const std::vector<size_t> kEverySize = {0, 1, 8, 4096, 65536, 1 << 20, 4 << 20};

TEST_F(ExecuteSweepVerbsFull, FourServersOfTwo) { sweep_verbs(shape_of({2, 2, 2, 2}), kEverySize); }
// What runs in the user's memory above runs in the engine's own here, and the other way round.
TEST_F(ExecuteSweepVerbsFull, FourServersOfTwoDealtCyclically) {
  sweep_verbs(shape_of({2, 2, 2, 2}, Placement::kCyclic), kEverySize, 1);
}
TEST_F(ExecuteSweepVerbsFull, ThreeOneTwo) { sweep_verbs(shape_of({3, 1, 2}), kEverySize); }
TEST_F(ExecuteSweepVerbsFull, ThreeOneTwoDealtCyclically) {
  sweep_verbs(shape_of({3, 1, 2}, Placement::kCyclic), kEverySize, 1);
}

}  // namespace
}  // namespace ibcoll
