// Networks as ibnetdiscover and opensm write them: files that are right, and that are wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/places.h"
#include "tests/tool.h"
#include "tests/topology/fabric_files.h"
#include "topology/readers/readers.h"

namespace ibcoll::topology {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Golden {
  const char* topo;
  const char* tables;
  int hosts, switches, cables;
};

class OpenSm : public ::testing::TestWithParam<Golden> {};

TEST_P(OpenSm, RoutesAreThoseOfTheTables) {
  const Golden golden = GetParam();
  const std::string tables = data(golden.tables);
  const auto read = read_ibnetdiscover(data(golden.topo), golden.topo, tables, golden.tables);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->hosts(), golden.hosts);
  EXPECT_EQ(read->switches(), golden.switches);
  EXPECT_EQ(read->links(), 2 * golden.cables);
  std::map<unsigned, int> host_of_lid;
  for (int host = 0; host < read->hosts(); ++host) {
    EXPECT_EQ(read->node(host).name, fmt::format("h{}", host)) << "in natural order";
    host_of_lid[read->node(host).lid] = host;
  }
  // The tables once more, read in the plainest way.
  std::istringstream lines(tables);
  unsigned long long guid = 0;
  int compared = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find(" guid 0x");
    if (at != std::string::npos) guid = std::stoull(line.substr(at + 8), nullptr, 16);
    unsigned lid = 0, port = 0;
    if (std::sscanf(line.c_str(), "0x%x %u", &lid, &port) != 2 || host_of_lid.count(lid) == 0) {
      continue;
    }
    for (int s = read->hosts(); s < read->nodes(); ++s) {
      if (read->node(s).guid != guid) continue;
      EXPECT_EQ(read->link(read->next_link(s, host_of_lid[lid])).from_port, port) << line;
      ++compared;
    }
  }
  EXPECT_EQ(compared, read->hosts() * read->switches());
}

INSTANTIATE_TEST_SUITE_P(Engines, OpenSm,
                         ::testing::Values(Golden{"fat_tree.topo", "fat_tree.ftree.fts", 16, 8, 32},
                                           Golden{"fat_tree.topo", "fat_tree.updn.fts", 16, 8, 32},
                                           Golden{"fat_tree.topo", "fat_tree.minhop.fts", 16, 8,
                                                  32},
                                           Golden{"torus.topo", "torus.dfsssp.fts", 16, 16, 48},
                                           Golden{"torus.topo", "torus.lash.fts", 16, 16, 48},
                                           Golden{"torus.topo", "torus.nue.fts", 16, 16, 48},
                                           Golden{"tree.topo", "tree.minhop.fts", 12, 5, 16},
                                           Golden{"small.topo", "small.ftree.fts", 8, 12, 24},
                                           Golden{"small.topo", "small.lfts", 8, 12, 24}));

TEST(IbNetDiscover, TellsOfSeveralRoutesAPair) {
  const Fabric tree =
      read_ibnetdiscover(data("tree.topo"), "t", data("tree.minhop.fts"), "f").value();
  ASSERT_EQ(tree.notes().size(), 1u);
  EXPECT_THAT(tree.notes()[0], HasSubstr("LMC 2: up to 4 routes a pair"));
}

TEST(IbNetDiscover, WithoutTablesRoutesAreShortest) {
  const Fabric fabric = read_ibnetdiscover(data("fat_tree.topo"), "t", "", "").value();
  EXPECT_EQ(fabric.hops(0, 15), 4);
  EXPECT_EQ(fabric.route_bandwidth(0, 15), 1e9) << "4xSDR";
  ASSERT_EQ(fabric.notes().size(), 1u);
  EXPECT_THAT(fabric.notes()[0], HasSubstr("no forwarding tables"));
}

/// Two hosts on a switch, one with two ports, as newer versions print them.
constexpr const char* kRails = R"(vendid=0x2c9
switchguid=0xa0(a0)
Switch	36 "S-00000000000000a0"		# "leaf 1" enhanced port 0 lid 4 lmc 0
[1]	"H-00000000000000b0"[1](b1) 		# "h10 HCA-1" lid 5 4xEDR
[2][ext 2]	"H-00000000000000b0"[2](b2) 		# "h10 HCA-1" lid 6 4xEDR
[3]	"H-00000000000000c0"[1](c1) 		# "h9 HCA-1" lid 7 2xNDR

caguid=0xb0
Ca	2 "H-00000000000000b0"		# "h10 HCA-1"
[1](b1) 	"S-00000000000000a0"[1]		# lid 5 lmc 0 "leaf 1" lid 4 4xEDR
[2](b2) 	"S-00000000000000a0"[2][ext 2]		# lid 6 lmc 0 "leaf 1" lid 4 4xEDR

Ca	1 "H-00000000000000c0"		# "h9 HCA-1"
[1](c1) 	"S-00000000000000a0"[3]		# lid 7 lmc 0 "leaf 1" lid 4 2xNDR

Ca	1 "H-00000000000000d0"		# "h11 HCA-1"
)";

TEST(IbNetDiscover, EachConnectedPortIsAHost) {
  const auto fabric = read_ibnetdiscover(kRails, "rails", "", "");
  ASSERT_TRUE(fabric) << fabric.error().message;
  ASSERT_EQ(fabric->hosts(), 3);
  EXPECT_EQ(fabric->node(0).name, "h9 HCA-1");
  EXPECT_EQ(fabric->node(1).name, "h10 HCA-1 port 1");
  EXPECT_EQ(fabric->node(2).name, "h10 HCA-1 port 2");
  EXPECT_EQ(fabric->node(2).guid, 0xb2u);
  EXPECT_EQ(fabric->link(fabric->host_link(0)).bandwidth, 25e9);
  EXPECT_EQ(fabric->link(fabric->host_link(1)).bandwidth, 12.5e9);
  EXPECT_THAT(fabric->notes(), ::testing::Contains(HasSubstr("'h11 HCA-1' has no cable")));
  EXPECT_THAT(fabric->notes(), ::testing::Contains(HasSubstr("several ports")));
}

std::string topo_error(const std::string& text) {
  return error_of(read_ibnetdiscover(text, "net.topo", "", ""));
}

TEST(IbNetDiscover, ErrorsNameFileLineAndReason) {
  const std::string good = kRails;
  EXPECT_THAT(topo_error(""), HasSubstr("no switches and no hosts"));
  EXPECT_THAT(topo_error(with(good, "[3]\t", "[1]\t")),
              AllOf(StartsWith("net.topo:6: "), HasSubstr("port 1 of 'leaf 1' stands twice")));
  EXPECT_THAT(topo_error(with(good, "[3]\t", "[37]\t")),
              StartsWith("net.topo:6: expected [PORT] with 1 to 36"));
  EXPECT_THAT(
      topo_error(with(good, "H-00000000000000d0", "H-00000000000000c0")),
      AllOf(StartsWith("net.topo:16: GUID 0x00000000000000c0"), HasSubstr("(net.topo:13)")));
  EXPECT_THAT(topo_error(with(good, "lid 7 lmc 0", "lid 6 lmc 0")),
              AllOf(StartsWith("net.topo:"), HasSubstr("LID 6 of host")));
  EXPECT_THAT(topo_error(with(good, "[3]		# lid 7", "[4]		# lid 7")),
              HasSubstr("which does not say so"));
  EXPECT_THAT(topo_error(good.substr(0, good.find("Ca\t1"))),
              AllOf(StartsWith("net.topo:6: "), HasSubstr("cut off")));
  EXPECT_THAT(topo_error(with(good, "lid 7 2xNDR", "lid 7 2xWDR")),
              AllOf(StartsWith("net.topo:6: "), HasSubstr("no speed like 4xEDR")));
  EXPECT_THAT(topo_error(with(good, "caguid=0xb0", "caguid=0xb5")),
              StartsWith("net.topo:9: the id has GUID"));
  EXPECT_THAT(topo_error(with(good, "vendid", "vendor")), StartsWith("net.topo:1: not a line"));
}

std::string tables_error(const std::string& tables) {
  return error_of(read_ibnetdiscover(data("small.topo"), "net.topo", tables, "net.fts"));
}

TEST(ForwardingTables, ErrorsNameFileLineAndReason) {
  const std::string good = data("small.ftree.fts");
  ASSERT_EQ(tables_error(good), "no error");
  EXPECT_THAT(tables_error("\n"), StartsWith("net.fts:1: no forwarding tables"));
  const size_t half = good.size() / 2;
  EXPECT_THAT(tables_error(good.substr(0, good.rfind('\n', half))), StartsWith("net.fts:"));
  const size_t second = good.find("Unicast lids", 1), third = good.find("Unicast lids", second + 1);
  EXPECT_THAT(tables_error(good.substr(0, second)),
              AllOf(StartsWith("net.fts: no table of switch"), HasSubstr("cut off")));
  EXPECT_THAT(tables_error(good.substr(0, third) + good.substr(second)),
              AllOf(StartsWith("net.fts:"), HasSubstr("a second table of switch")));
  EXPECT_THAT(tables_error(with(good, "guid 0x0000000000200", "guid 0x0000000000300")),
              AllOf(StartsWith("net.fts:"), HasSubstr("which the fabric lacks")));
  EXPECT_THAT(tables_error(with(good, "\n0x0002 ", "\n0x0099 ")),
              AllOf(StartsWith("net.fts:"), HasSubstr("LID 153 (0x0099) is not in the fabric")));
  EXPECT_THAT(tables_error(with(good, " valid lids dumped", "0 valid lids dumped")),
              HasSubstr("entries, not the"));
}

TEST(ForwardingTables, LoopsAndUnreachablePairsAreRefused) {
  // Reroute every entry of host h0 in one table, to each port in turn: some loop, some end nowhere.
  const Fabric fabric =
      read_ibnetdiscover(data("small.topo"), "t", data("small.ftree.fts"), "f").value();
  const std::string entry = fmt::format("0x{:04x} ", fabric.node(0).lid);
  bool loop = false, lost = false;
  for (const char* port : {"000", "001", "002", "003", "004", "255"}) {
    std::string tables = data("small.ftree.fts");
    for (size_t at = tables.find(entry); at != std::string::npos; at = tables.find(entry, at + 1)) {
      std::string changed = tables;
      changed.replace(at + 7, 3, port);
      const std::string error = tables_error(changed);
      loop = loop || error.find("runs in a loop") != std::string::npos;
      lost = lost || error.find("can't reach") != std::string::npos;
    }
  }
  EXPECT_TRUE(loop);
  EXPECT_TRUE(lost);
}

TEST(LiveFull, AskedOverTheFabricItIsWhatTheFilesSay) {
  if (std::system("command -v ibsim >/dev/null && command -v opensm >/dev/null") != 0) {
    GTEST_SKIP() << "needs ibsim-utils and opensm";
  }
  // ibsim plays the network that small.topo came from; opensm routes it as it did then.
  const std::string script = testing_tools::file("live.sh", R"sh(set -e
cd "$(mktemp -d)"
trap 'kill $! && wait $! || true; rm -rf "$PWD"' EXIT
export IBSIM_SOCKNAME=live$$ OSM_TMP_DIR=$PWD OSM_CACHE_DIR=$PWD
"$1/ib_topo" convert fat-tree:2,3 --to ibsim --output net
mkfifo commands
timeout 60 ibsim -s net <commands >log 2>&1 &
exec 9>commands
sleep 1
export LD_PRELOAD=$(echo /usr/lib/*/umad2sim/libumad2sim.so)
timeout 30 opensm -o -R ftree -f osm.log --dump_files_dir . >out 2>&1
timeout 30 "$1/ib_topo" convert live
)sh");
  const auto [status, text] = testing_tools::run_command("bash " + script + " " +
                                                         testing_tools::bin_dir() + " 2>/dev/null");
  ASSERT_EQ(status, 0);
  const auto live = read_json(text, "live");
  ASSERT_TRUE(live) << live.error().message;
  const Fabric saved =
      read_ibnetdiscover(data("small.topo"), "t", data("small.ftree.fts"), "f").value();
  ASSERT_EQ(live->hosts(), saved.hosts());
  const auto path = [](const Fabric& fabric, int from, int to) {
    std::vector<std::string> ends;
    fabric.visit_route(from, to, [&](int link) {
      ends.push_back(
          fmt::format("{}[{}]", fabric.node(fabric.link(link).to).name, fabric.link(link).to_port));
    });
    return ends;
  };
  for (int from = 0; from < saved.hosts(); ++from) {
    for (int to = 0; to < saved.hosts(); ++to) {
      EXPECT_EQ(path(*live, from, to), path(saved, from, to));
    }
  }
}

}  // namespace
}  // namespace ibcoll::topology
