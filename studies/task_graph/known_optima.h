#pragma once
/// Schedules beside optima that others have proved, as they are published with sets of graphs.

#include <iosfwd>
#include <string>
#include <vector>

#include "studies/task_graph/schedulers.h"

namespace ibcoll::task_graph {

/// What is known of the shortest makespan of a graph when messages cost nothing.
struct KnownOptimum {
  std::string graph;  ///< a file, relative to the folder of the set
  int processors = 0;
  Time bound = 0;     ///< no schedule is shorter
  Time makespan = 0;  ///< of the best schedule known; the bound, where it is the optimum
};

/// Lines "graph,processors,optimum", or "graph,processors,bound,best" where the optimum isn't
/// known (the form of the public repository thelonesailor/MSP); empty lines and those that begin
/// with # are left out. Errors name the line.
Result<std::vector<KnownOptimum>> read_optima(std::istream& in);

/// What one scheduler does on all cases of a folder of graphs and a number of processors.
struct OptimaRow {
  std::string folder;  ///< of the graphs, relative to that of the set
  int processors = 0;
  int cases = 0;
  int optimal = 0;        ///< as long as the bound of the file or as shortest_possible()
  int best_known = 0;     ///< not longer than the best of the file
  int below = 0;          ///< shorter than the bound of the file, which then is wrong
  double mean_ratio = 0;  ///< makespan over the best of the file or that found, if shorter
  double worst_ratio = 0;
  std::string worst_graph = {};
  double mean_seconds = 0;  ///< CPU
  double worst_seconds = 0;
  int64_t duplicates = 0;
};

/// Schedules each case without costs of messages and checks the schedule. Rows in the order in
/// which folders and numbers of processors come up first. Fails for a graph that cannot be read,
/// with its file, and for a schedule that is wrong.
Result<std::vector<OptimaRow>> compare_with_optima(const Scheduler& scheduler,
                                                   const std::string& folder,
                                                   const std::vector<KnownOptimum>& optima,
                                                   const SchedulerOptions& options = {});

}  // namespace ibcoll::task_graph
