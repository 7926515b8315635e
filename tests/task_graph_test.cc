/// Task graphs, their schedules, schedulers and the checker.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <sstream>

#include "engine/core/task_graph_jobs.h"
#include "engine/planner/task_graph/affinity.h"
#include "engine/planner/task_graph/decode.h"
#include "engine/planner/task_graph/formats.h"
#include "engine/planner/task_graph/gantt.h"
#include "engine/planner/task_graph/generators.h"
#include "engine/planner/task_graph/ldsh.h"
#include "engine/planner/task_graph/quality.h"
#include "engine/planner/task_graph/schedulers.h"

namespace ibcoll::task_graph {
namespace {

using ::testing::HasSubstr;
using Kind = Instruction::Kind;

Schedule scheduled(const char* name, const TaskGraph& graph, int processors) {
  auto made = schedule(*find_scheduler(name).value(), graph, paper_logp(processors), processors);
  EXPECT_TRUE(made.has_value()) << name;
  return *made;
}

TEST(TaskGraphGenerators, HaveThePapersTasksAndEdges) {
  const TaskGraph a = gauss_jordan(128), b = gauss_jordan_b(128), lu = lu_decomposition(128);
  EXPECT_EQ(a.size(), 1'073'152);
  EXPECT_EQ(a.edges(), 3'161'792);
  EXPECT_EQ(b.size(), 1'073'152);
  EXPECT_EQ(b.edges(), 3'161'920);
  EXPECT_EQ(lu.size(), 699'008);
  EXPECT_EQ(lu.edges(), 2'056'384);
  EXPECT_EQ(gauss_jordan(64).size(), 137'216);
}

TEST(TaskGraphGenerators, RefuseWhatIsNotAGraph) {
  for (const char* wrong : {"fft:6", "gauss-jordan:0", "gauss-jordan", "lu:abc", "stencil:5",
                            "in-tree:9:40", "random:5:1:1:1:1"}) {
    const auto graph = generate(wrong);
    ASSERT_FALSE(graph.has_value()) << wrong;
    EXPECT_EQ(graph.error().code, ErrorCode::kInvalidArgument) << wrong;
  }
}

TEST(TaskGraph, RefusesCyclesNegativeWeightsAndMissingTasks) {
  const auto message = [](std::vector<Time> weights, const std::vector<Edge>& edges) {
    const auto graph = TaskGraph::create(std::move(weights), edges);
    return graph ? std::string() : graph.error().message;
  };
  EXPECT_THAT(message({1, 1, 1}, {{0, 1}, {1, 2}, {2, 0}}), HasSubstr("cycle"));
  EXPECT_THAT(message({1, -4}, {}), HasSubstr("task 1 has the negative weight -4"));
  EXPECT_THAT(message({1, 1}, {{0, 7}}), HasSubstr("there is no task 7"));
  EXPECT_THAT(message({1}, {{0, 0}}), HasSubstr("itself"));
}

TEST(TaskGraphFormats, ComeBackAsTheyWere) {
  const TaskGraph graph = random_graph(40, 0.2, 50, 3);
  struct {
    Result<TaskGraph> (*read)(std::istream&);
    void (*write)(const TaskGraph&, std::ostream&);
  } formats[] = {{read_stg, write_stg}, {read_dot, write_dot}, {read_json, write_json}};
  for (const auto& format : formats) {
    std::stringstream text;
    format.write(graph, text);
    const auto again = format.read(text);
    ASSERT_TRUE(again.has_value()) << again.error().message;
    ASSERT_EQ(again->size(), graph.size());
    for (TaskId task = 0; task < graph.size(); ++task) {
      EXPECT_EQ(again->weight(task), graph.weight(task));
      EXPECT_TRUE(std::ranges::equal(again->predecessors(task), graph.predecessors(task)));
    }
  }
}

TEST(TaskGraphFormats, NameTheLineThatIsWrong) {
  const auto stg = [](const char* text) {
    std::istringstream in(text);
    const auto graph = read_stg(in);
    return graph ? std::string("read") : graph.error().message;
  };
  EXPECT_EQ(stg("2\n0 1 0\n1 5 1 0\n"), "read");
  EXPECT_THAT(stg("3\n0 1 0\n1 5 1 0\n"), HasSubstr("line 3: the file ends after 2 of 3 tasks"));
  EXPECT_THAT(stg("2\n0 1 0\n1 -5 1 0\n"), HasSubstr("line 3"));
  EXPECT_THAT(stg("2\n0 1 0\n1 5 2 0\n"), HasSubstr("line 3: 2 predecessors announced, 1 given"));
  EXPECT_THAT(stg("2\n0 1 1 1\n1 5 1 0\n"), HasSubstr("cycle"));
  EXPECT_THAT(stg(""), HasSubstr("empty"));
  std::istringstream dot("digraph g {\n a [weight=3];\n a -> b [label=\"x\"];\n b -> \n}");
  EXPECT_THAT(read_dot(dot).error().message, HasSubstr("line 5: an edge without an end"));
  std::istringstream open("digraph { a -> b;");
  EXPECT_THAT(read_dot(open).error().message, HasSubstr("the file ends"));
  std::istringstream json("{\"weights\": [1, 2], \"edges\": [[0, 5]]}");
  EXPECT_THAT(read_json(json).error().message, HasSubstr("there is no task 5"));
}

TEST(TaskGraphFormats, SchedulesComeBackAndTruncatedOnesDoNot) {
  const TaskGraph graph = gauss_jordan(12);
  const Schedule schedule = scheduled("dsh", graph, 3);
  std::stringstream text;
  write_schedule(graph, schedule, text);
  const auto again = read_schedule(graph, text);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_TRUE(check(graph, *again).has_value());
  EXPECT_EQ(makespan(graph, *again), makespan(graph, schedule));
  const std::string whole = text.str();
  std::istringstream cut(whole.substr(0, whole.size() / 2));
  EXPECT_THAT(read_schedule(graph, cut).error().message, HasSubstr("line "));
}

TEST(LongestFirst, AgreesWithPlacingJobByJob) {
  const TaskGraph weights = random_graph(200, 0, 12, 9);  // only for its weights
  for (const int processors : {1, 2, 3, 7, 16}) {
    LongestFirst ldsh(processors);
    std::vector<Time> jobs;
    for (TaskId task = 0; task < weights.size(); ++task) {
      jobs.push_back(weights.weight(task));
      ldsh.add(jobs.back());
      std::vector<Time> load(processors, 0);
      const auto processor = assign_longest_first(jobs, processors);
      for (size_t i = 0; i < jobs.size(); ++i) load[processor[i]] += jobs[i];
      ASSERT_EQ(ldsh.makespan(), *std::max_element(load.begin(), load.end()));
    }
    const Time before = ldsh.makespan();
    for (const Time extra : {0, 1, 5, 40}) {
      const Time merged = std::max(jobs[0], jobs[1]) + extra;
      std::vector<Time> after(jobs.begin() + 2, jobs.end());
      after.push_back(merged);
      std::vector<Time> load(processors, 0);
      const auto processor = assign_longest_first(after, processors);
      for (size_t i = 0; i < after.size(); ++i) load[processor[i]] += after[i];
      EXPECT_EQ(ldsh.merge_keeps_makespan(jobs[0], jobs[1], merged),
                *std::max_element(load.begin(), load.end()) <= before);
    }
  }
}

/// A schedule with messages to damage.
class DamagedSchedule : public ::testing::Test {
 protected:
  DamagedSchedule() : graph_(gauss_jordan(24)), schedule_(scheduled("sppc", graph_, 4)) {}
  Instruction& first(Kind kind) {
    for (auto& instructions : schedule_.processors) {
      for (Instruction& instruction : instructions) {
        if (instruction.kind == kind) return instruction;
      }
    }
    ADD_FAILURE() << "no such instruction";
    return schedule_.processors[0][0];
  }
  std::string complaint() const {
    const Status status = check(graph_, schedule_);
    return status ? std::string() : status.error().message;
  }
  TaskGraph graph_;
  Schedule schedule_;
};

TEST_F(DamagedSchedule, IsRightBefore) {
  ASSERT_FALSE(schedule_.messages.empty());
  EXPECT_EQ(complaint(), "");
}

TEST_F(DamagedSchedule, ReceiveBeforeArrivalIsRefused) {
  schedule_.logp.latency += 1;
  EXPECT_THAT(complaint(), HasSubstr("before it arrives"));
}

TEST_F(DamagedSchedule, ReceiveThatKeepsTheProcessorTooLongIsRefused) {
  first(Kind::kReceive).start += 1'000'000;
  EXPECT_THAT(complaint(), HasSubstr("the processor is busy until"));
}

TEST_F(DamagedSchedule, MissingResultIsRefused) {
  for (Message& message : schedule_.messages) {
    --message.count;
    if (!complaint().empty()) break;
    ++message.count;
  }
  EXPECT_THAT(complaint(), HasSubstr("is missing"));
}

TEST_F(DamagedSchedule, SwappedResultsAreRefused) {
  const auto& a = schedule_.messages.front();
  const auto& b = schedule_.messages.back();
  std::swap(schedule_.packed[a.first], schedule_.packed[b.first]);
  EXPECT_THAT(complaint(), HasSubstr("the result of task"));
}

TEST_F(DamagedSchedule, DoubledReceiveIsRefused) {
  for (auto& instructions : schedule_.processors) {
    for (size_t i = 0; i < instructions.size(); ++i) {
      if (instructions[i].kind != Kind::kReceive) continue;
      Instruction again = instructions[i];
      again.start = makespan(graph_, schedule_);
      instructions.push_back(again);
      EXPECT_THAT(complaint(), HasSubstr("received twice"));
      return;
    }
  }
  FAIL() << "no receive";
}

TEST_F(DamagedSchedule, DroppedReceiveSendAndTaskAreRefused) {
  const Schedule whole = schedule_;
  for (const Kind kind : {Kind::kReceive, Kind::kSend, Kind::kRun}) {
    schedule_ = whole;
    for (auto& instructions : schedule_.processors) {
      const auto found = std::find_if(instructions.begin(), instructions.end(),
                                      [&](const Instruction& i) { return i.kind == kind; });
      if (found == instructions.end()) continue;
      instructions.erase(found);
      break;
    }
    EXPECT_NE(complaint(), "");
  }
}

TEST(Check, RefusesCirclesOfFreeMessages) {
  // 0 -> 1 and 2 -> 3; each processor runs its task only after the other's message, at time 0.
  const TaskGraph graph = TaskGraph::create({0, 0}, {}).value();
  Schedule schedule(2);
  const TaskId zero = 0, one = 1;
  schedule.add_message(0, 1, std::span(&zero, 1));
  schedule.add_message(1, 0, std::span(&one, 1));
  schedule.processors[0] = {{0, 1, Kind::kReceive}, {0, 0, Kind::kRun}, {0, 0, Kind::kSend}};
  schedule.processors[1] = {{0, 0, Kind::kReceive}, {0, 1, Kind::kRun}, {0, 1, Kind::kSend}};
  const Status status = check(graph, schedule);
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, HasSubstr("waits for ever"));
}

class AllSchedulers : public ::testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(, AllSchedulers,
                         ::testing::Values("sppc", "sppc+", "sppc-balanced", "bcsh", "bcsh-grouped",
                                           "bcsh-balanced", "heft", "dsh", "ecpfd", "serial"));

TEST_P(AllSchedulers, MakeSchedulesThatPassTheChecker) {
  SchedulerOptions options;
  options.search_effort = 20'000;
  for (const char* description : {"gauss-jordan:16", "gauss-jordan-b:16", "lu:16", "fft:64",
                                  "stencil:12x17", "layered:8x9:3:500:2", "random:60:15:300:4",
                                  "random:5:0", "random:1", "in-tree:3:4", "out-tree:2:6"}) {
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
        Schedule replayed = *made;
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
        load_graph(std::string(IBCOLL_SOURCE_DIR "/docs/results/data/") + file).value();
    const LogP logp{20, 10, 40};
    const auto length = [&](const char* name) {
      return makespan(graph, *schedule(*find_scheduler(name).value(), graph, logp, processors));
    };
    EXPECT_EQ(length("sppc"), published);
    EXPECT_EQ(length("optimal"), optimum);
    EXPECT_EQ(length("sppc+"), optimum);
  }
}

TEST(Affinity, MergesUntilNoLayerIsWiderThanTheProcessors) {
  const TaskGraph graph = random_layered(6, 14, 3, 40, 11);
  const LogP logp{30, 20, 50};
  constexpr int kProcessors = 3;
  const ClusterGraph clusters = build_cluster_graph(graph, logp, kProcessors);
  AffinityMerger merger(graph, logp, kProcessors, clusters);
  const int64_t before = merger.merges_left();
  int64_t merges = 0;
  while (merger.merge_best()) ++merges;
  EXPECT_EQ(merges, before);
  std::vector<std::set<ClusterId>> left(clusters.levels());
  for (ClusterId c = 0; c < clusters.size(); ++c)
    left[clusters.level[c]].insert(merger.merged_into(c));
  for (const auto& layer : left) EXPECT_LE(layer.size(), size_t{kProcessors});
}

/// Clusters being merged, with every affinity worked out anew: figure 8 and section 7.2 read
/// literally, apart from the code that keeps the best pairs up to date.
class AffinityByTheBook {
 public:
  AffinityByTheBook(const TaskGraph& graph, const LogP& logp, int processors,
                    const ClusterGraph& clusters)
      : graph_(graph), logp_(logp), processors_(processors), levels_(clusters.levels()) {
    for (ClusterId c = 0; c < clusters.size(); ++c) {
      const auto tasks = clusters.tasks_of(c);
      needs_.emplace_back(clusters.needs[c].begin(), clusters.needs[c].end());
      feeds_.emplace_back(clusters.feeds[c].begin(), clusters.feeds[c].end());
      tasks_.emplace_back(tasks.begin(), tasks.end());
      levels_[clusters.level[c]].insert(c);
    }
  }
  Time affinity(ClusterId a, ClusterId b) const {
    const auto common = [](const std::set<ClusterId>& x, const std::set<ClusterId>& y) {
      return std::ranges::count_if(x, [&](ClusterId c) { return y.contains(c); });
    };
    const Time needs = common(needs_[a], needs_[b]), feeds = common(feeds_[a], feeds_[b]);
    Time later = lambda(std::max(a, b));
    if (needs_[a].size() != needs_[b].size())
      later = lambda(needs_[a].size() > needs_[b].size() ? a : b);
    else if (needs + feeds > 0)
      later = std::min(lambda(a), lambda(b));
    const Time receivers = std::ssize(feeds_[a]) + std::ssize(feeds_[b]) - feeds;
    return logp_.receive_overhead * needs + logp_.send_overhead * feeds -
           later * std::clamp<Time>(receivers, 1, processors_);
  }
  /// The greatest affinity in the layers of more than P clusters.
  Time best() const {
    Time best = std::numeric_limits<Time>::min();
    for (const auto& level : levels_) {
      if (std::ssize(level) <= processors_) continue;
      for (ClusterId a : level) {
        for (ClusterId b : level) {
          if (a < b) best = std::max(best, affinity(a, b));
        }
      }
    }
    return best;
  }
  void merge(ClusterId into, ClusterId gone) {
    for (ClusterId before : needs_[gone]) {
      feeds_[before].erase(gone);
      feeds_[before].insert(into);
    }
    for (ClusterId after : feeds_[gone]) {
      needs_[after].erase(gone);
      needs_[after].insert(into);
    }
    needs_[into].merge(needs_[gone]);
    feeds_[into].merge(feeds_[gone]);
    tasks_[into].merge(tasks_[gone]);
    for (auto& level : levels_) level.erase(gone);
  }

 private:
  Time lambda(ClusterId c) const {
    Time work = 0;
    for (TaskId task : tasks_[c]) work += graph_.weight(task);
    return std::ssize(needs_[c]) * logp_.receive_overhead +
           std::ssize(feeds_[c]) * logp_.send_overhead + work;
  }

  const TaskGraph& graph_;
  const LogP logp_;
  const int processors_;
  std::vector<std::set<ClusterId>> needs_, feeds_, levels_;
  std::vector<std::set<TaskId>> tasks_;
};

TEST(Affinity, EveryMergeIsOneOfGreatestAffinity) {
  int merges = 0;
  for (const char* description : {"layered:6x14:3:40:11", "layered:4x25:4:9:2", "random:50:8:30:5",
                                  "lu:9", "fft:16", "gauss-jordan:8", "out-tree:3:4"}) {
    SCOPED_TRACE(description);
    const TaskGraph graph = generate(description).value();
    for (const auto& [processors, logp] :
         {std::pair(2, LogP{30, 20, 50}), std::pair(3, LogP{4, 9, 10}), std::pair(5, LogP{})}) {
      const ClusterGraph clusters = build_cluster_graph(graph, logp, processors);
      AffinityByTheBook book(graph, logp, processors, clusters);
      AffinityMerger merger(graph, logp, processors, clusters);
      std::set<ClusterId> left;
      for (ClusterId c = 0; c < clusters.size(); ++c) left.insert(c);
      for (;;) {
        const Time best = book.best();
        if (!merger.merge_best()) break;
        const auto gone =
            std::ranges::find_if(left, [&](ClusterId c) { return merger.merged_into(c) != c; });
        ASSERT_NE(gone, left.end());
        const ClusterId into = merger.merged_into(*gone);
        ASSERT_EQ(book.affinity(into, *gone), best);
        book.merge(into, *gone);
        left.erase(gone);
        ++merges;
      }
    }
  }
  EXPECT_GT(merges, 200);
}

TEST(Gantt, DrawsMillionsOfInstructionsSmall) {
  const TaskGraph graph = lu_decomposition(64);
  const Schedule schedule = scheduled("sppc", graph, 8);
  const std::string svg = gantt_svg(graph, schedule, "LU & <64>");
  EXPECT_THAT(svg, HasSubstr("LU &amp; &lt;64&gt;"));
  EXPECT_LT(svg.size(), 1'500'000u);
}

TEST(ProcessorProgram, UsesSlotsAgainAndKeepsTheSolution) {
  const MatrixProblem problem(MatrixProblem::Method::kGaussJordan, 24, 7);
  const TaskGraph& graph = problem.graph();
  const Schedule serial = *schedule_serial(graph, {}, 1, {});
  const ProcessorProgram program(graph, serial, 0, problem, problem.solution_tasks());
  EXPECT_EQ(program.operations(), graph.size());
  std::vector<double> slots;
  program.fill_slots(slots);
  // The inputs, about a matrix of live results, and not one slot a task.
  EXPECT_LT(slots.size(), 3 * problem.inputs().size());
  for (const ProcessorProgram::Step& step : program.steps()) program.run(step, slots.data());
  const std::vector<double> expected = problem.plain_solution();
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(slots[program.slot_of_kept(i)], expected[i], 1e-12);
}

class RealRuns : public ::testing::TestWithParam<std::tuple<LinkKind, bool>> {};
INSTANTIATE_TEST_SUITE_P(, RealRuns,
                         ::testing::Combine(::testing::Values(LinkKind::kShm, LinkKind::kLoopback),
                                            ::testing::Bool()));

TEST_P(RealRuns, SolveTheSystemAsAPlainSolverDoes) {
  const auto [link, threads] = GetParam();
  for (const auto method : {MatrixProblem::Method::kGaussJordan,
                            MatrixProblem::Method::kGaussJordanB, MatrixProblem::Method::kLu}) {
    for (const char* name : {"sppc", "dsh"}) {
      const auto result = run_matrix_problem({.method = method,
                                              .size = 20,
                                              .processors = 3,
                                              .scheduler = find_scheduler(name).value(),
                                              .link = link,
                                              .threads = threads,
                                              .repeat = 2});
      ASSERT_TRUE(result.has_value()) << result.error().message;
      EXPECT_LT(result->worst_error, 1e-12) << name;
    }
  }
}

TEST(FullSppc, MeetsThePapersFiguresOnLargeGraphs) {
  for (const auto& [name, affinity, balanced] :
       {std::tuple("gauss-jordan:128", 8.5, 9.6), std::tuple("gauss-jordan-b:128", 7.3, 10.7),
        std::tuple("lu:128", 6.8, 7.8)}) {
    const TaskGraph graph = generate(name).value();
    const Schedule sppc = scheduled("sppc", graph, 16);
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
    study.rounds = 40;
    int skipped = 0;
    const auto ratios =
        distances_to_optimum(*find_scheduler("sppc+").value(), study, skipped).value();
    ASSERT_GT(ratios.size(), 30u);
    EXPECT_LE(ratios[ratios.size() / 2], 1.10);
  }
}

}  // namespace
}  // namespace ibcoll::task_graph
