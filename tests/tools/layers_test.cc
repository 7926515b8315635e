// Who may include whom: layers that must not know each other stay apart, and the table of
// docs/architecture.md says so.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
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

#include "tests/command.h"
#include "tests/places.h"

namespace ibcoll {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

/// A row of folders.txt: what the sources of a folder may include besides each other.
struct Row {
  std::set<std::string> allowed;  ///< folders, or single headers of them
  bool all = false;
};

/// All that folders.txt says; each transport has the row of all of them.
std::map<std::string, Row> read_rows() {
  const fs::path root = testing_tools::source_dir();
  std::ifstream text(root / "folders.txt");
  std::map<std::string, Row> rows;
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string folder, part;
    words >> folder >> part;
    Row row;
    for (std::string word; words >> word;) {
      if (word == "all") row.all = true;
      if (word != "all" && word != "-" && word != "small") row.allowed.insert(word);
    }
    rows[folder] = row;
  }
  const Row of_transports = rows["transports"];
  rows.erase("transports");
  for (const auto& entry : fs::directory_iterator(root))
    if (fs::exists(entry.path() / "network_kind.h")) rows[entry.path().filename()] = of_transports;
  return rows;
}

const std::map<std::string, Row>& rows() {
  static const std::map<std::string, Row> all = read_rows();
  return all;
}

/// Of folders.txt: who, and one of what it may include.
using Rule = std::pair<std::string, std::string>;

/// The folder of folders.txt that a path is in; empty: none.
std::string layer_of(const std::string& path) {
  if (path.rfind("ibcoll/", 0) == 0) return "include";
  for (fs::path folder = fs::path(path).parent_path(); !folder.empty();
       folder = folder.parent_path())
    if (rows().count(folder) > 0) return folder;
  return "";
}

/// What lets a file include a header of another layer, if anything.
std::optional<Rule> rule_for(const std::string& file, const std::string& header) {
  const std::string who = layer_of(file);
  const auto row = rows().find(who);
  if (row == rows().end()) return std::nullopt;
  for (const std::string& what : {header, layer_of(header)})
    if (row->second.allowed.count(what) > 0) return Rule(who, what);
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
    const std::string layer = layer_of(file);
    if (layer.empty()) {
      violations.push_back(file + " is in no folder of folders.txt");
      return;
    }
    std::smatch match;
    for (std::string line; std::getline(text, line);) {
      if (!std::regex_search(line, match, kInclude)) continue;
      const std::string header = match[2];
      if (match[1] == "<") {
        const auto wrong = system_violation(file, header);
        if (wrong && !rows().at(layer).all) violations.push_back(*wrong);
      } else if (layer == layer_of(header) || rows().at(layer).all) {
        continue;
      } else if (layer == "integrations/ucc" && !is_ours(header)) {
        continue;
      } else if (const auto rule = rule_for(file, header)) {
        used.insert(*rule);
      } else {
        violations.push_back(file + " includes " + header + ": " + layer + " must not know " +
                             layer_of(header));
      }
    }
  }
};

bool is_source(const fs::path& path) {
  const std::string extension = path.extension();
  return extension == ".h" || extension == ".c" || extension == ".cc" || extension == ".hpp";
}

/// Of all sources but those in folders of a build or of what manages the tree, such as .git: CMake
/// would compile them, whatever their folder is called.
Findings of_sources_in(const fs::path& root) {
  Findings findings;
  for (auto entry = fs::recursive_directory_iterator(root);
       entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string name = entry->path().filename();
    if (entry->is_directory() && entry.depth() == 0 &&
        (name.starts_with(".") || name.starts_with("build")))
      entry.disable_recursion_pending();
    if (!is_source(entry->path())) continue;
    std::ifstream text(entry->path());
    findings.look_into(fs::relative(entry->path(), root), text);
  }
  return findings;
}

Findings of_all_sources() { return of_sources_in(testing_tools::source_dir()); }

TEST(Layers, EveryIncludeKeepsTheRules) {
  const Findings findings = of_all_sources();
  EXPECT_THAT(findings.violations, IsEmpty());
  EXPECT_GT(findings.files, 50) << "no sources under " << testing_tools::source_dir();
}

bool is_transport(const std::string& folder) {
  return fs::exists(fs::path(testing_tools::source_dir()) / folder / "network_kind.h");
}

/// Whether a folder includes it, or another one that has the same row: all transports have.
bool is_used(const Findings& findings, const std::string& who, const std::string& what) {
  return std::ranges::any_of(findings.used, [&](const auto& use) {
    return use.second == what &&
           (use.first == who || (is_transport(who) && is_transport(use.first)));
  });
}

TEST(Layers, EveryRuleIsNeeded) {
  const Findings findings = of_all_sources();
  std::vector<std::string> unused;
  for (const auto& [who, row] : rows()) {
    if (!fs::exists(fs::path(testing_tools::source_dir()) / who))
      unused.push_back(who + " is not there");
    for (const std::string& what : row.allowed)
      if (!is_used(findings, who, what))
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

TEST(Layers, WhatIsNotInTheListIsFound) {
  const auto violations_of = [](const std::string& file, const std::string& header) {
    std::istringstream text("#include \"" + header + "\"\n");
    Findings findings;
    findings.look_into(file, text);
    return findings.violations;
  };
  EXPECT_THAT(violations_of("shm/heap.cc", "engine/core/context.h"),
              ElementsAre(HasSubstr("shm must not know engine/core")));
  EXPECT_THAT(violations_of("engine/core/call.cc", "studies/measure/traffic.h"),
              ElementsAre(HasSubstr("engine/core must not know studies/measure")));
  EXPECT_THAT(violations_of("engine/novelty/new.cc", "engine/base/units.h"),
              ElementsAre(HasSubstr("engine/novelty/new.cc is in no folder")));
  EXPECT_THAT(violations_of("novelty/new.cc", "engine/base/units.h"),
              ElementsAre(HasSubstr("novelty/new.cc is in no folder")));
}

/// The sources of a tree of its own.
class LayersOfATree : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "ibcoll-layers-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    tree_ = name;
  }
  void TearDown() override { fs::remove_all(tree_); }

  void add(const std::string& file, const std::string& header) const {
    fs::create_directories((tree_ / file).parent_path());
    std::ofstream(tree_ / file) << "#include \"" << header << "\"\n";
  }

  fs::path tree_;
};

TEST_F(LayersOfATree, NoFolderIsMissedForItsName) {
  for (const char* file : {"engine/core/data/x.cc", "engine/base/.own/y.cc", "shm/build/z.h"})
    add(file, "tools/frame/tool.h");
  for (const char* file : {"build/w.cc", "build-asan/engine/base/w.cc", ".git/w.cc"})
    add(file, "tools/frame/tool.h");
  const Findings findings = of_sources_in(tree_);
  EXPECT_THAT(findings.violations,
              UnorderedElementsAre(HasSubstr("engine/core/data/x.cc includes tools/frame/tool.h"),
                                   HasSubstr("engine/base/.own/y.cc includes"),
                                   HasSubstr("shm/build/z.h includes")));
  EXPECT_EQ(findings.files, 3);
}

/// What tests/count_includes.sh says of a tree.
testing_tools::CommandRan counted(const fs::path& root) {
  return testing_tools::run_command(testing_tools::source_dir() + "/tests/count_includes.sh " +
                                    root.string() + " 2>&1");
}

TEST(Layers, NoFilesIncludeEachOtherInACycle) {
  const auto ran = counted(testing_tools::source_dir());
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("\nincludes against folders.txt: 0\ncycles of folders: 0\n"));
  EXPECT_THAT(ran.out, HasSubstr(fmt::format("{} sources in {} folders ", of_all_sources().files,
                                             rows().size())));
}

TEST_F(LayersOfATree, TheCountOfIncludesNamesWhatIsWrong) {
  fs::copy(fs::path(testing_tools::source_dir()) / "folders.txt", tree_ / "folders.txt");
  add("include/ibcoll/calls.h", "ibcoll/ibcoll.h");
  add("include/ibcoll/ibcoll.h", "ibcoll/calls.h");
  add("engine/core/call.cc", "engine/core/call.h");
  add("engine/core/call.h", "engine/base/units.h");
  add("engine/core/missing.h", "engine/core/of_another_library.h");
  add("verbs/network_kind.h", "engine/transport/exchange.h");
  add("engine/transport/exchange.h", "engine/base/units.h");
  add("engine/base/units.h", "ibcoll/ibcoll.h");
  const auto breach = counted(tree_);
  EXPECT_EQ(breach.status, 1);
  EXPECT_THAT(breach.out, HasSubstr("8 sources in "));
  EXPECT_THAT(breach.out, HasSubstr(" include headers of the tree 7 times, 3 times of their own "
                                    "folder and 4 of others\n"));
  EXPECT_THAT(breach.out, ContainsRegex("\nengine/core +engine/base +1\n"));
  EXPECT_THAT(breach.out, ContainsRegex("\ntransport +engine +1\n"));
  EXPECT_THAT(breach.out, HasSubstr("\nincludes against folders.txt: 1\n"
                                    "  engine/base/units.h includes include/ibcoll/ibcoll.h\n"
                                    "cycles of folders: 0\ncycles of files: 1\n"));

  add("engine/base/units.h", "");
  EXPECT_EQ(counted(tree_).status, 0) << "the public headers may include each other";

  add("engine/base/units.h", "engine/base/rates.h");
  add("engine/base/rates.h", "engine/base/units.h");
  const auto cycle = counted(tree_);
  EXPECT_EQ(cycle.status, 1);
  EXPECT_THAT(cycle.out, HasSubstr("against folders.txt: 0\n"));
  EXPECT_THAT(cycle.out, HasSubstr("cycles of folders: 0\ncycles of files: 2\n"));
  EXPECT_THAT(cycle.out, ContainsRegex("\n  engine/base/(rates.h engine/base/units|units.h "
                                       "engine/base/rates).h\n"));

  add("engine/base/rates.h", "engine/core/call.h");
  const auto of_folders = counted(tree_);
  EXPECT_EQ(of_folders.status, 1);
  EXPECT_THAT(of_folders.out, HasSubstr("\nincludes against folders.txt: 1\n"));
  EXPECT_THAT(of_folders.out, HasSubstr("\ncycles of folders: 1\n"));
}

/// Whoever is included stands before whoever includes it, or nobody knows where to begin to read.
TEST(Layers, NoFolderKnowsOneThatKnowsIt) {
  std::set<std::string> done;
  for (bool more = true; more;) {
    more = false;
    for (const auto& [who, row] : rows()) {
      const bool ready = std::all_of(row.allowed.begin(), row.allowed.end(), [&](const auto& what) {
        return done.count(layer_of(what + "/")) > 0 || done.count(layer_of(what)) > 0;
      });
      if (ready) more |= done.insert(who).second;
    }
  }
  for (const auto& [who, row] : rows()) EXPECT_EQ(done.count(who), 1u) << who << " is in a cycle";
}

/// What a build has is for CMake to know, which chooses files, and for transports.
TEST(Layers, OnlyTransportsAskThePreprocessorWhatThereIs) {
  const fs::path root = testing_tools::source_dir();
  std::vector<std::string> found;
  for (const auto& [folder, row] : rows()) {
    if (fs::exists(root / folder / "network_kind.h")) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!is_source(entry.path())) continue;
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
  for (const auto& [who, row] : rows()) {
    if (who == "docs/examples") continue;
    expected[who == "include" ? "include/ibcoll" : who] =
        row.all ? "all" : short_names(row.allowed);
  }
  EXPECT_THAT(documented_layers(), ElementsAreArray(expected));
}

/// The overview of the code is to be read in one go; what parts are like stands on their pages.
TEST(Layers, TheOverviewIsShort) {
  std::ifstream text(fs::path(testing_tools::source_dir()) / "docs/architecture.md");
  int lines = 0;
  for (std::string line; std::getline(text, line);) ++lines;
  EXPECT_GT(lines, 0);
  EXPECT_LE(lines, 200);
}

}  // namespace
}  // namespace ibcoll
