// memory_bench as its users call it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tool.h"

namespace ibcoll {
namespace {

using namespace testing_tools;

TEST(MemoryBench, WrongUsageIsRefused) {
  expect_refused("memory_bench", "--algorithm nosuch", "unknown alltoall algorithm 'nosuch'");
  expect_refused("memory_bench", "--ranks 3 --servers 2", "3 ranks");
}

TEST(MemoryBench, SaysWhatItsMeanIsOf) {
  const Ran ran = run_tool("memory_bench", "--ranks 2 --small-only --algorithm linear");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, ::testing::HasSubstr("mean after 64 B"));
}

}  // namespace
}  // namespace ibcoll
