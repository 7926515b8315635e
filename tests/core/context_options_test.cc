// What a context is made with, as the environment says it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "engine/bootstrap/launch.h"
#include "engine/core/context.h"
#include "engine/schedule/layout.h"
#include "tests/api_job.h"
#include "tests/job.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

class OptionsOfAContext : public ::testing::Test {
 protected:
  ~OptionsOfAContext() override {
    for (const char* name :
         {"IBCOLL_MULTICAST_MEMORY", "IBCOLL_MULTICAST_WINDOW", "IBCOLL_LOGP", "IBCOLL_RULES",
          "IBCOLL_RULES_STRICT", "IBCOLL_LAYOUT", "IBCOLL_SERVERS", "IBCOLL_PLACEMENT"}) {
      unsetenv(name);
    }
  }
};

TEST_F(OptionsOfAContext, TheDefaultsAreThoseOfTheTable) {
  const ContextOptions defaults, read = ContextOptions::from_environment(4).value();
  EXPECT_EQ(read.multicast_memory, defaults.multicast_memory);
  EXPECT_EQ(read.multicast_window, defaults.multicast_window);
  EXPECT_EQ(read.logp_file, defaults.logp_file);
}

TEST_F(OptionsOfAContext, ComeFromTheEnvironment) {
  setenv("IBCOLL_MULTICAST_MEMORY", "3M", 1);
  setenv("IBCOLL_MULTICAST_WINDOW", "65535", 1);
  setenv("IBCOLL_LOGP", "costs.json", 1);
  const ContextOptions read = ContextOptions::from_environment(4).value();
  EXPECT_EQ(read.multicast_memory, size_t{3} << 20);
  EXPECT_EQ(read.multicast_window, 65535);
  EXPECT_EQ(read.logp_file, "costs.json");
}

TEST_F(OptionsOfAContext, RulesComeFromTheEnvironment) {
  EXPECT_EQ(ContextOptions::from_environment(4).value().rules_file, "");
  setenv("IBCOLL_RULES", "rules.jsonl", 1);
  setenv("IBCOLL_RULES_STRICT", "1", 1);
  const ContextOptions read = ContextOptions::from_environment(4).value();
  EXPECT_EQ(read.rules_file, "rules.jsonl");
  EXPECT_TRUE(read.rules_strict);
}

TEST_F(OptionsOfAContext, WhatIsNotAllowedIsRefused) {
  for (const char* window : {"0", "65536", "many"}) {
    setenv("IBCOLL_MULTICAST_WINDOW", window, 1);
    const auto read = ContextOptions::from_environment(4);
    ASSERT_FALSE(read) << window;
    EXPECT_THAT(read.error().message, HasSubstr("it takes a whole number, 1 to 65535"));
  }
  unsetenv("IBCOLL_MULTICAST_WINDOW");
  setenv("IBCOLL_MULTICAST_MEMORY", "1K", 1);
  EXPECT_THAT(ContextOptions::from_environment(4).error().message,
              HasSubstr("IBCOLL_MULTICAST_MEMORY='1K' is not allowed"));
}

/// The server of each of four ranks, as the environment says.
std::string servers_of_four() {
  const auto read = ContextOptions::from_environment(4);
  if (!read) return read.error().message;
  if (!read->shape) return "machines";
  std::string servers;
  for (Rank rank = 0; rank < 4; ++rank) servers += std::to_string(read->shape->server_of(rank));
  return servers;
}

TEST_F(OptionsOfAContext, APlacementIsOnServersThatAreEmulated) {
  setenv("IBCOLL_PLACEMENT", "block", 1);
  EXPECT_EQ(servers_of_four(), "machines");
  setenv("IBCOLL_PLACEMENT", "cyclic", 1);
  EXPECT_THAT(servers_of_four(),
              HasSubstr("IBCOLL_PLACEMENT cyclic places ranks on emulated servers, and there are "
                        "none: give a layout (IBCOLL_LAYOUT)"));
  setenv("IBCOLL_SERVERS", "2", 1);
  EXPECT_EQ(servers_of_four(), "0101");
  setenv("IBCOLL_LAYOUT", "3,1", 1);
  EXPECT_EQ(servers_of_four(), "0100");
  setenv("IBCOLL_PLACEMENT", "block", 1);
  EXPECT_EQ(servers_of_four(), "0001");
  // Who knows the servers does not ask.
  setenv("IBCOLL_LAYOUT", "7", 1);
  const auto shape = parse_layout("2,2").value();
  EXPECT_EQ(ContextOptions::from_environment(std::optional(shape)).value().shape->ranks(), 4);
}

/// The same of a job that ibcoll_launch starts, as its rank 0 finds it.
std::string servers_of_launched(const char* layout, const char* placement) {
  return testing::launched(
      layout, 4,
      [](const testing::ApiRank& rank) {
        if (ibcoll_rank(rank.context) != 0) return;
        std::string servers;
        for (int peer = 0; peer < 4; ++peer)
          servers += std::to_string(ibcoll_server_of(rank.context, peer));
        rank.complain(servers);
      },
      nullptr, placement);
}

TEST_F(OptionsOfAContext, APlacementOfTheProgramIsHeededWhoeverSaysWhichServersThereAre) {
  EXPECT_THAT(servers_of_launched("2,2", "cyclic"), HasSubstr("0101"));
  EXPECT_THAT(servers_of_launched(nullptr, "cyclic"),
              HasSubstr("placement cyclic places ranks on emulated servers, and there are none"));
  EXPECT_THAT(servers_of_launched(nullptr, "round"), HasSubstr("unknown placement 'round'"));
  EXPECT_THAT(servers_of_launched(nullptr, "block"), HasSubstr("0000"));
  setenv("IBCOLL_LAYOUT", "2,2", 1);
  EXPECT_THAT(servers_of_launched(nullptr, "cyclic"), HasSubstr("0101"));
  EXPECT_THAT(servers_of_launched(nullptr, nullptr), HasSubstr("0011"));
  setenv("IBCOLL_PLACEMENT", "cyclic", 1);
  EXPECT_THAT(servers_of_launched(nullptr, nullptr), HasSubstr("0101"));
  EXPECT_THAT(servers_of_launched(nullptr, "block"), HasSubstr("0011"));
  EXPECT_THAT(servers_of_launched("3,1", nullptr), HasSubstr("0100"));
  EXPECT_THAT(servers_of_launched("3,1", "block"), HasSubstr("0001"));
}

/// Of a job of two ranks on one server, what its ranks copy of private memory, or the error.
std::string copied_with_costs(const std::string& costs) {
  testing::JobOptions job = testing::job_of({2});
  job.context.costs = costs;
  return testing::run_job(job, [](const testing::RankView& rank) {
    rank.complain(std::to_string(rank.context.job().local().limits().of_private));
  });
}

TEST_F(OptionsOfAContext, CostsDecideWhatIsCopied) {
  if (usable_cores() < 2) GTEST_SKIP() << "each rank has to have a core";
  const std::string file = ::testing::TempDir() + "costs" + std::to_string(getpid());
  const auto with_page = [&](double nanoseconds) {
    MachineCosts costs;
    PairCosts pair;
    pair.round_trip = 300;
    pair.write = {70, 1000, 6000};
    pair.read = {700, 1700, 5500};
    pair.vm_call = 400;
    pair.vm_page = nanoseconds;
    for (auto& each : costs.pairs) each = pair;
    std::ofstream(file) << costs_text(costs);
    return copied_with_costs(file);
  };
  EXPECT_EQ(copied_with_costs(kCostsOff), "rank 0: 131072\nrank 1: 131072\n");
  EXPECT_EQ(with_page(10'000), "rank 0: 131072\nrank 1: 131072\n");
  const std::string cheap = with_page(400);
  EXPECT_NE(cheap, "rank 0: 131072\nrank 1: 131072\n");
  EXPECT_THAT(cheap, ::testing::MatchesRegex("rank 0: (.*)\nrank 1: .*\n"));
  std::ofstream(file) << "{}\n";
  const std::string bad = copied_with_costs(file);
  for (const char* rank : {"rank 0", "rank 1"})
    EXPECT_THAT(bad, HasSubstr(std::string(rank) + ": no context: IBCOLL_COSTS: " + file +
                               ": line 1: 'kind' is missing"));
  std::remove(file.c_str());
  EXPECT_THAT(copied_with_costs(kCostsMeasured), ::testing::StartsWith("rank 0: "));
}

}  // namespace
}  // namespace ibcoll
