// Tables of comparisons, read from JSON.

#include "perf/compare/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/perf/table_lines.h"

namespace ibcoll::compare {
namespace {

using ::testing::HasSubstr;

TEST(ParseTables, TakesWhatAComparisonWrites) {
  const Tables all =
      tables(std::string(kMachine) + kCosts + kState + kCell + kSlowCell + kRest + kVerdict);
  EXPECT_EQ(all.cores(), 4);
  ASSERT_TRUE(all.costs);
  EXPECT_EQ(all.costs->pair(Distance::kNear)->round_trip, 120.5);
  ASSERT_NE(all.state("before"), nullptr);
  EXPECT_EQ(all.state("before")->others, 1.25);
  EXPECT_EQ(all.state("during"), nullptr);
  EXPECT_TRUE(all.judged);
  EXPECT_EQ(all.most_load, 12.5);
  ASSERT_EQ(all.cells.size(), 2u);  // neither means nor what had no MPI beside it
  EXPECT_EQ(name_of(all.cells[0]), "bcast, 2 ranks, 1K, private memory");
  EXPECT_EQ(all.cells[0].theirs_us(), 3);
  EXPECT_EQ(all.cells[0].of_rounds, 1.625);
  EXPECT_FALSE(all.cells[0].again);
  ASSERT_TRUE(all.cells[1].again);
  EXPECT_EQ(all.cells[1].again->high, 0.75);
}

/// A line of which one part is another.
std::string changed(std::string line, std::string_view part, std::string_view other) {
  return line.replace(line.find(part), part.size(), other);
}

TEST(ParseTables, WhatIsWrongIsNamedWithItsLine) {
  const std::pair<std::string, const char*> wrong[] = {
      {"", "no cell"},
      {kMachine, "no cell"},
      {"text\n", "line 1: "},
      {std::string(kCell) + "[1]\n", "line 2: it is no object"},
      {R"({"kind":"setting"})", "line 1: it is no line of compare_mpi --json"},
      {R"({"collective":"dance","speedup":1})", "'collective' names none"},
      {R"({"collective":"bcast","ranks":0,"bytes_per_pair":8,"speedup":1})", "'ranks'"},
      {R"({"collective":"bcast","ranks":2,"bytes_per_pair":-8,"speedup":1})", "'bytes_per_pair'"},
      {R"({"collective":"bcast","ranks":2,"bytes_per_pair":8,"speedup":1})", "'memory'"},
      {R"({"kind":"machine_state"})", "'when'"},
      {R"({"kind":"verdict","most_load":"much"})", "'most_load'"},
      {std::string(kCell) + "\n" + R"({"kind":"machine_costs"})", "line 3: 'bytes' is not"},
      {std::string(kCell) + after_barrier(kSlowCell), "line 2: only some calls followed a barrier"},
      {after_barrier(kSlowCell) + kCell, "line 2: only some calls followed a barrier"},
      {R"({"collective":"bcast","ranks":2,"bytes_per_pair":8,"memory":"user","ibcoll_us":1,)"
       R"("speedup":1,"speedup_low":1,"speedup_high":1,"after_barrier":1})",
       "'after_barrier'"},
      {changed(kMachine, R"("usable_cores":4)", R"("usable_cores":0)"), "'usable_cores'"},
      {changed(kMachine, R"("usable_cores":4)", R"("usable_cores":3.5)"), "'usable_cores'"},
      {changed(kMachine, R"("usable_cores":4)", R"("usable_cores":1000000)"), "'usable_cores'"},
      {changed(kMachine, "32768", "0"), "'bytes'"},
      {changed(kMachine, "32768", "18446744073709551615"), "'bytes'"},
      {changed(kMachine, R"("caches")", R"("caches":4,"levels")"), "'caches'"},
      {changed(kCell, R"("ranks":2)", R"("ranks":2.5)"), "'ranks'"},
      {changed(kCell, R"("ranks":2)", R"("ranks":1000000)"), "'ranks'"},
      {changed(kCell, "1024", "1024.5"), "'bytes_per_pair'"},
      {changed(kCell, R"("ibcoll_us":2.0)", R"("ibcoll_us":0)"), "'ibcoll_us' is not above 0"},
      {changed(kCell, R"("speedup":1.5)", R"("speedup":0)"), "'speedup' is not above 0"},
      {changed(kState, "1.25", "125"), "'others_percent'"},
      {changed(kVerdict, "12.5", "101"), "'most_load'"},
      {std::string(kMachine) + kCell + kMachine, "line 3: a second machine"},
      {std::string(kState) + kCell + kState, "line 3: a second state 'before'"},
      {std::string(kCell) + kSlowCell + kCell,
       "line 3: a second cell of bcast, 2 ranks, 1K, private memory"},
  };
  for (const auto& [text, what] : wrong) {
    const Result<Tables> parsed = parse_tables(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInput) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr(what)) << text;
  }
}

}  // namespace
}  // namespace ibcoll::compare
