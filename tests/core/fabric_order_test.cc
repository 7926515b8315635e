// Jobs that know the network between their servers: who is numbered how, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "engine/base/json.h"
#include "engine/bootstrap/launch.h"
#include "engine/core/fabric_order.h"
#include "engine/planner/server_order.h"
#include "engine/schedule/layout.h"
#include "tests/job.h"
#include "tests/tool.h"
#include "topology/spec.h"

namespace ibcoll {
namespace {

using ::ibcoll::testing::JobOptions;
using ::ibcoll::testing::RankView;
using ::ibcoll::testing::run_job;
using ::testing::HasSubstr;
using testing_tools::expect_failed;
using testing_tools::expect_refused;
using testing_tools::file;
using testing_tools::json_lines;
using testing_tools::run_tool;

std::string refusal_of(const std::string& layout, const std::string& fabric,
                       const std::string& hosts) {
  JobOptions job{parse_layout(layout).value(), true, {}};
  job.context.fabric = {fabric, hosts};
  return run_job(job, [](const RankView& view) { view.complain("was let in"); });
}

TEST(FabricOrder, ServersAreNumberedAsTheTreeHasThem) {
  // Out of the order of the tree.
  JobOptions job{parse_layout("1,1,2,1,1,1,1,1").value(), true, {}};
  job.context.fabric = {"fat-tree:2,3", "h0,h5,h[2,7],h1,h4,h6,h3"};
  const topology::Fabric fabric = topology::open_fabric("fat-tree:2,3").value();
  const std::vector<int> hosts{0, 5, 2, 7, 1, 4, 6, 3};
  const ServerOrder best = fabric_server_order(fabric, job.shape, hosts);
  EXPECT_LT(best.after, best.before);
  const Shape expected = renumber_servers(job.shape, best.order).value();
  EXPECT_EQ(
      run_job(job,
              [&](const RankView& view) {
                for (Rank rank = 0; rank < view.context.size(); ++rank) {
                  if (view.context.shape().server_of(rank) != expected.server_of(rank))
                    view.complain("another order");
                }
                for (int i = 0; i < expected.servers(); ++i) {
                  if (view.context.job().fabric_order().hosts[i] != hosts[best.order[i]])
                    view.complain("another host");
                }
                if (view.context.rank() != 0) return;
                const FabricOrder& order = view.context.job().fabric_order();
                if (order.fabric != fabric.name() || order.moved == 0 || order.after != best.after)
                  view.complain("it says: " + order.describe());
              }),
      "");
}

/// How often a subnet was swept; ranks are threads in these jobs.
std::atomic<int> sweeps{0};

TEST(FabricOrder, RankZeroAloneSweepsALiveSubnet) {
  sweeps = 0;
  JobOptions job{parse_layout("1,2,1").value(), true, {}};
  job.context.fabric = {"live", "", {}, [](const std::string&) {
                          ++sweeps;
                          return topology::open_fabric("fat-tree:2,2");
                        }};
  EXPECT_EQ(run_job(job,
                    [&](const RankView& view) {
                      if (!view.context.plan_sources().transfers) view.complain("knows no network");
                    }),
            "");
  EXPECT_EQ(sweeps, 1);
}

TEST(FabricOrder, ASweepThatFailsIsOneErrorOnAllRanks) {
  sweeps = 0;
  JobOptions job{parse_layout("1,1").value(), true, {}};
  job.context.fabric = {"live", "", {}, [](const std::string&) -> Result<topology::Fabric> {
                          ++sweeps;
                          return fail(ErrorCode::kSystem, "the switch is asleep");
                        }};
  EXPECT_THAT(run_job(job, [](const RankView& view) { view.complain("was let in"); }),
              HasSubstr("IBCOLL_FABRIC=live: the switch is asleep"));
  EXPECT_EQ(sweeps, 1);
}

TEST(FabricOrder, EmulatedServersStandOnTheFirstHosts) {
  JobOptions job{parse_layout("1,2,1").value(), true, {}};
  job.context.fabric = {"fat-tree:2,2", ""};
  EXPECT_EQ(run_job(job,
                    [&](const RankView& view) {
                      if (view.context.shape().server_of(3) != 2) view.complain("renumbered");
                    }),
            "");
}

/// Servers 0, 1 and 2 stand on hosts 2, 0 and 1, so that of the pairs of hosts here the servers'
/// are 1-2 and 0-2.
TEST(FabricOrder, PlansKeepToPairsOfHostsThatMaySend) {
  JobOptions job{parse_layout("1,2,1").value(), true, {}};
  job.context.fabric = {"single-switch:4", "h2,h0,h1"};
  job.context.fabric.permitted = "h0:h1,h1:h2,h3:h0";
  EXPECT_EQ(run_job(job,
                    [&](const RankView& view) {
                      Context& context = view.context;
                      const std::vector<int>& hosts = context.job().fabric_order().hosts;
                      const auto plan = context.plan_sources().transfers->find(
                          Collective::kAlltoall, context.shape(), hosts, 0, 1000);
                      if (!view.good(plan, "plan")) return;
                      int relayed = 0;
                      for (const TransferPlan::Transfer& transfer : (*plan)->transfers) {
                        const int from = hosts[transfer.from], to = hosts[transfer.to];
                        if (from + to == 2) view.complain("from h0 to h2");
                        if (transfer.forwards != TransferPlan::kNone) ++relayed;
                      }
                      if (relayed != 2) view.complain("nothing goes by way of h1");
                    }),
            "");
  for (const auto& [pairs, why] :
       {std::pair{"h0:h1,h1", "'h1' is not a pair of hosts like a:b"}, {"h0:h9", "no host 'h9'"}}) {
    job.context.fabric.permitted = pairs;
    EXPECT_THAT(run_job(job, [](const RankView& view) { view.complain("was let in"); }),
                HasSubstr(why));
  }
}

TEST(FabricOrder, WhatCannotBeIsRefusedByName) {
  EXPECT_THAT(refusal_of("2,1", "fat-tree:2,2", "h0,h9"),
              HasSubstr("IBCOLL_FABRIC=fat-tree:2,2: the fabric xgft:2x2/1x2 has no host 'h9'"));
  EXPECT_THAT(refusal_of("2,1", "fat-tree:2,2", "h0"), HasSubstr("names 1 hosts for 2 servers"));
  EXPECT_THAT(refusal_of("1,1,1", "single-switch:2", ""),
              HasSubstr("3 emulated servers on a network"));
  EXPECT_THAT(refusal_of("1,1", "no/such", ""), HasSubstr("IBCOLL_FABRIC=no/such: "));
}

/// Of a file, too; and every rank says the same.
TEST(FabricOrder, FilesThatAreWrongAreRefusedOnEveryRank) {
  const char* const good = R"({
    "format": "ibcoll fabric 1",
    "hosts": ["a", "b", "c"],
    "switches": ["s"],
    "cables": [{"ends": ["a", "s"], "bandwidth": 1e9}, {"ends": ["b", "s"]}, {"ends": ["c", "s"]}],
    "routes": {"s": [1, 2, 3]}})";
  const auto refused = [&](const std::string& from, const std::string& to, const char* layout,
                           const std::string& why) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const std::string said = refusal_of(layout, file("wrong.json", text), "");
    const int ranks = parse_layout(layout).value().ranks();
    size_t at = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      at = said.find(why, at);
      ASSERT_NE(at, std::string::npos) << "rank " << rank << " of: " << said;
      at += why.size();
    }
  };
  refused("1e9", "0", "1,1,1", "/cables/0/bandwidth");
  refused(R"("s": [1, 2, 3])", R"("s": [1, 2, 3], "s": [1, 3, 2])", "1,1,1", "\"s\" stands twice");
  refused(R"({"ends": ["c", "s"]})", R"({"ends": ["c", "a"]})", "1,1,1", "wrong.json");
  refused("a", "a", "1,1,1,1", "4 emulated servers on a network of 3 hosts");
  const std::string path =
      file("zero.json", std::string(good).replace(std::string(good).find("1e9"), 3, "0"));
  expect_failed("ib_a2a_bench", "--layout 1,1,1 --network " + path, "/cables/0/bandwidth");
  expect_refused("ib_a2a_bench", "--layout 4x1 --network single-switch:3", "3 hosts for 4 servers");
}

/// Machines are found by their own names.
TEST(FabricOrder, MachinesAreFoundByName) {
  char name[65] = {};
  ASSERT_EQ(gethostname(name, sizeof name - 1), 0);
  const auto ask = [](const std::string& host) {
    std::string error;
    FabricOrder order;
    const Result<int> status = launch_threads(1, [&](Bootstrap& bootstrap) {
      Shape shape = Shape::single_server(1);
      const std::string path = file("net.conf", "SwitchName=s0 Nodes=" + host + ",other\n");
      const auto result = order_servers(bootstrap, {path, ""}, false, shape);
      if (!result) error = result.error().message;
      return 0;
    });
    EXPECT_TRUE(status);
    return error;
  };
  EXPECT_EQ(ask(name), "");
  EXPECT_THAT(ask("another"), HasSubstr(fmt::format("has no host '{}'", name)));
}

TEST(FabricOrder, TheBenchmarkSaysWhatItDid) {
  const auto ran = run_tool("ib_a2a_bench",
                            "--layout 1,1,1 --network fat-tree:2,2 --iterations 1 --warmup 0 "
                            "--sizes 1K --check --transport loopback --json -");
  EXPECT_EQ(ran.status, 0) << ran.err;
  const auto lines = json_lines(ran.out);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["fabric"], "xgft:2x2/1x2: servers are in order");
  expect_refused("ib_a2a_bench", "--layout 1,1 --network fat-tree:0", "fat-tree:0");
}

TEST(FabricOrder, AKnownNetworkIsPlannedForWherePlansPay) {
  const std::filesystem::path plans =
      std::filesystem::temp_directory_path() / fmt::format("ibcoll-auto-{}", getpid());
  std::filesystem::create_directory(plans);
  for (const char* fabric : {"", "single-switch:4"}) {
    JobOptions job;
    job.shape = parse_layout("4x1").value();
    job.context.fabric = {fabric, ""};
    job.context.plan_cache = plans;
    EXPECT_EQ(run_job(job,
                      [&](const RankView& view) {
                        const auto chosen = [&](Collective collective, int64_t bytes) {
                          return view.context.world()
                              .plans()
                              .find(collective, bytes, 0, {})
                              .value()
                              ->program->algorithm;
                        };
                        const bool known = *fabric != 0;
                        const std::string gather = known ? "contention_free" : "linear";
                        if (chosen(Collective::kGather, 65536) != gather) view.complain("gather");
                        if (chosen(Collective::kGather, 64) != "binomial") view.complain("small");
                        // Every step of a walk over one switch fills all links already.
                        if (chosen(Collective::kAlltoall, 65536) != "two_level_ring") {
                          view.complain("alltoall");
                        }
                      }),
              "");
    const auto files = std::distance(std::filesystem::directory_iterator(plans), {});
    EXPECT_EQ(files, *fabric != 0 ? 1 : 0);
  }
  std::filesystem::remove_all(plans);
}

}  // namespace
}  // namespace ibcoll
