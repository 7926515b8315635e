/// Schedules without costs of messages: the bound, the search, and published optima.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "studies/task_graph/formats.h"
#include "studies/task_graph/free_messages.h"
#include "studies/task_graph/generators.h"
#include "studies/task_graph/known_optima.h"
#include "tests/places.h"

namespace ibcoll::task_graph {
namespace {

using ::testing::HasSubstr;

const std::string kGraphs = testing_tools::source_dir() + "/docs/results/data/task_graphs";

std::vector<KnownOptimum> published() {
  std::ifstream in(kGraphs + "/optima.csv");
  return read_optima(in).value();
}

TEST(FreeMessages, NoScheduleIsShorterThanTheBound) {
  const Scheduler& optimal = *find_scheduler("optimal").value();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const TaskGraph graph = random_graph(7, 0.3, 9, seed);
    for (const int processors : {1, 2, 3}) {
      const auto best = schedule(optimal, graph, LogP{}, processors);
      ASSERT_TRUE(best.has_value());
      EXPECT_LE(shortest_possible(graph, processors), makespan(graph, *best)) << seed;
    }
  }
}

TEST(FreeMessages, TheBoundCountsWhatMustComeBeforeAndAfter) {
  // Path and work alone say 5; but three tasks of 3 on two processors, between one and one, need
  // (1 + 1 + 9 + 1 + 1) / 2, rounded up.
  const TaskGraph graph =
      TaskGraph::create({1, 3, 3, 3, 1}, {{0, 1}, {0, 2}, {0, 3}, {1, 4}, {2, 4}, {3, 4}}).value();
  EXPECT_EQ(critical_path(graph), 5);
  EXPECT_EQ(shortest_possible(graph, 2), 7);
}

TEST(FreeMessages, TheSearchFindsTheOptimumOfSmallGraphs) {
  const Scheduler& optimal = *find_scheduler("optimal").value();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const TaskGraph graph = random_graph(8, 0.25, 9, seed);
    const auto best = schedule(optimal, graph, LogP{}, 2);
    ASSERT_TRUE(best.has_value());
    const TaskSchedule found =
        schedule_at(graph, LogP{}, 2, search_starts(graph, 2, 100'000, /*seed=*/1));
    EXPECT_TRUE(check(graph, found).has_value());
    EXPECT_EQ(makespan(graph, found), makespan(graph, *best)) << seed;
  }
}

TEST(FreeMessages, TheSearchIsDeterministicForASeed) {
  const TaskGraph graph = random_graph(60, 0.05, 20, 3);
  EXPECT_EQ(search_starts(graph, 4, 300'000, 7), search_starts(graph, 4, 300'000, 7));
}

TEST(FreeMessages, TasksOfWeightZeroRunToo) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const TaskGraph drawn = random_graph(25, 0.15, 4, seed);
    std::vector<Time> weights;
    std::vector<Edge> edges;
    for (TaskId task = 0; task < drawn.size(); ++task) {
      weights.push_back(drawn.weight(task) - 1);
      for (TaskId before : drawn.predecessors(task)) edges.push_back({before, task});
    }
    const TaskGraph graph = TaskGraph::create(weights, edges).value();
    const auto made = schedule(*find_scheduler("sppc+").value(), graph, LogP{}, 3,
                               {.progress = {}, .search_effort = 50'000});
    ASSERT_TRUE(made.has_value());
    EXPECT_TRUE(check(graph, *made).has_value()) << seed;
  }
}

TEST(KnownOptima, SppcPlusMeetsThoseOfTheStandardTaskGraphSet) {
  const auto rows =
      compare_with_optima(*find_scheduler("sppc+").value(), kGraphs, published()).value();
  ASSERT_EQ(rows.size(), 4u);  // one folder, four numbers of processors
  for (const OptimaRow& row : rows) {
    EXPECT_EQ(row.cases, 3);
    EXPECT_EQ(row.best_known, 3) << row.processors << ": " << row.worst_graph;
    EXPECT_EQ(row.below, 0);
    EXPECT_EQ(row.duplicates, 0);
  }
}

TEST(KnownOptima, ClassicSchedulersAreNearAndDuplicateNothing) {
  for (const char* name : {"ecpfd", "heft", "etf", "dsh"}) {
    const auto rows =
        compare_with_optima(*find_scheduler(name).value(), kGraphs, published()).value();
    for (const OptimaRow& row : rows) {
      EXPECT_LE(row.worst_ratio, 1.4) << name;
      EXPECT_GE(row.mean_ratio, 1) << name;
      EXPECT_EQ(row.duplicates, 0) << name;
    }
  }
}

TEST(KnownOptima, WrongLinesAreNamed) {
  const auto message = [](const char* text) {
    std::istringstream in(text);
    const auto read = read_optima(in);
    return read ? std::string("read") : read.error().message;
  };
  EXPECT_EQ(message("# a comment\na.stg,2,10\nb.stg,4,10,12\n"), "read");
  EXPECT_THAT(message("a.stg,2\n"), HasSubstr("line 1: expected graph,processors,optimum"));
  EXPECT_THAT(message("a.stg,2,10\na.stg,0,10\n"), HasSubstr("line 2"));
  EXPECT_THAT(message("a.stg,2,ten\n"), HasSubstr("ten"));
  EXPECT_THAT(message("a.stg,2,10,9\n"), HasSubstr("best makespan"));
  EXPECT_THAT(message("\n"), HasSubstr("no optimum"));
  const auto missing =
      compare_with_optima(*find_scheduler("heft").value(), kGraphs, {{"nosuch.stg", 2, 1, 1}});
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().message, HasSubstr("nosuch.stg"));
}

}  // namespace
}  // namespace ibcoll::task_graph
