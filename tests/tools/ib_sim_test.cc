// ib_sim as its users call it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "engine/base/json.h"
#include "tests/algorithm_lists.h"
#include "tests/files.h"
#include "tests/places.h"
#include "tests/tool.h"

namespace ibcoll {
namespace {

using namespace testing_tools;
using ::testing::HasSubstr;

TEST(IbSim, WritesOneObjectARun) {
  const Ran ran = run_tool("ib_sim",
                           "alltoall --network single-switch:4,bandwidth=1000MB/s,latency=100ns "
                           "--layout 4x2 2x3 --sizes 1K,4K --algorithm ring,two_level_ring "
                           "--mode barrier,paced --step-times --link-load --json -");
  EXPECT_EQ(ran.status, 0) << ran.err;
  const auto lines = json_lines(ran.out);
  ASSERT_EQ(lines.size(), 16u);
  for (const auto& line : lines) {
    EXPECT_EQ(line["collective"], "alltoall");
    const double bytes = line["bytes_per_pair"], time = line["time_us"];
    const double ranks = line["ranks"], servers = line["servers"], local = ranks / servers;
    EXPECT_NEAR(line["a2a_bandwidth_MBps"], bytes * (ranks - local) * local / time, 1e-6);
    EXPECT_NEAR(line["link_fraction"], line["a2a_bandwidth_MBps"].get<double>() / 1000, 1e-9);
    EXPECT_LE(line["max_link_utilisation"], 1);
    EXPECT_GE(line["max_link_utilisation"], line["link_fraction"]);
    EXPECT_GT(line["events"], 0);
    EXPECT_FALSE(line["step_us"].empty());
    EXPECT_EQ(line["links"].size(), 2 * servers);
    EXPECT_GT(line["wall_s"], 0);
  }
}

TEST(IbSim, ShowsTablesAndDrawsAPicture) {
  const std::string plot = folder() / "steps.svg";
  const Ran ran = run_tool("ib_sim",
                           "--layout 3x2 --sizes 1K --algorithm ring --mode barrier --step-times "
                           "--link-load --plot " +
                               plot);
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("of link"));
  EXPECT_THAT(ran.out, HasSubstr("ring, barrier us"));
  EXPECT_THAT(ran.out, HasSubstr("busiest links"));
  EXPECT_THAT(content_of(plot), HasSubstr("model Ta of Ring"));
}

TEST(IbSim, DrawsTheModelOfBlockingOverTheAllToAllAlone) {
  const std::string plot = folder() / "model.svg";
  for (const auto& [arguments, modelled] : {std::pair("alltoallv --algorithm ring", true),
                                            {"alltoall --algorithm bruck", false},
                                            {"allgather --algorithm ring", false},
                                            {"reduce_scatter --algorithm ring", false}}) {
    SCOPED_TRACE(arguments);
    const Ran ran = run_tool("ib_sim", std::string(arguments) +
                                           " --layout 3x2 --sizes 1K --mode barrier --step-times "
                                           "--plot " +
                                           plot);
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(content_of(plot).find("model Ta of Ring") != std::string::npos, modelled);
  }
}

TEST(IbSim, PicturesSayWhatWasSimulated) {
  const std::string plot = folder() / "sizes.svg";
  for (const auto& [arguments, sizes, rates] :
       {std::tuple("alltoall --sizes 1K,4K --algorithm ring", ">bytes a pair<",
                   ">all-to-all bandwidth (MB/s)<"),
        std::tuple("allgather --sizes 1K,4K --algorithm ring", ">bytes a rank<",
                   ">allgather bandwidth (MB/s)<"),
        std::tuple("bcast --sizes 1K,4K --algorithm chain", ">bytes<", ">bcast bandwidth (MB/s)<"),
        std::tuple("bcast --layout 4x2 --sizes 1K --algorithm chain", "; 1K<", ">servers<")}) {
    SCOPED_TRACE(arguments);
    const Ran ran = run_tool("ib_sim", std::string(arguments) + " --layout 3x2 --plot " + plot);
    ASSERT_EQ(ran.status, 0) << ran.err;
    const std::string picture = content_of(plot);
    EXPECT_THAT(picture, HasSubstr(sizes));
    EXPECT_THAT(picture, HasSubstr(rates));
  }
}

TEST(IbSim, ShowsARowAsSoonAsItIsSimulated) {
  // The second row takes minutes: what is read before the end is there before it.
  const std::string sim =
      bin_dir() + "/ib_sim alltoall --layout 64x1 --sizes 1K,128M --algorithm ring --mode free";
  for (const auto& [arguments, row] :
       {std::pair(" --json -", "*bytes_per_pair*"), std::pair("", "ring*1K*")}) {
    SCOPED_TRACE(arguments);
    const std::string script = file("first_row", "coproc sim { exec " + sim + arguments + R"(; }
while IFS= read -r line <&"${sim[0]}"; do
  case $line in )" + row + R"() kill "$sim_PID" && echo "$line"; exit ;; esac
done
)");
    const Ran ran = run_shell("timeout 60 bash " + script);
    EXPECT_EQ(ran.status, 0) << "it has shown nothing: " << ran.err;
    EXPECT_THAT(ran.out, ::testing::AnyOf(HasSubstr("1K"), HasSubstr("1024")));
  }
}

TEST(IbSim, LeavesOutWhatCannotCombineInOrder) {
  const auto algorithms = [](const std::string& ordered) {
    const Ran ran = run_tool("ib_sim",
                             "allreduce --algorithm all --layout 3x2 --sizes 1K "
                             "--json " +
                                 ordered);
    EXPECT_EQ(ran.status, 0) << ran.err;
    std::set<std::string> names;
    for (const nlohmann::json& line : json_lines(ran.out)) names.insert(line["algorithm"]);
    return names;
  };
  EXPECT_TRUE(algorithms("").contains("ring"));
  const std::set<std::string> ordered = algorithms("--ordered");
  EXPECT_TRUE(ordered.contains("recursive_doubling"));
  EXPECT_FALSE(ordered.contains("ring"));
}

TEST(IbSim, RenumbersServers) {
  const auto time_us = [](const std::string& arguments) {
    const Ran ran = run_tool("ib_sim",
                             "--network fat-tree:4,2 --layout 16x2 --sizes 16K --algorithm "
                             "two_level_ring --json - " +
                                 arguments);
    return json_lines(ran.out).at(0)["time_us"].get<double>();
  };
  const double natural = time_us("");
  EXPECT_GT(time_us("--server-order random"), 1.2 * natural);
  EXPECT_LT(time_us("--server-order random --renumber"), 1.05 * natural);
}

// At flow level, before the work starts.
TEST(IbSim, RefusesWhatWouldTakeTooMuch) {
  expect_refused("ib_sim", "--level flow --layout 4096x8 --algorithm ring", "(--most-time)");
  expect_refused("ib_sim", "allgather --level flow --layout 4096x8 --algorithm ring",
                 "allgather ring of 4096x8 ranks as flows takes some");
  expect_refused("ib_sim", "--level flow --layout 1024x8 --algorithm linear --most-time 60min",
                 "allowed are 2.1 GB (--most-memory)");
  expect_refused("ib_sim", "--level flow --layout 8x2 --most-memory 1K", "takes some 0.0 GB");
  expect_refused("ib_sim", "--level flow --layout 8x2 --most-time 1ns", "0 s (--most-time)");
  expect_refused("ib_sim", "--level flow --most-time soon", "soon");
  const Ran ran =
      run_tool("ib_sim", "barrier --level flow --layout 2048x8 --algorithm all --json -");
  EXPECT_EQ(ran.status, 0) << ran.err;
}

TEST(IbSim, RefusesBadInput) {
  expect_refused("ib_sim", "alltoal", "unknown collective 'alltoal'");
  expect_refused("ib_sim", "--algorithm rings",
                 "one of " + testing::names_of(testing::algorithms_of(Collective::kAlltoall)));
  expect_refused("ib_sim", "neighbor_allgather --layout 2x2", "neighbor_allgather needs --graph");
  expect_refused("ib_sim", "--layout 0x3", "layout '0x3'");
  expect_refused("ib_sim", "--layout 3,x", "'x' in layout '3,x' is neither");
  expect_refused("ib_sim", "--layout 2000x8", "more than the limit of 8192");
  expect_refused("ib_sim", "--sizes 2T", "limit of 1T");
  expect_refused("ib_sim", "--network ring:5", "ring");
  expect_refused("ib_sim", "--sizes 1T --layout 2x1", "packets of 2048 bytes");
  expect_refused("ib_sim", "--sizes 1G --mtu 1 --layout 2x1", "--level flow");
  expect_refused("ib_sim", "--network fat-tree:2,3 --layout 9x1", "has 8 hosts");
  expect_refused("ib_sim", "--mode eager", "one of barrier, sendrecv, free, paced");
  expect_refused("ib_sim", "--queues lifo", "one of fifo, voq, output");
  expect_refused("ib_sim", "--nic fair", "one of random, round-robin, one-at-a-time");
  expect_refused("ib_sim", "--switching wormhole", "cut-through, store-and-forward");
  expect_refused("ib_sim", "--mtu 0 --layout 2x2", "packets of 0 bytes");
  expect_refused("ib_sim", "--buffer 0", "1 to 65536");
  expect_refused("ib_sim", "--jitter -1", "0 to 100");
  expect_refused("ib_sim", "--pieces 4097", "1 to 4096");
  expect_refused("ib_sim", "--seed -3", "negative");
  expect_refused("ib_sim", "allreduce --algorithm ring --ordered --layout 2x2",
                 "layout 2x2: allreduce algorithm 'ring' can't combine in the order of ranks");
  expect_refused("ib_sim", "--layout 3x1 --server-order 0,1", "2 hosts for 3 servers");
  expect_refused("ib_sim", "--layout 2x1 --server-order 0,0", "two servers");
  expect_refused("ib_sim", "--layout 2x1 --server-order 0,x", "server-order");
}

}  // namespace
}  // namespace ibcoll
