// Who may include whom (docs/architecture.md): layers that must not know each other stay apart.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace ibcoll {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// What each layer may include besides itself: other layers, or single headers of them.
const std::map<std::string, std::set<std::string>> kAllowed = {
    // ibcoll_engine
    {"include", {}},
    {"engine/base", {}},
    {"engine/schedule", {"engine/base"}},
    {"engine/algorithms", {"engine/base", "engine/schedule"}},
    {"engine/bootstrap", {"engine/base", "engine/schedule"}},
    {"engine/tuner", {"engine/schedule"}},
    {"engine/transport",
     {"engine/base", "engine/schedule", "engine/bootstrap", "verbs/network_kind.h"}},
    {"engine/execute", {"engine/base", "engine/schedule", "engine/bootstrap", "engine/transport"}},
    {"topology", {"engine/base"}},
    {"engine/planner", {"engine/base", "engine/schedule", "topology"}},
    {"shm", {"engine/base", "engine/bootstrap", "engine/transport/transport.h"}},
    {"verbs",
     {"engine/base", "engine/schedule", "engine/bootstrap", "engine/transport/network_kind.h",
      "engine/transport/transport.h"}},
    {"ucx", {"engine/base", "engine/schedule", "engine/bootstrap", "engine/transport/transport.h"}},
    {"engine/core",
     {"include", "engine/base", "engine/schedule", "engine/algorithms", "engine/bootstrap",
      "engine/tuner", "engine/transport", "engine/execute", "topology", "engine/planner", "shm"}},
    // ibcoll_studies
    {"topology/mapping", {"engine/base", "topology"}},
    {"engine/simulate",
     {"engine/base", "engine/schedule", "engine/algorithms", "engine/planner", "topology",
      "topology/mapping"}},
    {"engine/verification",
     {"engine/base", "engine/schedule", "engine/algorithms", "engine/planner", "topology"}},
    {"engine/task_graph", {"engine/base", "engine/bootstrap", "engine/transport", "shm"}},
    {"engine/measure",
     {"engine/base", "engine/schedule", "engine/algorithms", "engine/bootstrap", "engine/core"}},
};

/// The layer of a path: its first folder, two of them inside engine/.
std::string layer_of(const std::string& path) {
  const size_t first = path.find('/');
  if (path.rfind("topology/mapping/", 0) == 0) return "topology/mapping";
  if (path.rfind("engine/", 0) != 0) return path.substr(0, first);
  return path.substr(0, path.find('/', first + 1));
}

/// What is wrong with a file of the given layer that includes `header`, if anything.
std::optional<std::string> violation(const std::string& file, const std::string& header,
                                     bool system) {
  const std::string from = layer_of(file);
  if (system) {
    if (header.rfind("infiniband/verbs", 0) == 0 && from != "verbs") {
      return file + ": libibverbs is for verbs/ only";
    }
    // Its default logger writes to standard output, past IBCOLL_LOG_LEVEL.
    if (header.rfind("spdlog/", 0) == 0 && file != "engine/base/log.cc") {
      return file + ": messages go through engine/base/log.h, not spdlog";
    }
    if (header.rfind("ucp/", 0) == 0 && from != "ucx") return file + ": UCP is for ucx/ only";
    return std::nullopt;
  }
  const std::string to = header.rfind("ibcoll/", 0) == 0 ? "include" : layer_of(header);
  if (from == to) return std::nullopt;
  const auto allowed = kAllowed.find(from);
  if (allowed == kAllowed.end()) return file + ": no rule for the layer " + from;
  if (allowed->second.count(to) > 0 || allowed->second.count(header) > 0) return std::nullopt;
  return file + " includes " + header + ": " + from + " must not know " + to;
}

std::vector<std::string> violations_in(const std::string& file, std::istream& text) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*(["<])([^">]+)[">])");
  std::vector<std::string> found;
  std::smatch match;
  for (std::string line; std::getline(text, line);) {
    if (!std::regex_search(line, match, kInclude)) continue;
    if (const auto wrong = violation(file, match[2], match[1] == "<")) found.push_back(*wrong);
  }
  return found;
}

TEST(Layers, EveryIncludeKeepsTheRules) {
  const fs::path root = IBCOLL_SOURCE_DIR;
  std::vector<std::string> found;
  int files = 0;
  for (const char* folder : {"engine", "shm", "verbs", "ucx", "topology", "include"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".hpp") continue;
      std::ifstream text(entry.path());
      for (auto& wrong : violations_in(fs::relative(entry.path(), root), text)) {
        found.push_back(std::move(wrong));
      }
      ++files;
    }
  }
  EXPECT_THAT(found, IsEmpty());
  EXPECT_GT(files, 50) << "no sources under " << root;
}

TEST(Layers, BreachesAreFound) {
  std::istringstream text(
      "#include \"engine/base/units.h\"\n"
      "#include \"shm/heap.h\"\n"
      "  # include <infiniband/verbs.h>\n"
      "#include <spdlog/spdlog.h>\n"
      "#include \"engine/transport/transport.h\"\n"
      "#include \"engine/execute/executor.h\"\n");
  EXPECT_THAT(violations_in("ucx/transport.cc", text),
              ElementsAre(HasSubstr("ucx must not know shm"), HasSubstr("libibverbs"),
                          HasSubstr("log.h"), HasSubstr("executor.h")));
}

}  // namespace
}  // namespace ibcoll
