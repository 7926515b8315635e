// Tables of comparisons on a page, machine beside machine.

#include "perf/compare/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>

#include "tests/perf/table_lines.h"
#include "tests/perf/whole_tables.h"

namespace ibcoll::compare {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void expect_lines(const std::string& text, std::initializer_list<const char*> lines) {
  for (const char* line : lines) EXPECT_THAT(text, HasSubstr(line));
}

TEST(Page, HasTheMachineMeansAndEveryCell) {
  const std::string text =
      page({tables(std::string(kMachine) + kCosts + kState + kCell + kSlowCell + kVerdict)});
  expect_lines(
      text, {
                "| processor | Fast One |\n",
                "| cores that ranks may use | 4 |\n",
                "| caches | L1d 32K, L2 1M |\n",
                "| `round_trip_ns`, near: a line to the other core and one back | 120 |\n",
                "| `copy_ns`: copying inside a core's own caches | 70.0, 350, 1440 |\n",
                "| load average before, during, after | 0.5, -, - |\n",
                "| processor time of others before, during, after, % | 1.2, -, - |\n",
                "| at worst during | - |\n",
                "## Private memory\n",
                "| bcast | 1.50x | - | 1.50x | 1.50x (2 ranks, 1K) | 0 (0) | - |\n",
                "| scan | - | 0.50x | 0.50x | 0.50x (8 ranks, 256K) | 1 (1) | 25 % |\n",
                "| all | 1.50x | 0.50x | 0.87x | 0.50x (8 ranks, 256K) | 1 (1) | 25 % |\n",
                "| others may have had, % of the processor time | 12.5 |\n",
                "| cells slower than allowed | 1 |\n",
                "| geometric mean, all: at least 1.40x | - |\n",
                "| bcast: bytes | 2 ranks | 8 ranks |\n",
                "| 1K | 3.00 / 2.00 = 1.50x (1.25 to 1.75) | - |\n",
                "| 256K | - | 10.0 / 20.0 = 0.50x (0.25 to 0.75) ! again 0.62x (0.50 to 0.75) |\n",
            });
  EXPECT_THAT(text, Not(HasSubstr("engine's memory")));
}

TEST(Page, SaysWhatWasDisturbedMost) {
  const std::string during =
      R"({"kind":"machine_state","when":"during","load_average":[0,0,0],"others_percent":1,)"
      R"("steal_percent":0,"worst":{"of":"scan, 8 ranks","others_percent":9,"steal_percent":0.5}})"
      "\n";
  expect_lines(page({tables(std::string(kMachine) + kState + during + kCell)}),
               {"| at worst during | others 9.0 %, steal 0.5 % (scan, 8 ranks) |\n"});
}

TEST(Page, ABarInATextEndsNoCell) {
  const Tables one = tables(
      std::string(R"({"kind":"machine","processor":"A|B||C","caches":[{"name":"L|","bytes":1024}]})"
                  "\n") +
      kCell);
  expect_lines(page({one}), {R"(| processor | A\|B\|\|C |)"
                             "\n",
                             R"(| caches | L\| 1K |)"
                             "\n"});
}

TEST(Page, SaysWhetherCallsFollowedBarriers) {
  const Tables back_to_back = tables(kCell), after = tables(after_barrier(kCell));
  EXPECT_FALSE(back_to_back.after_barrier);
  EXPECT_TRUE(after.after_barrier);
  EXPECT_THAT(page({after}), HasSubstr("| calls are timed | after a barrier, mean over ranks |\n"));
  EXPECT_THAT(page({tables(std::string(kMachine) + kCell), after}),
              HasSubstr("| calls are timed | back to back | after a barrier, mean over ranks |\n"));
}

TEST(Page, PutsMachinesSideBySide) {
  std::string other = kCell;
  other.replace(other.find("2.0"), 3, "8.0");
  const std::string text = page({tables(std::string(kMachine) + kCell), tables(other)});
  expect_lines(
      text,
      {
          "| machine | A | B |\n|---|---|---|\n",
          "| processor | Fast One | - |\n",
          "| collective | 2 ranks, A | 2 ranks, B | all, A | all, B |",
          "| bcast: bytes | 2 ranks, A | 2 ranks, B |\n|---|---|---|\n",
          "| 1K | 3.00 / 2.00 = 1.50x (1.25 to 1.75) | 12.0 / 8.00 = 1.50x (1.25 to 1.75) |\n",
      });
  EXPECT_THAT(text, Not(HasSubstr("verdict")));
}

TEST(Page, HasEveryCellOfWholeTables) {
  Tables whole;
  whole.machine["usable_cores"] = 2;
  whole.judged = true;
  whole.cells = whole_tables(5, 2);
  const std::string text = page({whole});
  size_t found = 0;
  for (size_t at = text.find(" = 2.00x "); at != std::string::npos;
       at = text.find(" = 2.00x ", at + 1))
    ++found;
  EXPECT_EQ(found, whole.cells.size());
  EXPECT_THAT(text, HasSubstr("| geometric mean, all: at least 1.90x | 2.00x |\n"));
  EXPECT_LT(text.find("## Private memory"), text.find("## The engine's memory"));
}

}  // namespace
}  // namespace ibcoll::compare
