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
#include "studies/task_graph/list_schedulers.h"
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

/// An example by which algorithms were published: tasks are numbered from 1, and the processors
/// differ. Times are multiplied by the number of processors, so that means are whole.
class PublishedExample {
 public:
  PublishedExample(const std::vector<std::vector<Time>>& run_times,
                   std::map<std::pair<int, int>, Time> edges)
      : processors_(static_cast<int>(run_times.front().size())), edges_(std::move(edges)) {
    std::vector<Time> sums;
    for (const std::vector<Time>& of_task : run_times) {
      sums.push_back(0);
      costs_.run_times.emplace_back();
      for (const Time time : of_task) {
        sums.back() += time;
        costs_.run_times.back().push_back(time * processors_);
      }
    }
    std::vector<Edge> pairs;
    for (const auto& [edge, cost] : edges_) pairs.push_back({edge.first - 1, edge.second - 1});
    graph_ = TaskGraph::create(sums, pairs).value();
    costs_.delay = [this](TaskId from, TaskId to) {
      return edges_.at({from + 1, to + 1}) * processors_;
    };
  }
  PublishedExample(const PublishedExample&) = delete;
  PublishedExample& operator=(const PublishedExample&) = delete;

  /// When all is done by a plan, and, by processor, which tasks run there in turn.
  using Plan = ClassicSchedule (*)(const TaskGraph&, const Costs&, int, const Placed&);
  std::pair<Time, std::vector<std::vector<TaskId>>> run(Plan plan) const {
    ClassicSchedule runs = plan(*graph_, costs_, processors_, {});
    Time end = 0;
    std::vector<std::vector<TaskId>> tasks(runs.size());
    for (size_t p = 0; p < runs.size(); ++p) {
      std::ranges::sort(runs[p], {}, &ClassicRun::start);
      for (const ClassicRun& run : runs[p]) {
        end = std::max(end, run.start + costs_.run_times[run.task][p]);
        tasks[p].push_back(run.task + 1);
      }
    }
    EXPECT_EQ(end % processors_, 0);
    return {end / processors_, tasks};
  }

 private:
  int processors_;
  std::map<std::pair<int, int>, Time> edges_;
  Costs costs_;
  std::optional<TaskGraph> graph_;
};

using Placement = std::vector<std::vector<TaskId>>;

// Figure 1 of Topcuoglu, Hariri, Wu 2002 (see list_schedulers.h); figure 2 has the schedules.
TEST(PublishedExamples, HeftAndCpopMakeTheSchedulesOfTheirPaper) {
  const PublishedExample example({{14, 16, 9},
                                  {13, 19, 18},
                                  {11, 13, 19},
                                  {13, 8, 17},
                                  {12, 13, 10},
                                  {13, 16, 9},
                                  {7, 15, 11},
                                  {5, 11, 14},
                                  {18, 12, 20},
                                  {21, 7, 16}},
                                 {{{1, 2}, 18},
                                  {{1, 3}, 12},
                                  {{1, 4}, 9},
                                  {{1, 5}, 11},
                                  {{1, 6}, 14},
                                  {{2, 8}, 19},
                                  {{2, 9}, 16},
                                  {{3, 7}, 23},
                                  {{4, 8}, 27},
                                  {{4, 9}, 23},
                                  {{5, 9}, 13},
                                  {{6, 8}, 15},
                                  {{7, 10}, 17},
                                  {{8, 10}, 11},
                                  {{9, 10}, 13}});
  const auto [heft, heft_places] = example.run(plan_heft);
  EXPECT_EQ(heft, 80);
  EXPECT_EQ(heft_places, (Placement{{2, 8}, {4, 6, 9, 10}, {1, 3, 5, 7}}));
  const auto [cpop, cpop_places] = example.run(plan_cpop);
  EXPECT_EQ(cpop, 86);
  EXPECT_THAT(cpop_places[1], ::testing::IsSupersetOf({1, 2, 9, 10}));  // the critical path
}

// The example of Arabnejad, Barbosa 2014, which compares PEFT with HEFT on it.
TEST(PublishedExamples, PeftIsAheadOfHeftAsInItsPaper) {
  const PublishedExample example({{22, 21, 36},
                                  {22, 18, 18},
                                  {32, 27, 43},
                                  {7, 10, 4},
                                  {29, 27, 35},
                                  {26, 17, 24},
                                  {14, 25, 30},
                                  {29, 23, 36},
                                  {15, 21, 8},
                                  {13, 16, 33}},
                                 {{{1, 2}, 17},
                                  {{1, 3}, 31},
                                  {{1, 4}, 29},
                                  {{1, 5}, 13},
                                  {{1, 6}, 7},
                                  {{2, 8}, 3},
                                  {{2, 9}, 30},
                                  {{3, 7}, 16},
                                  {{4, 8}, 11},
                                  {{4, 9}, 7},
                                  {{5, 9}, 57},
                                  {{6, 8}, 5},
                                  {{7, 10}, 9},
                                  {{8, 10}, 42},
                                  {{9, 10}, 7}});
  EXPECT_EQ(example.run(plan_peft).first, 122);
  EXPECT_EQ(example.run(plan_heft).first, 133);
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
