/// ib_map as a user runs it.

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include "engine/base/json.h"
#include "tests/places.h"
#include "tests/tool.h"

namespace ibcoll::testing_tools {
namespace {

TEST(IbMap, PrintsFiguresAndWritesPlacements) {
  const std::string rankfile = folder() / "ranks", picture = folder() / "links.svg";
  const Ran ran = run_tool("ib_map",
                           "--network torus:4x4x4 --pattern bruck:64 --method mopt-minlink,refine "
                           "--budget 200ms --output rankfile --output-file " +
                               rankfile + " --plot " + picture + " --json");
  EXPECT_EQ(ran.status, 0) << ran.err;
  const auto lines = json_lines(ran.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["method"], "xyz");
  for (const auto& line : lines) {
    EXPECT_LE(line["hop_bytes_bound"], line["hop_bytes_torus"]);
    EXPECT_LE(line["max_link_bound"], line["max_link_bytes"]);
    EXPECT_LE(line["hop_bytes_torus"], line["hop_bytes_mesh"]);
    // All bytes of the heaviest link at 5 GB/s, and a bit.
    EXPECT_GE(line["simulated_us"], line["max_link_bytes"].get<double>() / 5e3);
    EXPECT_LE(line["simulated_us"], line["max_link_bytes"].get<double>() / 5e3 * 3);
  }
  EXPECT_LE(lines[2]["hop_bytes_torus"], lines[0]["hop_bytes_torus"]);
  EXPECT_TRUE(std::filesystem::exists(picture));
  std::ifstream in(rankfile);
  std::set<std::string> places;
  int ranks = 0;
  for (std::string rank, place, slot; in >> rank >> place >> slot; ++ranks)
    places.insert(place.substr(place.find('=')));
  EXPECT_EQ(ranks, 64);
  EXPECT_EQ(places.size(), 64u) << "a bijection";
}

TEST(IbMap, MapsOntoFabricsAndOddNetworks) {
  for (const char* arguments :
       {"--network fat-tree:4,3 --pattern cg:64 --objective link",
        "--network torus:5x7 --pattern stencil:5x7 --scramble",
        "--network mesh:1x9 --pattern bruck:9",
        "--network torus:12x10x3 --pattern random:300 --exclude 0,5,9",
        "--network torus:4x4 --pattern periodic:8x8 --per-node 4 --objective both"}) {
    const Ran ran = run_tool("ib_map", std::string(arguments) + " --budget 100ms --json");
    EXPECT_EQ(ran.status, 0) << arguments << ": " << ran.err;
    EXPECT_EQ(json_lines(ran.out).size(), 2u);
  }
}

TEST(IbMap, MapsOntoHierarchiesOfProcessors) {
  // A METIS graph: a ring of 64 vertices.
  std::string graph = "64 64\n";
  for (int i = 0; i < 64; ++i)
    graph += std::to_string((i + 63) % 64 + 1) + " " + std::to_string((i + 1) % 64 + 1) + "\n";
  const Ran ran =
      run_tool("ib_map", "--hierarchy 2:2:4 --distances 1:10:100 --imbalance 10 --matrix " +
                             file("ring.graph", graph) + " --scramble --budget 200ms --json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto lines = json_lines(ran.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1]["network"], "hierarchy 2:2:4, distances 1:10:100");
  // Sixteen parts of four: of the 16 edges between them 8 are inside machines, 4 inside racks.
  EXPECT_EQ(lines[1]["hop_bytes_torus"], 2 * (8 * 1 + 4 * 10 + 4 * 100));
  EXPECT_EQ(lines[1]["max_link_bytes"], 2) << "over both ends of an arc";
  EXPECT_TRUE(lines[1]["max_link_us"].is_null()) << "nobody knows how fast it is";
  EXPECT_LE(lines[1]["hop_bytes_gilmore_lawler"], lines[1]["hop_bytes_torus"]);
  EXPECT_LE(lines[1]["hop_bytes_bound"], lines[1]["hop_bytes_gilmore_lawler"]);
}

TEST(IbMap, UnevenLinksHaveBytesAndTimes) {
  const Ran ran = run_tool("ib_map", "--network tree:4x2,trunk-bandwidth=500MB/s --matrix " +
                                         file("uneven.edges", "0 4 3000000\n1 2 10000000\n") +
                                         " --method xyz --json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto lines = json_lines(ran.out);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_DOUBLE_EQ(lines[0]["max_link_bytes"], 3e6) << "on the trunk, which is the slowest";
  EXPECT_DOUBLE_EQ(lines[0]["max_link_us"], 6000);
  EXPECT_LE(lines[0]["max_link_us_bound"], lines[0]["max_link_us"]);
}

TEST(IbMap, ARecordedProgramIsMappedAndLaunchedSo) {
  const std::string bin = testing_tools::bin_dir(), program = bin + "/mpi_traffic_openmpi";
  if (!std::filesystem::exists(program) || std::thread::hardware_concurrency() < 2 ||
      std::system("command -v mpirun.openmpi >/dev/null") != 0)
    GTEST_SKIP() << "needs Open MPI and two cores";
  const std::string start =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 mpirun.openmpi -n 2 ";
  const std::string edges = folder() / "traffic.edges", ranks = folder() / "ranks";
  const std::string record = start + "env LD_PRELOAD=" + bin +
                             "/libibcoll_mpi.so IBCOLL_MPI_RECORD=" + edges + " " + program;
  ASSERT_EQ(std::system(record.c_str()), 0) << record;
  std::array<char, 256> host{};
  ASSERT_EQ(gethostname(host.data(), host.size() - 1), 0);
  const Ran mapped =
      run_tool("ib_map", "--network mesh:1 --per-node 2 --matrix " + edges + " --hosts " +
                             file("hosts", host.data()) + " --budget 50ms --output rankfile " +
                             "--output-file " + ranks);
  ASSERT_EQ(mapped.status, 0) << mapped.err;
  const std::string launch = start + "--rankfile " + ranks + " " + program;
  EXPECT_EQ(std::system(launch.c_str()), 0) << launch;
}

TEST(IbMap, BadInputIsRefusedInOneLine) {
  const auto refused = [](const std::string& arguments, const std::string& what) {
    expect_refused("ib_map", arguments, what);
  };
  const auto failed = [](const std::string& arguments, const std::string& what) {
    expect_failed("ib_map", arguments, what);
  };
  const std::string on = "--network torus:3x3 ";
  refused(on + "--pattern bruck:10", "10 tasks don't fit");
  refused(on + "--pattern nosuch:9", "unknown pattern");
  refused(on + "--pattern bruck:9 --method guess", "method \"guess\"");
  refused(on, "--matrix and --pattern");
  refused(on + "--pattern bruck:9 --budget 0s", "budget");
  refused(on + "--pattern bruck:9 --exclude 9", "excluded node 9");
  refused("--network torus:0x4 --pattern bruck:4", "side");
  refused("--network moebius:4 --pattern bruck:4", "moebius");
  refused("--pattern bruck:4", "--network and --hierarchy");
  refused(on + "--pattern bruck:9 --hierarchy 3:3 --distances 1:2", "--network and --hierarchy");
  refused("--pattern bruck:4 --hierarchy 2:2", "--hierarchy and --distances");
  refused("--pattern bruck:4 --hierarchy 2:2 --distances 5:1", "none smaller");
  refused("--pattern bruck:4 --hierarchy 2:x --distances 1:5", "--hierarchy");
  refused(on + "--pattern bruck:9 --per-node 1 --imbalance 3", "--per-node and --imbalance");
  refused(on + "--pattern bruck:9 --imbalance -1", "--imbalance");
  failed(on + "--matrix " + file("negative.csv", "0,1\n1,-4\n"), "negative.csv:2: -4 bytes");
  failed(on + "--matrix " + file("nan.csv", "0,nan\n1,0\n"), "nan bytes");
  failed(on + "--matrix " + file("edges", "0 1\n"), "FROM TO BYTES");
}

}  // namespace
}  // namespace ibcoll::testing_tools
