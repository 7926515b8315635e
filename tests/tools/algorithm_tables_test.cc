// The tables of pages for people that list all algorithms: they list those of the registry.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/base/input.h"
#include "engine/base/units.h"
#include "engine/schedule/collective.h"
#include "engine/schedule/layout.h"
#include "engine/tuner/choose.h"
#include "tests/places.h"

namespace ibcoll {
namespace {

using namespace testing_tools;

/// Collectives with their algorithms.
using Listed = std::set<std::pair<std::string, std::string>>;

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

/// "scatter(v), bcast" are scatter, scatterv and bcast.
std::vector<std::string> collectives_of(std::string_view cell) {
  std::vector<std::string> all;
  while (!cell.empty()) {
    const size_t end = std::min(cell.find_first_of(",("), cell.size());
    const std::string name(trimmed(cell.substr(0, end)));
    if (!name.empty()) all.push_back(name);
    const bool has_endings = end < cell.size() && cell[end] == '(';
    cell.remove_prefix(std::min(end + 1, cell.size()));
    if (!has_endings) continue;
    const size_t close = std::min(cell.find(')'), cell.size());
    for (const std::string_view ending : split(cell.substr(0, close), ','))
      all.push_back(name + std::string(trimmed(ending)));
    cell.remove_prefix(std::min(close + 1, cell.size()));
  }
  return all;
}

/// What stands between backticks.
std::vector<std::string> names_in(std::string_view cell) {
  std::vector<std::string> all;
  const std::vector<std::string_view> parts = split(cell, '`');
  for (size_t i = 1; i < parts.size(); i += 2) all.emplace_back(parts[i]);
  return all;
}

/// The first table behind that heading: in its first column collectives, those of the row above
/// where it is empty, in its second one algorithms.
Listed listed(const std::string& page, const std::string& heading) {
  const auto text = read_input(source_dir() + "/" + page);
  EXPECT_TRUE(text) << page;
  if (!text) return {};
  const size_t from = text->find("\n" + heading + "\n");
  EXPECT_NE(from, std::string::npos) << page << " has no " << heading;
  if (from == std::string::npos) return {};
  Listed all;
  std::vector<std::string> collectives;
  std::istringstream lines(text->substr(from + 1));
  bool in_rows = false;
  for (std::string line; std::getline(lines, line) && (!in_rows || line.starts_with("|"));) {
    if (line.starts_with("|---")) in_rows = true;
    const std::vector<std::string_view> cells = split(line, '|');
    if (!in_rows || cells.size() < 3) continue;
    if (!trimmed(cells[1]).empty()) collectives = collectives_of(cells[1]);
    for (const std::string& collective : collectives)
      for (const std::string& name : names_in(cells[2])) all.emplace(collective, name);
  }
  return all;
}

Listed registered() {
  Listed all;
  for (const Algorithm& algorithm : algorithms())
    all.emplace(to_string(algorithm.collective), algorithm.name);
  return all;
}

TEST(AlgorithmTables, OfTheOverviewListAll) {
  EXPECT_EQ(listed("docs/algorithms.md", "## Overview"), registered());
}

TEST(AlgorithmTables, OfTheReadmeListAll) {
  EXPECT_EQ(listed("README.md", "## Collectives and algorithms"), registered());
}

/// For which sizes a rank of that shape spares messages by contention_free, as the page puts it.
std::string sizes_of_contention_free(Collective collective, const Shape& shape) {
  constexpr int64_t kLeast = 8, kMost = int64_t{64} << 20;
  int64_t first = -1, last = -1;
  for (int64_t bytes = kLeast; bytes <= kMost; bytes *= 2) {
    const CallFacts facts{
        .collective = collective, .shape = shape, .block_bytes = bytes, .costs_cores = true};
    if (choose(facts).algorithm != "contention_free") continue;
    if (first < 0) first = bytes;
    last = bytes;
  }
  const auto text = [](int64_t bytes) {
    return bytes >= 1 << 20 ? fmt::format("{} MB", bytes >> 20) : fmt::format("{} KB", bytes >> 10);
  };
  if (first < 0) return "never";
  return first == kLeast ? "up to " + text(last)
                         : fmt::format("from {} to {}", text(first), text(last));
}

TEST(AlgorithmTables, OfUcxSayWhatSparesMessages) {
  const auto page = read_input(source_dir() + "/docs/ucx.md");
  ASSERT_TRUE(page);
  for (const auto& [ranks, layout] : {std::pair("three or more", "4x3"), {"two", "4x2"}}) {
    const Shape shape = parse_layout(layout).value();
    std::string row = fmt::format("\n| {} |", ranks);
    for (const Collective collective :
         {Collective::kAlltoall, Collective::kAllgather, Collective::kAllreduce})
      row += fmt::format(" {} |", sizes_of_contention_free(collective, shape));
    EXPECT_NE(page->find(row + "\n"), std::string::npos) << "not in docs/ucx.md:" << row;
  }
}

}  // namespace
}  // namespace ibcoll
