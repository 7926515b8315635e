// Tables of the documentation that a tool makes: what stands there is what the tool says.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/copy.h"
#include "engine/base/input.h"
#include "engine/base/json.h"
#include "engine/base/json_lines.h"
#include "engine/base/units.h"
#include "engine/schedule/collective_traits.h"
#include "tests/places.h"
#include "tests/tool.h"

namespace ibcoll {
namespace {

using namespace testing_tools;

/// A count of `ib_sched verify --json`, and its column.
struct Count {
  const char* column;
  const char* field;
};
constexpr Count kCounts[] = {{"steps", "steps"},
                             {"messages", "net_messages_per_rank"},
                             {"blocks", "net_blocks_per_rank"},
                             {"tokens", "net_tokens_per_rank"},
                             {"local messages", "local_messages_per_rank"},
                             {"local blocks", "local_blocks_per_rank"},
                             {"copied", "copied_blocks_per_rank"},
                             {"combined", "combined_blocks_per_rank"},
                             {"scratch", "scratch_slots"}};

/// What the algorithms of a collective cost, by their names; empty if that can't be said.
std::map<std::string, std::string> counted(Collective collective) {
  std::string arguments =
      "verify --layout 24x8 --json - --collective " + std::string(to_string(collective));
  if (has_graph(collective)) arguments += " --graph grid:24x8";
  const Ran ran = run_tool("ib_sched", arguments);
  EXPECT_EQ(ran.status, 0) << ran.err;
  if (ran.status != 0) return {};
  std::map<std::string, std::string> rows;
  for (const nlohmann::json& line : json_lines(ran.out)) {
    std::string cells;
    for (const Count& count : kCounts)
      cells += fmt::format(" {} |", line.at(count.field).get<int64_t>());
    rows[line.at("algorithm")] = cells + (line.at("paced").get<bool>() ? " paced |" : " free |");
  }
  return rows;
}

/// One row for each algorithm of each collective. Of two collectives that differ in the lengths of
/// blocks alone the second one stands there where it costs something else than the first.
std::string counts_by_the_verifier() {
  std::string text = "| algorithm |";
  std::string line = "|---|";
  for (const Count& count : kCounts) {
    text += fmt::format(" {} |", count.column);
    line += "---|";
  }
  text += " pace |\n" + line + "---|\n";
  std::vector<std::pair<Collective, std::map<std::string, std::string>>> before;
  for (const Collective collective : kCollectives) {
    const auto rows = counted(collective);
    if (rows.empty()) return {};
    for (const auto& row : rows) {
      const bool told = std::any_of(before.begin(), before.end(), [&](const auto& other) {
        const auto same = other.second.find(row.first);
        const bool in_lengths =
            traits(collective).equal == other.first || traits(other.first).equal == collective;
        return in_lengths && same != other.second.end() && *same == row;
      });
      if (!told) text += fmt::format("| {} {} |{}\n", to_string(collective), row.first, row.second);
    }
    before.emplace_back(collective, rows);
  }
  return text;
}

/// The table that a script in perf/ makes of a section of a page; empty if it fails.
std::string made_by(const std::string& command, const std::string& section) {
  const Ran ran = run_shell(source_dir() + "/perf/" + command + " " + section);
  EXPECT_EQ(ran.status, 0) << ran.err;
  if (ran.status != 0) return {};
  std::istringstream lines(ran.out);
  std::string table;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("|")) table += line + "\n";
  return table;
}

/// A table on a page, between two comments that name it.
struct DocTable {
  const char* page;
  const char* name;
  std::function<std::string()> make;
  /// Columns by their headers, and rows by their first cells, that differ from one run to the next.
  std::vector<std::string> not_compared = {};
  /// Where `make` spends less time on those than the page says: what makes them all.
  std::function<std::string()> make_whole = {};
};

/// The cells of a row: `| a | b |` has "a" and "b".
std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  for (const std::string_view cell : split(row, '|')) {
    const size_t first = cell.find_first_not_of(' ');
    cells.emplace_back(first == std::string_view::npos
                           ? ""
                           : cell.substr(first, cell.find_last_not_of(' ') + 1 - first));
  }
  if (cells.size() < 2) return {};
  return {cells.begin() + 1, cells.end() - 1};
}

/// A table whose columns and rows of these names are empty.
std::string without(const std::vector<std::string>& names, const std::string& table) {
  const auto named = [&names](const std::string& cell) {
    return std::find(names.begin(), names.end(), cell) != names.end();
  };
  std::istringstream lines(table);
  std::string text;
  std::vector<std::string> header;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> cells = cells_of(line);
    const bool is_header = header.empty();
    if (is_header) header = cells;
    const bool whole_row = !cells.empty() && named(cells[0]);
    for (size_t i = 0; i < cells.size(); ++i) {
      const bool left_out = i < header.size() && !is_header && named(header[i]);
      text += (left_out || (whole_row && i > 0) ? "| " : "| " + cells[i] + " ");
    }
    text += "|\n";
  }
  return text;
}

void expect_current(const DocTable& table) {
  const std::string path = source_dir() + "/" + table.page;
  const auto page = read_input(path);
  ASSERT_TRUE(page) << page.error().message;
  const std::string begin = fmt::format(
      "<!-- table {}: made by `./run docs`; a test compares the two. -->\n\n", table.name);
  const std::string end = fmt::format("\n<!-- end of table {} -->\n", table.name);
  const size_t from = page->find(begin), to = page->find(end);
  ASSERT_TRUE(from != std::string::npos && to != std::string::npos && from < to)
      << table.page << " lacks the comments of table " << table.name;
  const size_t first = from + begin.size();
  const std::string made = table.make(), there = page->substr(first, to - first);
  ASSERT_NE(made, "") << "the table could not be made";
  const auto compared = [&table](const std::string& text) {
    return without(table.not_compared, text);
  };
  if (std::getenv("UPDATE_DOCS") == nullptr) {
    EXPECT_EQ(compared(there), compared(made)) << "make it anew with ./run docs";
  } else if (compared(there) != compared(made)) {
    const std::string whole = table.make_whole ? table.make_whole() : made;
    ASSERT_NE(whole, "") << "the table could not be made";
    ASSERT_TRUE(write_file(path, page->substr(0, first) + whole + page->substr(to)));
  }
}

/// UPDATE_DOCS=1 writes the table instead.
TEST(DocTables, FullCountsByTheVerifierAreCurrent) {
  expect_current({"docs/algorithms.md", "of counts", counts_by_the_verifier});
}

/// Planned and simulated times come from integer clocks, and are the same in each run.
void expect_sections_current(const char* page, const std::string& command,
                             const std::vector<const char*>& sections,
                             const std::vector<std::string>& not_compared = {}) {
  for (const char* section : sections) {
    SCOPED_TRACE(section);
    expect_current({page, section, [&] { return made_by(command, section); }, not_compared});
  }
}

TEST(DocTables, FullPlansAndTheirSimulationsAreCurrent) {
  const char* page = "docs/results/contention_free.md";
  const std::string command = "contention_free_page.sh " + bin_dir() + " " + folder().string();
  expect_sections_current(
      page, command,
      {"bound", "narrow", "clusters", "many", "ports", "closed", "policies", "relay"});
  expect_sections_current(page, command, {"direct", "cycles"}, {"plan ms"});
}

TEST(DocTables, FullPlansBesidePublishedOnesAreCurrent) {
  expect_sections_current("docs/results/synthesis.md",
                          "synthesis_page.sh " + bin_dir() + " " + folder().string(),
                          {"alltoall", "allgather", "grids"}, {"plan ms"});
}

TEST(DocTables, FullSimulatedMulticastsAreCurrent) {
  expect_sections_current("docs/results/multicast.md",
                          "multicast_page.sh " + bin_dir() + " " + folder().string(),
                          {"short", "long", "pieces", "network", "acks"});
}

TEST(DocTables, FullSimulatedAllToAllsAreCurrent) {
  expect_sections_current("docs/results/fabrics.md", "fabrics_page.sh " + bin_dir(),
                          {"switches", "steps", "servers", "modes", "sizes", "aggregation",
                           "pacing", "unequal", "arbiters", "trees", "levels", "causes"});
}

TEST(DocTables, FullPlansForManyHostsAndWithWrongInputsAreCurrent) {
  const char* page = "docs/results/contention_free.md";
  const std::string command = "contention_free_page.sh " + bin_dir() + " " + folder().string();
  expect_sections_current(page, command, {"wrong_gather"});
  expect_sections_current(page, command, {"planning", "large"},
                          {"first / second plan, ms", "plan ms"});
}

TEST(DocTables, FullSchedulesOfTaskGraphsAreCurrent) {
  expect_sections_current("docs/results/sppc.md", "sppc_page.sh " + bin_dir(),
                          {"reading_a", "reading_b", "lu", "usage", "unpackaged", "two"});
}

TEST(DocTables, FullTimedSchedulesOfTaskGraphsAreCurrent) {
  expect_sections_current("docs/results/sppc.md", "sppc_page.sh " + bin_dir(),
                          {"large", "workflows"}, {"CPU s / peak MiB", "sppc+, CPU s"});
}

TEST(DocTables, FullSimulatedAlgorithmsAreCurrent) {
  expect_sections_current("docs/algorithms.md", "algorithms_page.sh " + bin_dir(),
                          {"neighbours", "allreduce"});
}

TEST(DocTables, FullMemoryOfLargeJobsIsCurrent) {
  if (last_level_cache_bytes() < (size_t{32} << 20) || sysconf(_SC_PAGESIZE) != 4096)
    GTEST_SKIP() << "the figures are those of other caches and pages";
  expect_sections_current("docs/scale.md", "scale_page.sh " + bin_dir(), {"large"});
}

/// What a search finds depends on the time that it has: only methods without one, bounds and what
/// is read off the traffic's pattern are compared.
TEST(DocTables, FullPlacementsAreCurrent) {
  const std::vector<std::pair<const char*, std::vector<std::string>>> sections = {
      {"bruck", {"refine, largest link", "seconds, ours"}},
      {"cg", {"refine, hop-bytes", "refine, largest link"}},
      {"sp", {"refine, hop-bytes", "refine, largest link"}},
      {"stencils", {"hop x MB: Scotch", "largest link MB: Scotch"}},
      {"hops", {"Scotch", "refine", "refine / bound"}},
      {"links", {"Scotch", "refine", "refine / bound"}},
      {"folds", {"refine"}},
  };
  for (const auto& [section, not_compared] : sections) {
    SCOPED_TRACE(section);
    const auto make = [section = section](const std::string& options) {
      return made_by("mapping_page.sh " + options + bin_dir(), section);
    };
    expect_current({"docs/results/mapping.md", section, [&] { return make("--budget 10ms "); },
                    not_compared, [&] { return make(""); }});
  }
}

}  // namespace
}  // namespace ibcoll
