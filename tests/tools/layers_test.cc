// Who may include whom: layers that must not know each other stay apart, and the table of
// docs/architecture.md says so.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/places.h"

namespace ibcoll {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// What each layer may include besides itself: other layers, or single headers of them. A file that
/// may include more than its layer stands here by its own name.
const std::map<std::string, std::set<std::string>> kAllowed = {
    // ibcoll_engine
    {"include", {}},
    {"engine/base", {}},
    {"engine/schedule", {"engine/base"}},
    {"engine/algorithms", {"engine/base", "engine/schedule"}},
    {"engine/bootstrap", {"engine/base", "engine/schedule"}},
    {"engine/tuner", {"engine/base", "engine/schedule", "engine/algorithms"}},
    {"engine/multicast",
     {"engine/base", "engine/schedule", "engine/algorithms", "engine/tuner", "engine/transport",
      "engine/execute"}},
    {"engine/transport", {"engine/base", "engine/schedule", "engine/bootstrap"}},
    {"engine/execute", {"engine/base", "engine/schedule", "engine/bootstrap", "engine/transport"}},
    {"topology", {"engine/base"}},
    {"engine/planner", {"engine/base", "engine/schedule", "topology"}},
    {"shm", {"engine/base", "engine/bootstrap", "engine/transport/transport.h"}},
    {"verbs",
     {"engine/base", "engine/schedule", "engine/bootstrap", "engine/transport/exchange.h",
      "engine/transport/memory_cache.h", "engine/transport/network_kind.h",
      "engine/transport/transport.h"}},
    {"ucx",
     {"engine/base", "engine/schedule", "engine/bootstrap", "engine/transport/exchange.h",
      "engine/transport/memory_cache.h", "engine/transport/network_kind.h",
      "engine/transport/transport.h"}},
    {"engine/core",
     {"include", "engine/base", "engine/schedule", "engine/algorithms", "engine/bootstrap",
      "engine/tuner", "engine/transport", "engine/execute", "engine/multicast", "engine/planner",
      "topology", "shm"}},
    // ibcoll_studies
    {"topology/mapping", {"engine/base", "topology"}},
    {"engine/simulate",
     {"engine/base", "engine/schedule", "engine/algorithms", "engine/planner", "topology",
      "topology/mapping"}},
    {"engine/verification",
     {"engine/base", "engine/schedule", "engine/algorithms", "engine/planner", "topology"}},
    {"engine/task_graph", {"engine/base", "engine/bootstrap", "engine/transport", "shm"}},
    {"engine/measure",
     {"engine/base", "engine/schedule", "engine/algorithms", "engine/bootstrap", "engine/tuner",
      "engine/core"}},
    {"integrations/ucc", {"include"}},
};

/// An entry of kAllowed: who, and one of what it may include.
using Rule = std::pair<std::string, std::string>;

/// The layer of a path: its first folder, two of them inside engine/ and integrations/.
std::string layer_of(const std::string& path) {
  const size_t first = path.find('/');
  if (path.rfind("ibcoll/", 0) == 0) return "include";
  if (path.rfind("topology/mapping/", 0) == 0) return "topology/mapping";
  if (path.rfind("engine/", 0) != 0 && path.rfind("integrations/", 0) != 0)
    return path.substr(0, first);
  return path.substr(0, path.find('/', first + 1));
}

/// What lets a file include a header of another layer, if anything.
std::optional<Rule> rule_for(const std::string& file, const std::string& header) {
  for (const std::string& who : {file, layer_of(file)}) {
    const auto allowed = kAllowed.find(who);
    if (allowed == kAllowed.end()) continue;
    for (const std::string& what : {header, layer_of(header)})
      if (allowed->second.count(what) > 0) return Rule(who, what);
  }
  return std::nullopt;
}

/// What is wrong with a file that includes a system's header, if anything.
std::optional<std::string> system_violation(const std::string& file, const std::string& header) {
  const std::string from = layer_of(file);
  if (header.rfind("infiniband/verbs", 0) == 0 && from != "verbs") {
    return file + ": libibverbs is for verbs/ only";
  }
  if (header.rfind("ucp/", 0) == 0 && from != "ucx") return file + ": UCP is for ucx/ only";
  // Its default logger writes to standard output, past IBCOLL_LOG_LEVEL.
  if (header.rfind("spdlog/", 0) == 0 && file != "engine/base/log.cc") {
    return file + ": messages go through engine/base/log.h, not spdlog";
  }
  return std::nullopt;
}

/// Whether the repository has a header of that path. The team layer includes others in quotes, too:
/// UCC's, and its own beside it.
bool is_ours(const std::string& header) {
  const fs::path root = testing_tools::source_dir();
  return fs::exists(root / header) || fs::exists(root / "include" / header);
}

/// What the includes of files say.
struct Findings {
  std::vector<std::string> violations;
  std::set<Rule> used;
  int files = 0;

  void look_into(const std::string& file, std::istream& text) {
    static const std::regex kInclude(R"(^\s*#\s*include\s*(["<])([^">]+)[">])");
    ++files;
    std::smatch match;
    for (std::string line; std::getline(text, line);) {
      if (!std::regex_search(line, match, kInclude)) continue;
      const std::string header = match[2];
      if (match[1] == "<") {
        if (const auto wrong = system_violation(file, header)) violations.push_back(*wrong);
      } else if (layer_of(file) == layer_of(header)) {
        continue;
      } else if (layer_of(file) == "integrations/ucc" && !is_ours(header)) {
        continue;
      } else if (const auto rule = rule_for(file, header)) {
        used.insert(*rule);
      } else {
        violations.push_back(file + " includes " + header + ": " + layer_of(file) +
                             " must not know " + layer_of(header));
      }
    }
  }
};

Findings of_all_sources() {
  const fs::path root = testing_tools::source_dir();
  Findings findings;
  for (const char* folder :
       {"engine", "shm", "verbs", "ucx", "topology", "include", "integrations/ucc"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".c" && extension != ".cc" && extension != ".hpp")
        continue;
      std::ifstream text(entry.path());
      findings.look_into(fs::relative(entry.path(), root), text);
    }
  }
  return findings;
}

TEST(Layers, EveryIncludeKeepsTheRules) {
  const Findings findings = of_all_sources();
  EXPECT_THAT(findings.violations, IsEmpty());
  EXPECT_GT(findings.files, 50) << "no sources under " << testing_tools::source_dir();
}

TEST(Layers, EveryRuleIsNeeded) {
  const Findings findings = of_all_sources();
  std::vector<std::string> unused;
  for (const auto& [who, all] : kAllowed) {
    if (!fs::exists(fs::path(testing_tools::source_dir()) / who))
      unused.push_back(who + " is not there");
    for (const std::string& what : all)
      if (findings.used.count({who, what}) == 0)
        unused.push_back("nothing in " + who + " includes " + what);
  }
  EXPECT_THAT(unused, IsEmpty());
}

TEST(Layers, BreachesAreFound) {
  std::istringstream text(
      "#include \"engine/base/units.h\"\n"
      "#include \"shm/heap.h\"\n"
      "  # include <infiniband/verbs.h>\n"
      "#include <ucp/api/ucp.h>\n"
      "#include <spdlog/spdlog.h>\n"
      "#include \"engine/transport/transport.h\"\n"
      "#include \"verbs/network_kind.h\"\n"
      "#include \"engine/execute/executor.h\"\n");
  Findings findings;
  findings.look_into("engine/transport/loopback.cc", text);
  EXPECT_THAT(findings.violations,
              ElementsAre(HasSubstr("must not know shm"), HasSubstr("libibverbs"),
                          HasSubstr("UCP is for ucx/ only"), HasSubstr("log.h"),
                          HasSubstr("must not know verbs"), HasSubstr("executor.h")));
  EXPECT_THAT(findings.used, ElementsAre(Rule("engine/transport", "engine/base")));
  std::istringstream of_ucc(
      "#include \"component.h\"\n"
      "#include \"core/ucc_team.h\"\n"
      "#include \"ibcoll/ibcoll.h\"\n"
      "#include \"engine/core/call.h\"\n");
  Findings in_ucc;
  in_ucc.look_into("integrations/ucc/team.c", of_ucc);
  EXPECT_THAT(in_ucc.violations, ElementsAre(HasSubstr("must not know engine/core")));
  EXPECT_THAT(in_ucc.used, ElementsAre(Rule("integrations/ucc", "include")));
}

/// What a build has is for CMake to know, which chooses files, and for transports.
TEST(Layers, OnlyTransportsAskThePreprocessorWhatThereIs) {
  const fs::path root = testing_tools::source_dir();
  std::vector<std::string> found;
  for (const char* folder : {"engine", "shm", "topology", "include", "tools", "perf", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".hpp") continue;
      std::ifstream text(entry.path());
      for (std::string line; std::getline(text, line);)
        if (line.rfind("#if", 0) == 0 && line.find("IBCOLL_HAVE_") != std::string::npos)
          found.push_back(fs::relative(entry.path(), root).string() + ": " + line);
    }
  }
  EXPECT_THAT(found, IsEmpty());
}

/// The rows of the tables of layers: folder, what it knows.
std::map<std::string, std::string> documented_layers() {
  static const std::regex kRow(R"(^\| `([a-z_/]+)/` \|.*\| ([^|]*) \|$)");
  std::ifstream text(fs::path(testing_tools::source_dir()) / "docs/architecture.md");
  std::map<std::string, std::string> rows;
  std::smatch match;
  for (std::string line; std::getline(text, line);)
    if (std::regex_match(line, match, kRow)) rows[match[1]] = match[2];
  return rows;
}

/// "base, schedule, transport.h": the names of layers and headers without what they stand in.
std::string short_names(const std::set<std::string>& allowed) {
  std::vector<std::string> names;
  for (const std::string& path : allowed) names.push_back(fs::path(path).filename());
  std::sort(names.begin(), names.end());
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "nothing" : list;
}

TEST(Layers, TheDocumentationNamesEachWithWhatItKnows) {
  std::map<std::string, std::string> expected;
  for (const auto& [who, all] : kAllowed) {
    if (fs::path(who).has_extension()) continue;
    expected[who == "include" ? "include/ibcoll" : who] = short_names(all);
  }
  for (const char* top : {"integrations/mpi", "tools", "perf", "tests"}) expected[top] = "all";
  EXPECT_THAT(documented_layers(), ElementsAreArray(expected));
}

}  // namespace
}  // namespace ibcoll
