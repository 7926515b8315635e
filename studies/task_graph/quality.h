#pragma once
/// How far schedulers are from the shortest schedule.

#include <functional>
#include <vector>

#include "studies/task_graph/schedulers.h"

namespace ibcoll::task_graph {

/// The small graphs a study is about.
struct StudyOptions {
  int tasks = 8;  ///< at most 10
  int processors = 2;
  LogP logp = {};
  Time max_weight = 100;
  uint64_t seed = 1;
  int rounds = 100;
};

/// Makespan over optimum, for random graphs of 2 to `tasks` tasks of all densities; ascending.
/// Graphs whose optimum takes too long to find are left out; their number is in `skipped`.
Result<std::vector<double>> distances_to_optimum(const Scheduler& scheduler,
                                                 const StudyOptions& options, int& skipped);

struct WorstCase {
  TaskGraph graph;
  Time makespan;
  Time optimum;
  double ratio() const { return static_cast<double>(makespan) / static_cast<double>(optimum); }
};

/// Looks for a graph on which the scheduler is as far from the optimum as can be: hill climbing
/// over weights and edges from random graphs.
Result<WorstCase> find_worst_case(const Scheduler& scheduler, const StudyOptions& options);

}  // namespace ibcoll::task_graph
