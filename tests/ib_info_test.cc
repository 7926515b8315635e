#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "engine/base/config.h"
#include "engine/bootstrap/host_info.h"
#include "engine/bootstrap/launch.h"
#include "tests/command.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

using Output = testing_tools::CommandRan;

/// With what stands on standard error.
Output run(const std::string& command) { return testing_tools::run_command(command + " 2>&1"); }

const std::string kTool = IBCOLL_BIN_DIR "/ib_info";

TEST(IbInfo, JsonHasEverythingAndNothingElse) {
  const Output output = run("IBCOLL_HEAP=2G " + kTool + " --json -");
  EXPECT_EQ(output.status, 0);
  std::set<std::string> settings, kinds;
  std::istringstream lines(output.out);
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    kinds.insert(object["kind"]);
    if (object["kind"] == "setting") settings.insert(object["name"]);
    if (object["kind"] == "machine") {
      EXPECT_EQ(object["usable_cores"], usable_cores());
      EXPECT_GE(object["cores"], object["usable_cores"]);
      EXPECT_GT(object["memory_bytes"], 0);
    }
    if (object.value("name", "") == "IBCOLL_HEAP") {
      EXPECT_EQ(object["value"], "2G");
      EXPECT_EQ(object["source"], "environment");
    }
  }
  EXPECT_EQ(settings.size(), std::size(kVariables));
  EXPECT_TRUE(kinds.contains("machine") && kinds.contains("limits"));
}

TEST(IbInfo, BadInputIsRefusedInALine) {
  const Output option = run(kTool + " --bogus");
  EXPECT_EQ(option.status, 2);
  EXPECT_THAT(option.out, HasSubstr("--bogus"));
  const Output file = run(kTool + " --json /nonexistent/file");
  EXPECT_EQ(file.status, 1);
  EXPECT_THAT(file.out, HasSubstr("/nonexistent/file"));
  const Output value = run("IBCOLL_BIND=sideways " + kTool);
  EXPECT_EQ(value.status, 2);
  EXPECT_THAT(value.out, HasSubstr("IBCOLL_BIND='sideways'"));
  EXPECT_THAT(run(kTool + " --help").out, HasSubstr("Examples:"));
}

TEST(HostInfo, CountsAgree) {
  const auto host = host_info();
  ASSERT_TRUE(host.has_value());
  EXPECT_GE(host->threads, host->cores);
  EXPECT_GE(host->cores, host->packages);
  EXPECT_LE(host->available_bytes, host->memory_bytes);
  int cores_in_nodes = 0;
  for (const NumaInfo& node : host->numa) cores_in_nodes += node.cores;
  EXPECT_EQ(cores_in_nodes, host->cores);
}

}  // namespace
}  // namespace ibcoll
