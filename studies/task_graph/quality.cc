#include "studies/task_graph/quality.h"

#include <algorithm>
#include <random>

#include "studies/task_graph/generators.h"

namespace ibcoll::task_graph {

namespace {

/// Search effort that finds the optimum of ten tasks nearly always; the exhaustive search that
/// starts from it settles the rest.
constexpr int64_t kEffort = 800'000;

/// Makespan and optimum; the optimum is -1 where the search is too long.
struct Pair {
  Time makespan = 0;
  Time optimum = -1;
};

Result<Pair> compare(const Scheduler& scheduler, const TaskGraph& graph,
                     const StudyOptions& study) {
  SchedulerOptions options;
  options.search_effort = kEffort;
  IBCOLL_ASSIGN(const TaskSchedule found,
                schedule(scheduler, graph, study.logp, study.processors, options));
  Pair pair{.makespan = makespan(graph, found)};
  IBCOLL_ASSIGN(const Scheduler* optimal, find_scheduler("optimal"));
  Result<TaskSchedule> best = schedule(*optimal, graph, study.logp, study.processors, options);
  if (!best && best.error().code != ErrorCode::kDeadline)
    return tl::unexpected<Error>(best.error());
  if (best) pair.optimum = makespan(graph, *best);
  return pair;
}

}  // namespace

Result<std::vector<double>> distances_to_optimum(const Scheduler& scheduler,
                                                 const StudyOptions& options, int& skipped) {
  std::mt19937_64 random(options.seed);
  std::vector<double> ratios;
  skipped = 0;
  for (int round = 0; round < options.rounds; ++round) {
    const int tasks = 2 + static_cast<int>(random() % static_cast<uint64_t>(options.tasks - 1));
    const double density = static_cast<double>(random() % 1000) / 1000;
    const TaskGraph graph = random_graph(tasks, density, options.max_weight, random());
    IBCOLL_ASSIGN(const Pair pair, compare(scheduler, graph, options));
    if (pair.optimum < 0)
      ++skipped;
    else
      ratios.push_back(static_cast<double>(pair.makespan) / static_cast<double>(pair.optimum));
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios;
}

Result<WorstCase> find_worst_case(const Scheduler& scheduler, const StudyOptions& options) {
  std::mt19937_64 random(options.seed);
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  const auto weight = [&] {
    return 1 + static_cast<Time>(below(static_cast<size_t>(options.max_weight)));
  };
  struct Genes {
    std::vector<Time> weights;
    std::vector<Edge> edges;
  };
  Genes at;
  double ratio_at = 0;
  Result<WorstCase> worst = fail(ErrorCode::kDeadline, "no optimum was found in time");
  constexpr int kRestartEvery = 400;
  for (int round = 0; round < options.rounds; ++round) {
    Genes next = at;
    if (round % kRestartEvery == 0) {
      ratio_at = 0;
      next = {};
      for (int i = 0; i < options.tasks; ++i) next.weights.push_back(weight());
      for (TaskId i = 0; i < options.tasks; ++i) {
        for (TaskId j = 0; j < i; ++j) {
          if (below(4) == 0) next.edges.push_back({j, i});
        }
      }
    } else if (below(2) == 0) {
      next.weights[below(next.weights.size())] = weight();
    } else if (!next.edges.empty() && below(2) == 0) {
      next.edges.erase(next.edges.begin() + static_cast<int64_t>(below(next.edges.size())));
    } else {
      const auto a = static_cast<TaskId>(below(next.weights.size()));
      const auto b = static_cast<TaskId>(below(next.weights.size()));
      if (a != b) next.edges.push_back({std::min(a, b), std::max(a, b)});
    }
    IBCOLL_ASSIGN(TaskGraph graph, TaskGraph::create(next.weights, next.edges));
    IBCOLL_ASSIGN(const Pair pair, compare(scheduler, graph, options));
    if (pair.optimum <= 0) continue;
    const double ratio = static_cast<double>(pair.makespan) / static_cast<double>(pair.optimum);
    if (ratio < ratio_at) continue;
    ratio_at = ratio;
    at = std::move(next);
    if (!worst || ratio > worst->ratio())
      worst = WorstCase{std::move(graph), pair.makespan, pair.optimum};
  }
  return worst;
}

}  // namespace ibcoll::task_graph
