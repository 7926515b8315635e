// ib_sched with several algorithms and layouts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tool.h"

namespace ibcoll {
namespace {

using namespace testing_tools;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::Not;

TEST(IbSched, ShowsSeveralSchedulesOneAfterTheOther) {
  const Ran ran = run_tool("ib_sched", "show --algorithm ring,bruck --layout 2,1 3x1 --rank 2");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, ContainsRegex("^alltoall ring, 2,1\n\nalltoall ring, rank 2: "));
  EXPECT_THAT(ran.out, ContainsRegex("\n\nalltoall bruck, 2,1\n\nalltoall bruck, rank 2: "));
  EXPECT_THAT(ran.out, ContainsRegex("\n\nalltoall ring, 3x1\n\nalltoall ring, rank 2: "));
  EXPECT_THAT(ran.out, ContainsRegex("\n\nalltoall bruck, 3x1\n\nalltoall bruck, rank 2: "));
  // What there is one of has no heading.
  const Ran one = run_tool("ib_sched", "show --algorithm ring --layout 2,1 --rank 2");
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.out, ContainsRegex("^alltoall ring, rank 2: "));
  EXPECT_THAT(one.out, Not(::testing::HasSubstr("\n\n")));
}

TEST(IbSched, SeveralSchedulesAreObjectsInARow) {
  const Ran ran = run_tool("ib_sched", "show --algorithm ring,bruck --layout 2,1 2x1 --json -");
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::vector<std::string> found;
  for (const auto& line : json_lines(ran.out)) {
    found.push_back(line.contains("schedule")
                        ? line["algorithm"].get<std::string>() + " " + line["server_of"].dump()
                        : line["rank"].dump());
  }
  EXPECT_THAT(found, ElementsAre("ring [0,0,1]", "0", "1", "2", "bruck [0,0,1]", "0", "1", "2",
                                 "ring [0,1]", "0", "1", "bruck [0,1]", "0", "1"));
}

TEST(IbSched, AFileTakesOneSchedule) {
  const std::filesystem::path file = folder() / "several";
  for (const char* several : {"--algorithm ring,bruck --ranks 4", "--algorithm all --ranks 4",
                              "--algorithm ring --layout 2,1 3x1"}) {
    for (const char* command : {"draw --output ", "export --output ", "show --json "}) {
      SCOPED_TRACE(std::string(command) + several);
      expect_refused("ib_sched", command + file.string() + " " + several,
                     " takes one schedule, not ");
      EXPECT_FALSE(std::filesystem::exists(file));
    }
  }
  for (const char* command : {"draw --output ", "export --output ", "show --json "}) {
    SCOPED_TRACE(command);
    const Ran ran =
        run_tool("ib_sched", command + file.string() + " --algorithm linear --layout 2,1");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_TRUE(std::filesystem::remove(file));
  }
  expect_refused("ib_sched", "show --ranks 4", "unknown alltoall algorithm ''");
}

TEST(IbSched, AFilesScheduleHasItsLayout) {
  const std::string file = (folder() / "ring.json").string();
  ASSERT_EQ(run_tool("ib_sched", "show --algorithm ring --layout 2,1 --json " + file).status, 0);
  EXPECT_EQ(run_tool("ib_sched", "verify --program " + file).status, 0);
  expect_refused("ib_sched", "verify --layout 2,1 3x1 --program " + file,
                 "--program has the layout of its file");
}

}  // namespace
}  // namespace ibcoll
