#pragma once
/// Graham's LDSH (list-decreasing scheduling heuristic, "longest first") of independent jobs, on a
/// multiset of weights: cost depends on the number of distinct weights, not of jobs.

#include <cstdint>
#include <map>
#include <vector>

#include "studies/task_graph/graph.h"

namespace ibcoll::task_graph {

/// The makespan of a changing multiset of jobs on P processors, with a fast answer to "would
/// replacing two jobs by one make it longer?".
class LongestFirst {
 public:
  explicit LongestFirst(int processors) : processors_(processors) {}

  void add(Time weight, int64_t count = 1);
  void remove(Time weight);

  /// The makespan of the jobs as they are.
  Time makespan();

  /// Whether the makespan stays at or under today's when jobs `x` and `y` become one of weight
  /// `merged` (at least as long as either).
  bool merge_keeps_makespan(Time x, Time y, Time merged);

 private:
  struct Stage {
    Time weight;
    int64_t count;
    size_t loads;  ///< where in loads_ the loads before this weight's jobs stand
  };
  void refresh();
  /// Puts `count` jobs of `weight` one by one onto the least loaded processor.
  void place(Time weight, int64_t count, Time* loads) const;

  int processors_;
  std::map<Time, int64_t, std::greater<>> jobs_;
  bool fresh_ = false;
  std::vector<Stage> stages_;  ///< one a distinct weight, longest first
  std::vector<Time> loads_;
  Time makespan_ = 0;
  std::vector<Time> trial_;
};

/// Assigns jobs to processors, longest first, ties to the lower job and the lower processor;
/// returns each job's processor.
std::vector<int32_t> assign_longest_first(const std::vector<Time>& weights, int processors);

}  // namespace ibcoll::task_graph
