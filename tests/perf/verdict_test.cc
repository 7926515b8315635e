// What is slower than allowed: single cells, by how long they take and who shares a core, and
// geometric means.

#include "perf/compare/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perf/compare/cells.h"
#include "tests/perf/whole_tables.h"

namespace ibcoll::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kCores = 4;

Cell bcast(int ranks, double ours_us, double faster) {
  return cell(CONTEST_BCAST, ranks, 64, true, ours_us, faster);
}

TEST(Limits, GoByTimeAndCores) {
  EXPECT_EQ(least_faster(bcast(2, 0.99, 1), kCores), 0.8);
  EXPECT_EQ(least_faster(bcast(8, 0.99, 1), kCores), 0.8);
  EXPECT_EQ(least_faster(bcast(2, 1, 1), kCores), 0.95);
  EXPECT_EQ(least_faster(bcast(4, 1, 1), kCores), 0.95);
  EXPECT_EQ(least_faster(bcast(8, 1, 1), kCores), 0.90);
  EXPECT_EQ(least_faster(bcast(8, 1, 1), 8), 0.95);
}

TEST(Limits, ACellOnItsLimitIsFastEnough) {
  EXPECT_FALSE(seems_slow(bcast(2, 1, 0.95), kCores));
  EXPECT_TRUE(seems_slow(bcast(2, 1, 0.949), kCores));
  EXPECT_FALSE(seems_slow(bcast(8, 1, 0.90), kCores));
  EXPECT_TRUE(seems_slow(bcast(8, 1, 0.899), kCores));
  EXPECT_FALSE(seems_slow(bcast(2, 0.5, 0.8), kCores));
  EXPECT_TRUE(seems_slow(bcast(2, 0.5, 0.799), kCores));
}

TEST(Limits, TheMedianOfTheRoundsCounts) {
  Cell one = bcast(2, 1, 0.5);
  one.of_rounds = 0.96;
  EXPECT_FALSE(seems_slow(one, kCores));
}

TEST(Limits, SlowIsWhatIsSoAgain) {
  Cell one = bcast(2, 5, 0.9);
  EXPECT_FALSE(is_slow(one, kCores));
  one.again = {0.9, 0.85, 0.949};
  EXPECT_TRUE(is_slow(one, kCores));
  one.again->high = 0.95;
  EXPECT_FALSE(is_slow(one, kCores));
  // Nor is one that the second measurement alone calls so.
  Cell other = bcast(2, 5, 1);
  other.again = {0.5, 0.5, 0.5};
  EXPECT_FALSE(is_slow(other, kCores));
}

TEST(Speedup, IsOverTheMpiWhoseRoundsAreFaster) {
  const Rounds slow = {{40}, {20}, {30}}, fast = {{30}, {18}, {24}}, ours = {{10}, {9}, {12}};
  const Interval interval = speedup_over_fastest({&slow, &fast}, ours);
  EXPECT_EQ(interval.value, 2);
  EXPECT_EQ(interval.low, 2);
  EXPECT_EQ(interval.high, 3);
  EXPECT_EQ(speedup(slow, ours).value, 2.5);
}

TEST(Marks, TellWhatWasMeasuredAgainFromWhatIsSlow) {
  EXPECT_EQ(mark(false, false), ' ');
  EXPECT_EQ(mark(true, false), '?');
  EXPECT_EQ(mark(true, true), '!');
}

TEST(Verdict, WholeTablesThatAreFastPass) {
  const Verdict verdict = judge(whole_tables(5, 2), kCores);
  EXPECT_TRUE(verdict.passes()) << verdict_text(verdict, kCores);
  // All and, of 1 us and more, more ranks than cores; no call is shorter.
  EXPECT_EQ(verdict.means.size(), 4u);
  EXPECT_EQ(verdict.cells, whole_tables(5, 2).size());
}

TEST(Verdict, ASlowCellIsNamed) {
  std::vector<Cell> cells = whole_tables(5, 2);
  for (Cell& one : cells) {
    if (one.collective == CONTEST_SCAN && one.ranks == 4 && one.bytes == 1024 &&
        !one.private_memory) {
      one = cell(CONTEST_SCAN, 4, 1024, false, 5, 0.7);
      one.again = {0.71, 0.7, 0.72};
    }
  }
  const Verdict verdict = judge(cells, kCores);
  EXPECT_FALSE(verdict.passes());
  ASSERT_EQ(verdict.slow.size(), 1u);
  EXPECT_EQ(name_of(verdict.slow[0]), "scan, 4 ranks, 1K, the engine's memory");
  EXPECT_EQ(verdict.again, 1u);
  EXPECT_THAT(verdict_text(verdict, kCores),
              HasSubstr("slow: scan, 4 ranks, 1K, the engine's memory: 0.70x, again 0.71x "
                        "(0.70-0.72), at least 0.95x"));
  EXPECT_EQ(verdict_line(verdict, 10)["slow"][0]["collective"], "scan");
  EXPECT_EQ(verdict_line(verdict, 10)["passes"], false);
  EXPECT_EQ(verdict_line(verdict, 12.5)["most_load"], 12.5);
}

std::vector<std::string> failing_means(const Verdict& verdict) {
  std::vector<std::string> names;
  for (const Mean& mean : verdict.means)
    if (mean.fails())
      names.push_back(std::string(memory_member(mean.private_memory)) + ": " + mean.limit.of);
  return names;
}

TEST(Verdict, MeansHaveALimitForEachMemory) {
  EXPECT_THAT(failing_means(judge(whole_tables(5, 1.95), kCores)), ElementsAre());
  EXPECT_THAT(failing_means(judge(whole_tables(5, 1.89), kCores)), ElementsAre("engine: all"));
  EXPECT_THAT(failing_means(judge(whole_tables(5, 1.39), kCores)),
              ElementsAre("user: all", "engine: all"));
}

TEST(Verdict, ShortCallsHaveAMeanOfTheirOwn) {
  std::vector<Cell> cells = whole_tables(5, 4);
  for (Cell& one : cells)
    if (one.ranks == 2 && one.private_memory)
      one = cell(one.collective, 2, one.bytes, true, 0.5, 0.9);
  const Verdict verdict = judge(cells, kCores);
  EXPECT_TRUE(verdict.slow.empty());
  EXPECT_THAT(failing_means(verdict), ElementsAre("user: calls of less than 1 us"));
}

TEST(Verdict, SoHaveCallsWithMoreRanksThanCores) {
  std::vector<Cell> cells = whole_tables(5, 6);
  for (Cell& one : cells)
    if (one.ranks == 8) one = cell(one.collective, 8, one.bytes, one.private_memory, 5, 0.93);
  EXPECT_THAT(failing_means(judge(cells, kCores)),
              ElementsAre("user: calls of 1 us and more, more ranks than cores",
                          "engine: calls of 1 us and more, more ranks than cores"));
  // On eight cores they are below the limit of single cells, and in no such mean.
  EXPECT_THAT(failing_means(judge(cells, 8)), ElementsAre());
  EXPECT_TRUE(seems_slow(cells.back(), 8));
}

TEST(Verdict, MeansOfPartsAreNotJudged) {
  std::vector<Cell> cells = whole_tables(5, 1);
  ASSERT_TRUE(is_whole(cells, true) && is_whole(cells, false));
  cells.pop_back();
  EXPECT_FALSE(is_whole(cells, false));
  EXPECT_THAT(failing_means(judge(cells, kCores)), ElementsAre("user: all"));
}

TEST(Verdict, MeansCountNothingBesideTheWholeTable) {
  std::vector<Cell> cells = whole_tables(5, 1.39);
  for (int i = 0; i < 1000; ++i) cells.push_back(cell(CONTEST_BCAST, 2, 3 + 2 * i, true, 5, 100));
  const Verdict verdict = judge(cells, kCores);
  EXPECT_THAT(failing_means(verdict), ElementsAre("user: all", "engine: all"));
  EXPECT_EQ(2 * verdict.means[0].cells, whole_tables(5, 1).size());
}

Tables tables_of(std::vector<Cell> cells) {
  Tables tables;
  tables.machine["usable_cores"] = kCores;
  tables.states = {{"before", {}, 1.0, 0.0}, {"during", {}, 2.0, 0.0}, {"after", {}, 99.0, 99.0}};
  tables.cells = std::move(cells);
  return tables;
}

TEST(WhyNotToJudge, TheMachineWasBusyOrNobodyKnows) {
  const Tables good = tables_of({bcast(2, 5, 2)});
  EXPECT_EQ(why_not_to_judge(good, 10), std::nullopt);  // what comes after is no matter
  for (const size_t state : {0, 1}) {
    Tables busy = good;
    busy.states[state].others = 11;
    EXPECT_THAT(why_not_to_judge(busy, 10).value_or(""), HasSubstr("others had 11.0 %"));
    EXPECT_EQ(why_not_to_judge(busy, 20), std::nullopt);
    Tables stolen = good;
    stolen.states[state].steal = 11;
    EXPECT_THAT(why_not_to_judge(stolen, 10).value_or(""), HasSubstr("stole 11.0 %"));
    Tables unknown = good;
    unknown.states.erase(unknown.states.begin() + static_cast<std::ptrdiff_t>(state));
    EXPECT_THAT(why_not_to_judge(unknown, 10).value_or(""), HasSubstr("is not known"));
  }
  Tables no_machine = good;
  no_machine.machine = nlohmann::ordered_json::object();
  EXPECT_THAT(why_not_to_judge(no_machine, 10).value_or(""), HasSubstr("cores"));
}

TEST(WhyNotToJudge, CallsFollowedBarriers) {
  Tables tables = tables_of({bcast(2, 5, 2)});
  tables.after_barrier = true;
  EXPECT_THAT(why_not_to_judge(tables, 100).value_or(""), HasSubstr("barriers"));
}

TEST(WhyNotToJudge, WhatSeemsSlowWasNotMeasuredAgain) {
  Tables tables = tables_of({bcast(2, 5, 0.5)});
  EXPECT_EQ(why_not_to_judge(tables, 10),
            "bcast, 2 ranks, 64, private memory seems slow and was not measured again");
  tables.cells[0].again = {0.5, 0.4, 0.6};
  EXPECT_EQ(why_not_to_judge(tables, 10), std::nullopt);
}

}  // namespace
}  // namespace ibcoll::compare
