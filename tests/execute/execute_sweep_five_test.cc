// Every algorithm on every shape of five ranks.

#include <gtest/gtest.h>

#include "tests/sweep.h"

namespace ibcoll {
namespace {

using testing::JobOptions;
using testing::shapes;
using testing::sweep;

TEST(ExecuteSweep, EveryAlgorithmOnFiveRanks) {
  for (const Shape& shape : shapes(5)) {
    JobOptions job;
    job.shape = shape;
    sweep(job, {0, 7, 20000});
  }
}

}  // namespace
}  // namespace ibcoll
