// Readers of fabrics: files of people and of Slurm, files that are wrong, files that were mangled;
// and how names find their hosts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/places.h"
#include "tests/topology/fabric_files.h"
#include "topology/host_names.h"
#include "topology/readers/readers.h"
#include "topology/spec.h"

namespace ibcoll::topology {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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

TEST(HostNames, AreWholeNamesFirstWordsOrWithoutDomain) {
  const auto fabric = read_json(R"({
    "format": "ibcoll fabric 1",
    "hosts": ["n1 mlx5_0", "n1 mlx5_1", "n2.cluster", "n3"],
    "switches": ["s"],
    "cables": [{"ends": ["n1 mlx5_0", "s"]}, {"ends": ["n1 mlx5_1", "s"]},
               {"ends": ["n2.cluster", "s"]}, {"ends": ["n3", "s"]}]})",
                                "names.json");
  ASSERT_TRUE(fabric) << fabric.error().message;
  const auto find = [&](std::vector<std::string> names) { return find_hosts(*fabric, names); };
  EXPECT_THAT(find({"n1 mlx5_1", "n1", "n1.cluster", "n2", "n2.cluster", "n3.far"}).value(),
              ElementsAre(1, 0, 0, 2, 2, 3));
  EXPECT_THAT(find({"n3", "n4"}).error().message, HasSubstr("no host 'n4'"));
}

TEST(OpenFabric, TellsFilesApart) {
  const std::string folder = testing_tools::source_dir() + "/tests/data/fabrics/";
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
