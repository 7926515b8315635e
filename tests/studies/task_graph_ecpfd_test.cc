/// ECPFD, step by step on the example graph of Ahmad's and Kwok's papers (nine tasks, of which one
/// chain is critical; weights and costs as in Y.-K. Kwok, I. Ahmad, Static Scheduling Algorithms
/// for Allocating Directed Task Graphs to Multiprocessors, ACM Computing Surveys 31(4), 1999).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "studies/task_graph/ecpfd.h"
#include "studies/task_graph/generators.h"
#include "studies/task_graph/schedulers.h"

namespace ibcoll::task_graph {
namespace {

using ::testing::ElementsAre;

class ExampleOfNine : public ::testing::Test {
 protected:
  /// Tasks are numbered from 0 here, n1 to n9 there.
  ExampleOfNine() {
    for (const auto& [edge, cost] : costs_) edges_.push_back({edge.first, edge.second});
    graph_ = TaskGraph::create({2, 3, 3, 4, 5, 4, 4, 4, 1}, edges_).value();
    delay_ = [this](TaskId from, TaskId to) { return costs_.at({from, to}); };
  }
  Time length(const ClassicSchedule& plan) const {
    Time end = 0;
    for (const auto& runs : plan) {
      for (const ClassicRun& run : runs) end = std::max(end, run.start + graph_->weight(run.task));
    }
    return end;
  }
  /// When a task starts first, and on how many processors it runs.
  std::pair<Time, int> runs_of(const ClassicSchedule& plan, TaskId task) const {
    std::pair<Time, int> result{INT64_MAX, 0};
    for (const auto& runs : plan) {
      for (const ClassicRun& run : runs) {
        if (run.task != task) continue;
        result.first = std::min(result.first, run.start);
        ++result.second;
      }
    }
    return result;
  }

  const std::map<std::pair<TaskId, TaskId>, Time> costs_ = {
      {{0, 1}, 4}, {{0, 2}, 1}, {{0, 3}, 1}, {{0, 4}, 1}, {{0, 6}, 10}, {{1, 5}, 1},
      {{1, 6}, 1}, {{2, 7}, 1}, {{3, 7}, 1}, {{5, 8}, 5}, {{6, 8}, 6},  {{7, 8}, 5}};
  std::vector<Edge> edges_;
  std::optional<TaskGraph> graph_;
  EdgeDelay delay_;
};

TEST_F(ExampleOfNine, OrderIsThatOfThePaper) {
  const CriticalPathDominant order = critical_path_dominant(*graph_, delay_);
  // n1 n2 n7 n4 n3 n8 n6 n9, and n5 alone in the out-branch.
  EXPECT_THAT(order.sequence, ElementsAre(0, 1, 6, 3, 2, 7, 5, 8, 4));
  EXPECT_EQ(order.out_branch, 8u);
}

TEST_F(ExampleOfNine, EachTaskStartsWhenItsInputsAndDuplicatesLetIt) {
  const ClassicSchedule plan = plan_ecpfd(*graph_, delay_, 9);
  EXPECT_EQ(runs_of(plan, 0).first, 0);
  EXPECT_EQ(runs_of(plan, 1).first, 2);   // behind n1 on its processor
  EXPECT_EQ(runs_of(plan, 6).first, 5);   // behind n2 there
  EXPECT_EQ(runs_of(plan, 3).first, 2);   // elsewhere, behind a copy of n1
  EXPECT_EQ(runs_of(plan, 2).first, 2);   // likewise
  EXPECT_EQ(runs_of(plan, 7).first, 6);   // behind n4
  EXPECT_EQ(runs_of(plan, 5).first, 5);   // elsewhere, behind copies of n1 and n2
  EXPECT_EQ(runs_of(plan, 8).first, 14);  // the result of n6 arrives at 14
  EXPECT_EQ(length(plan), 15);
  EXPECT_GE(runs_of(plan, 0).second, 4);
  EXPECT_EQ(runs_of(plan, 1).second, 2);
}

TEST_F(ExampleOfNine, FewProcessorsAreKeptToAndOneIsSerial) {
  EXPECT_EQ(length(plan_ecpfd(*graph_, delay_, 1)), graph_->total_work());
  for (const int processors : {2, 3, 4}) {
    const ClassicSchedule plan = plan_ecpfd(*graph_, delay_, processors);
    EXPECT_EQ(plan.size(), static_cast<size_t>(processors));
    EXPECT_GE(length(plan), 15);
    EXPECT_LT(length(plan), graph_->total_work());
  }
}

TEST(Ecpfd, DuplicatesNothingWhereMessagesCostNothing) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const TaskGraph graph = random_graph(50, 0.08, 10, seed);
    const auto made = schedule(*find_scheduler("ecpfd").value(), graph, LogP{}, 4);
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ(statistics(graph, *made).duplicates, 0) << seed;
  }
}

TEST(Ecpfd, EveryDuplicateServesATaskThatRunsThere) {
  const TaskGraph graph = random_graph(60, 0.06, 20, 5);
  const ClassicSchedule plan = plan_ecpfd(
      graph, [](TaskId, TaskId) { return 30; }, 6);
  std::vector<int> copies(graph.size(), 0);
  for (const auto& runs : plan) {
    for (const ClassicRun& run : runs) ++copies[run.task];
  }
  ASSERT_GT(*std::max_element(copies.begin(), copies.end()), 1);
  for (const auto& runs : plan) {
    for (const ClassicRun& copy : runs) {
      if (copies[copy.task] == 1 || graph.successors(copy.task).empty()) continue;
      // The first of all copies is the task itself, which other processors may need.
      const Time first = [&] {
        Time at = INT64_MAX;
        for (const auto& other : plan) {
          for (const ClassicRun& run : other) {
            if (run.task == copy.task) at = std::min(at, run.start);
          }
        }
        return at;
      }();
      if (copy.start == first) continue;
      const bool serves = std::any_of(runs.begin(), runs.end(), [&](const ClassicRun& run) {
        const auto needs = graph.predecessors(run.task);
        return std::find(needs.begin(), needs.end(), copy.task) != needs.end();
      });
      EXPECT_TRUE(serves) << copy.task;
    }
  }
}

TEST(ListSchedulers, CpopKeepsACriticalPathOnOneProcessor) {
  const TaskGraph graph =
      TaskGraph::create({5, 9, 2, 9, 5}, {{0, 1}, {0, 2}, {1, 3}, {2, 3}, {3, 4}}).value();
  const auto made = schedule(*find_scheduler("cpop").value(), graph, LogP{1, 1, 1}, 3).value();
  std::vector<TaskId> first;
  for (const Instruction& instruction : made.processors[0]) {
    if (instruction.kind == Instruction::Kind::kRun) first.push_back(instruction.id);
  }
  EXPECT_THAT(first, ElementsAre(0, 1, 3, 4));
}

TEST(ListSchedulers, EtfTakesWhatCanStartFirst) {
  // Of those that can start at the same time, the one with the most work behind it comes first; on
  // a second processor tasks 2 and 3 can start before task 1.
  const TaskGraph graph = TaskGraph::create({4, 9, 1, 1}, {{0, 1}}).value();
  const auto made = schedule(*find_scheduler("etf").value(), graph, LogP{}, 1).value();
  std::vector<TaskId> order;
  for (const Instruction& instruction : made.processors[0]) order.push_back(instruction.id);
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3));
  const auto two = schedule(*find_scheduler("etf").value(), graph, LogP{}, 2).value();
  EXPECT_EQ(makespan(graph, two), 13);
  const TaskGraph large = generate("layered:201x100").value();
  const auto refused = schedule(*find_scheduler("etf").value(), large, LogP{}, 2);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
}

TEST(ListSchedulers, PeftGoesByTheWorkBehindATask) {
  // By upward rank task 0 (10) would come first; behind task 1 is more.
  const TaskGraph graph = TaskGraph::create({10, 1, 6}, {{1, 2}}).value();
  const auto made = schedule(*find_scheduler("peft").value(), graph, LogP{}, 1).value();
  std::vector<TaskId> order;
  for (const Instruction& instruction : made.processors[0]) order.push_back(instruction.id);
  EXPECT_THAT(order, ElementsAre(1, 0, 2));
}

}  // namespace
}  // namespace ibcoll::task_graph
