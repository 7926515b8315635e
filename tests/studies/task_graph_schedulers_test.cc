/// Schedulers of task graphs: that their schedules are right, and how good they are.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/base/stats.h"
#include "studies/task_graph/formats.h"
#include "studies/task_graph/generators.h"
#include "studies/task_graph/quality.h"
#include "studies/task_graph/schedulers.h"
#include "tests/places.h"
#include "tests/studies/scheduled.h"

namespace ibcoll::task_graph {
namespace {

using ibcoll::testing::scheduled;
using ::testing::HasSubstr;

class AllSchedulers : public ::testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(, AllSchedulers,
                         ::testing::Values("sppc", "sppc+", "sppc-balanced", "bcsh", "bcsh-grouped",
                                           "bcsh-balanced", "heft", "cpop", "peft", "etf", "dsh",
                                           "ecpfd", "serial"));

TEST_P(AllSchedulers, MakeSchedulesThatPassTheChecker) {
  SchedulerOptions options;
  options.search_effort = 20'000;
  for (const char* description :
       {"gauss-jordan:16", "gauss-jordan-b:16", "lu:16", "fft:64", "stencil:12x17",
        "layered:8x9:3:500:2", "random:60:15:300:4", "random:5:0", "random:1", "in-tree:3:4",
        "out-tree:2:6", "montage:12", "cybershake:2x5"}) {
    const TaskGraph graph = generate(description).value();
    for (const int processors : {1, 2, 5}) {
      for (const LogP& logp :
           {paper_logp(processors), LogP{1, 1, 3}, LogP{0, 0, 0}, LogP{5, 9, 20, 2}}) {
        const auto made =
            schedule(*find_scheduler(GetParam()).value(), graph, logp, processors, options);
        ASSERT_TRUE(made.has_value()) << description << ": " << made.error().message;
        const Status right = check(graph, *made);
        ASSERT_TRUE(right.has_value())
            << description << " on " << processors << ": " << right.error().message;
        // Replaying can only move instructions to earlier starts.
        TaskSchedule replayed = *made;
        ASSERT_TRUE(replay(graph, replayed).has_value());
        EXPECT_LE(makespan(graph, replayed), makespan(graph, *made));
        EXPECT_GE(makespan(graph, replayed), critical_path(graph));
      }
    }
  }
}

TEST_P(AllSchedulers, TakeAGraphWithoutTasks) {
  const TaskGraph empty = TaskGraph::create({}, {}).value();
  const auto made = schedule(*find_scheduler(GetParam()).value(), empty, paper_logp(4), 4);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(makespan(empty, *made), 0);
}

TEST(Schedulers, RefuseNoProcessors) {
  const TaskGraph graph = fft(4);
  const auto made = schedule(*find_scheduler("sppc").value(), graph, paper_logp(2), 0);
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message, HasSubstr("0 processors"));
  EXPECT_THAT(find_scheduler("nosuch").error().message, HasSubstr("sppc+"));
}

TEST(SppcPlus, IsNeverBehindTheOthers) {
  SchedulerOptions options;
  options.search_effort = 20'000;
  for (const char* description : {"lu:16", "layered:8x9:3:900:2", "stencil:9x9"}) {
    const TaskGraph graph = generate(description).value();
    for (const int processors : {2, 4}) {
      const LogP logp = paper_logp(processors);
      const auto length = [&](const Scheduler& scheduler) {
        return makespan(graph, *schedule(scheduler, graph, logp, processors, options));
      };
      const Time best = length(*find_scheduler("sppc+").value());
      for (const Scheduler& scheduler : schedulers()) {
        if (scheduler.name != "optimal") {
          EXPECT_LE(best, length(scheduler)) << scheduler.name;
        }
      }
    }
  }
}

TEST(Optimal, IsAtMostAnyOtherScheduleAndKnowsAHandMadeCase) {
  // Two chains of weight 100 joined at the end: with cheap messages two processors take 100 each.
  const TaskGraph graph = TaskGraph::create({100, 100, 10}, {{0, 2}, {1, 2}}).value();
  const auto best = schedule(*find_scheduler("optimal").value(), graph, LogP{5, 5, 10}, 2);
  ASSERT_TRUE(best.has_value());
  EXPECT_EQ(makespan(graph, *best), 100 + 5 + 10 + 5 + 10);
  EXPECT_TRUE(check(graph, *best).has_value());
}

TEST(Sppc, StaysAheadOfBulkSynchronousWithTheSameGroups) {
  const TaskGraph graph = lu_decomposition(48);
  EXPECT_LT(makespan(graph, scheduled("sppc", graph, 8)),
            makespan(graph, scheduled("bcsh-grouped", graph, 8)));
}

TEST(Sppc, IsAsFarFromTheOptimumAsPublishedOnItsWorstCases) {
  for (const auto& [file, processors, published, optimum] :
       {std::tuple("sppc_worst_p2.stg", 2, 183, 50), std::tuple("sppc_worst_p3.stg", 3, 219, 81)}) {
    const TaskGraph graph =
        load_graph(testing_tools::source_dir() + "/docs/results/data/" + file).value();
    const LogP logp{20, 10, 40};
    const auto length = [&, processors = processors](const char* name) {
      return makespan(graph, *schedule(*find_scheduler(name).value(), graph, logp, processors));
    };
    EXPECT_EQ(length("sppc"), published);
    EXPECT_EQ(length("optimal"), optimum);
    EXPECT_EQ(length("sppc+"), optimum);
  }
}

TEST(FullSppc, MeetsThePapersFiguresOnLargeGraphs) {
  for (const auto& [name, affinity, balanced] :
       {std::tuple("gauss-jordan:128", 8.5, 9.6), std::tuple("gauss-jordan-b:128", 7.3, 10.7),
        std::tuple("lu:128", 6.8, 7.8)}) {
    const TaskGraph graph = generate(name).value();
    const TaskSchedule sppc = scheduled("sppc", graph, 16);
    EXPECT_TRUE(check(graph, sppc).has_value());
    EXPECT_GE(statistics(graph, sppc).speedup, affinity) << name;
    EXPECT_GT(statistics(graph, sppc).speedup,
              statistics(graph, scheduled("bcsh-grouped", graph, 16)).speedup);
    EXPECT_GE(statistics(graph, scheduled("sppc-balanced", graph, 16)).speedup, balanced) << name;
  }
}

TEST(FullSppc, PlusIsNearTheOptimumOfSmallGraphs) {
  for (const int processors : {2, 3}) {
    StudyOptions study;
    study.tasks = 7;
    study.processors = processors;
    study.logp = {20, 10, 40};
    study.rounds = 15;
    int skipped = 0;
    const auto ratios =
        distances_to_optimum(*find_scheduler("sppc+").value(), study, skipped).value();
    ASSERT_GT(ratios.size(), 10u);
    EXPECT_LE(median(ratios), 1.10);
  }
}

}  // namespace
}  // namespace ibcoll::task_graph
