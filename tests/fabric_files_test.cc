// Readers of fabrics: files that opensm made, files that are wrong, files that were mangled.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/tool.h"
#include "topology/readers/readers.h"
#include "topology/spec.h"

namespace ibcoll::topology {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string data(const std::string& name) {
  std::ifstream file(IBCOLL_SOURCE_DIR "/tests/data/fabrics/" + name);
  EXPECT_TRUE(file) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The text with one part replaced, which must be there.
std::string with(std::string text, const std::string& part, const std::string& other) {
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  if (at == std::string::npos) return text;
  return text.replace(at, part.size(), other);
}

template <class T>
std::string error_of(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

std::vector<std::string> passed(const Fabric& fabric, const char* from, const char* to) {
  std::vector<std::string> names;
  fabric.visit_route(fabric.find(from).value(), fabric.find(to).value(),
                     [&](int link) { names.push_back(fabric.node(fabric.link(link).to).name); });
  return names;
}

struct Golden {
  const char* topo;
  const char* tables;
  int hosts, switches, cables;
};

class OpenSm : public testing::TestWithParam<Golden> {};

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
                         testing::Values(Golden{"fat_tree.topo", "fat_tree.ftree.fts", 16, 8, 32},
                                         Golden{"fat_tree.topo", "fat_tree.updn.fts", 16, 8, 32},
                                         Golden{"fat_tree.topo", "fat_tree.minhop.fts", 16, 8, 32},
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
  EXPECT_THAT(fabric->notes(), testing::Contains(HasSubstr("'h11 HCA-1' has no cable")));
  EXPECT_THAT(fabric->notes(), testing::Contains(HasSubstr("several ports")));
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

constexpr const char* kSlurm = R"(# two leaves and a spine
SwitchName=s0 Nodes=dev[0-2]
SwitchName=s1 nodes=dev[03-04],login LinkSpeed=100
SwitchName=top \
  Switches=s[0-1]
)";

std::string slurm_error(const std::string& text) {
  return error_of(read_slurm(text, "topology.conf"));
}

TEST(Slurm, ReadsATree) {
  const auto fabric = read_slurm(kSlurm, "topology.conf", {1e9, {2e9}, 300, 100});
  ASSERT_TRUE(fabric) << fabric.error().message;
  ASSERT_EQ(fabric->hosts(), 6);
  EXPECT_EQ(fabric->node(3).name, "dev03");
  EXPECT_EQ(fabric->node(5).name, "login");
  EXPECT_THAT(passed(*fabric, "dev0", "login"), ElementsAre("s0", "top", "s1", "login"));
  EXPECT_EQ(fabric->link(fabric->route(0, 5)[1]).bandwidth, 2e9);
  EXPECT_EQ(fabric->route_latency_ns(0, 5), 4 * 300 + 3 * 100);
}

TEST(Slurm, ErrorsNameFileLineAndReason) {
  const std::string good = kSlurm;
  EXPECT_THAT(slurm_error(with(good, "s[0-1]", "s[0-2]")),
              AllOf(StartsWith("topology.conf:5: "), HasSubstr("'s2' has no line")));
  EXPECT_THAT(slurm_error(with(good, "login", "dev1")),
              AllOf(StartsWith("topology.conf:3: "),
                    HasSubstr("'dev1' is also on switch 's0' (topology.conf:2)")));
  EXPECT_THAT(slurm_error(with(good, "SwitchName=s1", "SwitchName=s0")),
              StartsWith("topology.conf:3: switch 's0' stands in topology.conf:2 already"));
  EXPECT_THAT(slurm_error(with(good, "dev[0-2]", "dev[2-0]")),
              StartsWith("topology.conf:2: host list"));
  EXPECT_THAT(slurm_error(with(good, "dev[0-2]", "dev[0-2")), HasSubstr("brackets"));
  EXPECT_THAT(slurm_error(with(good, "dev[0-2]", "dev[0-99999999]")), HasSubstr("more than"));
  EXPECT_THAT(slurm_error(with(good, "s[0-1]", "top")), HasSubstr("below itself"));
  EXPECT_THAT(slurm_error(good.substr(0, good.find("SwitchName=top"))), HasSubstr("can't reach"));
  EXPECT_THAT(slurm_error(good.substr(0, good.find("  Switches"))), HasSubstr("cut off"));
  EXPECT_THAT(slurm_error("BlockName=b1 Nodes=a[1-2]\n"), HasSubstr("block topologies"));
  EXPECT_THAT(slurm_error(""), HasSubstr("no SwitchName="));
}

TEST(FabricJson, KeepsEverything) {
  for (const char* spec : {"single-switch:3", "xgft:3x4/1x2/1x2", "torus:4x3,switch-latency=90ns",
                           "dragonfly:2,4,2", "tree:2x2x2,trunk-bandwidth=10Gbit/s:40Gbit/s"}) {
    const Fabric fabric = open_fabric(spec).value();
    const std::string text = write_json(fabric);
    const auto again = read_json(text, "x.json");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(write_json(*again), text);
    for (int a = 0; a < fabric.hosts(); ++a) {
      for (int b = 0; b < fabric.hosts(); ++b) ASSERT_EQ(again->route(a, b), fabric.route(a, b));
    }
  }
}

constexpr const char* kJson = R"({
"format": "ibcoll fabric 1",
"hosts": ["a", {"name": "b", "guid": "0x2", "lid": 9}, "c"],
"switches": ["s", "t"],
"cables": [
  {"ends": ["a", "s"], "bandwidth": "100Gbit/s"},
  {"ends": ["b", 1, "t", 1], "latency_ns": 5},
  {"ends": ["c", "t"]},
  {"ends": ["s", "t"], "count": 2, "bandwidth": 5e8}
],
"routes": {
  "s": [1, [2, 3], 2],
  "t": [4, 1, 2]
}
}
)";

std::string json_error(const std::string& text) { return error_of(read_json(text, "f.json")); }

TEST(FabricJson, ReadsWhatPeopleWrite) {
  const auto fabric = read_json(kJson, "f.json", {1e9, {}, 70, std::nullopt});
  ASSERT_TRUE(fabric) << fabric.error().message;
  EXPECT_EQ(fabric->link(fabric->host_link(0)).bandwidth, 12.5e9);
  EXPECT_EQ(fabric->route_bandwidth(0, 1), 5e8);
  EXPECT_EQ(fabric->route_latency_ns(0, 1), 70 + 70 + 5);
  EXPECT_EQ(fabric->node(1).lid, 9);
  ASSERT_EQ(fabric->notes().size(), 1u);
  EXPECT_THAT(fabric->notes()[0], HasSubstr("adaptive routing: 1 entries"));
}

TEST(FabricJson, ErrorsNameFileLineAndReason) {
  const std::string good = kJson;
  EXPECT_THAT(json_error(""), StartsWith("f.json:1: not JSON"));
  EXPECT_THAT(json_error(good.substr(0, 200)), AllOf(StartsWith("f.json:"), HasSubstr("not JSON")));
  EXPECT_THAT(json_error(with(good, "fabric 1", "fabric 7")), StartsWith("f.json:2: /format"));
  EXPECT_THAT(json_error(with(good, "\"count\"", "\"counts\"")),
              StartsWith("f.json:9: /cables/3: unknown member \"counts\""));
  EXPECT_THAT(json_error(with(good, "\"c\"]", "\"a\"]")),
              AllOf(StartsWith("f.json:3: "), HasSubstr("'a' stands twice")));
  EXPECT_THAT(json_error(with(good, "\"t\", 1]", "\"u\", 1]")),
              StartsWith("f.json:7: /cables/1/ends: no host"));
  EXPECT_THAT(json_error(with(good, "100Gbit/s", "-3")),
              StartsWith("f.json:6: /cables/0/bandwidth"));
  EXPECT_THAT(json_error(with(good, "5e8", "1e99")), StartsWith("f.json:9: /cables/3/bandwidth"));
  EXPECT_THAT(json_error(with(good, "[4, 1, 2]", "[4, 1]")),
              StartsWith("f.json:13: /routes/t: a list of 3 ports"));
  EXPECT_THAT(json_error(with(good, "[4, 1, 2]", "[4, 3, 2]")),
              AllOf(StartsWith("f.json:"), HasSubstr("loop")));
  EXPECT_THAT(json_error(with(good, "[4, 1, 2]", "[4, 1, -2]")),
              StartsWith("f.json:13: /routes/t/2"));
  EXPECT_THAT(json_error(with(good, "\"t\": [4", "\"s\": [4")),
              AllOf(StartsWith("f.json:13: "), HasSubstr("\"s\" stands twice")));
  EXPECT_THAT(json_error(with(good, "\"0x2\"", "\"2\"")), HasSubstr("a GUID is a text"));
}

TEST(OpenFabric, TellsFilesApart) {
  const std::string folder = IBCOLL_SOURCE_DIR "/tests/data/fabrics/";
  EXPECT_EQ(open_fabric(folder + "small.topo,routes=" + folder + "small.lfts,latency=10ns")
                .value()
                .route_latency_ns(0, 1),
            20);
  EXPECT_THAT(error_of(open_fabric(folder + "small.topo,latencies=3")),
              HasSubstr("none of routes="));
  EXPECT_THAT(error_of(open_fabric(folder + "small.topo,routes=/none")),
              HasSubstr("can't read /none"));
  EXPECT_THAT(error_of(open_fabric(folder)), HasSubstr("is a directory"));
  EXPECT_THAT(error_of(open_fabric(folder + "regenerate.sh")), HasSubstr("neither ibcoll's JSON"));
  EXPECT_THAT(error_of(open_fabric("no/such")), HasSubstr("neither a file nor one of"));
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
  const auto [status, text] =
      testing_tools::run_command("bash " + script + " " IBCOLL_BIN_DIR " 2>/dev/null");
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

/// A text with some bytes, lines or numbers changed, lost, doubled or moved, and maybe cut off.
std::string mangle(std::string text) {
  const int changes = *rc::gen::inRange(1, 6);
  for (int i = 0; i < changes && !text.empty(); ++i) {
    const auto at = static_cast<size_t>(*rc::gen::inRange<int>(0, static_cast<int>(text.size())));
    const size_t line = text.rfind('\n', at) == std::string::npos ? 0 : text.rfind('\n', at) + 1;
    const size_t next = std::min(text.find('\n', at), text.size() - 1) + 1;
    switch (*rc::gen::inRange(0, 7)) {
      case 0:
        text[at] = static_cast<char>(*rc::gen::inRange(0, 256));
        break;
      case 1:
        text.erase(at, static_cast<size_t>(*rc::gen::inRange(1, 9)));
        break;
      case 2:
        text.erase(line, next - line);
        break;
      case 3:
        text.insert(line, text.substr(line, next - line));
        break;
      case 4:
        text.resize(at);
        break;
      case 5:
        text.insert(at, std::to_string(*rc::gen::arbitrary<int64_t>()));
        break;
      default: {
        const size_t digit = text.find_first_of("0123456789", at);
        if (digit != std::string::npos)
          text[digit] = static_cast<char>('0' + *rc::gen::inRange(0, 10));
      }
    }
  }
  return text;
}

/// Whatever comes out of a reader is a whole fabric or a message of one line that names the file.
template <class T>
void expect_whole_or_refused(const Result<T>& result) {
  if (!result) {
    // At the beginning, or behind each host and switch it speaks of.
    const std::string& message = result.error().message;
    RC_ASSERT(message.rfind("in", 0) == 0 || message.find("(in") != std::string::npos);
    RC_ASSERT(result.error().code == ErrorCode::kInvalidArgument);
    return;
  }
  for (int from = 0; from < result->hosts(); ++from) {
    for (int to = 0; to < result->hosts(); ++to) {
      int node = from;
      for (const int link : result->route(from, to)) node = result->link(link).to;
      RC_ASSERT(node == to);
    }
  }
}

RC_GTEST_PROP(Fuzz, IbNetDiscover, ()) {
  static const std::string kTopo = data("small.topo"), kTables = data("small.ftree.fts");
  const bool topo = *rc::gen::arbitrary<bool>();
  expect_whole_or_refused(read_ibnetdiscover(topo ? mangle(kTopo) : kTopo, "in.topo",
                                             topo ? kTables : mangle(kTables), "in.fts"));
}

RC_GTEST_PROP(Fuzz, Slurm, ()) { expect_whole_or_refused(read_slurm(mangle(kSlurm), "in")); }

RC_GTEST_PROP(Fuzz, Json, ()) { expect_whole_or_refused(read_json(mangle(kJson), "in")); }

}  // namespace
}  // namespace ibcoll::topology
