// Every algorithm on small shapes, and (Full) on larger ones.

#include <gtest/gtest.h>

#include "tests/sweep.h"

namespace ibcoll {
namespace {

using testing::JobOptions;
using testing::shapes;
using testing::sweep;

void sweep_shapes(int ranks) {
  for (const Shape& shape : shapes(ranks)) {
    JobOptions job;
    job.shape = shape;
    sweep(job, {0, 7, 20000});
  }
}

TEST(ExecuteSweep, EveryAlgorithmOnUpToThreeRanks) {
  for (const int ranks : {1, 2, 3}) sweep_shapes(ranks);
}

TEST(ExecuteSweepFull, EveryAlgorithmOnEveryShape) {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 12, 16}) {
    for (const Shape& shape : shapes(ranks)) {
      JobOptions job;
      job.shape = shape;
      sweep(job, {0, 1, 7, 4096, ranks <= 8 ? 1u << 20 : 100'000u});
    }
  }
}

}  // namespace
}  // namespace ibcoll
