#pragma once
/// Which task stands in which clusters while SPPC's first phase grows them. Tasks of one *class*
/// stand in exactly the same clusters, so a million tasks are some thousands of classes.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "studies/task_graph/graph.h"

namespace ibcoll::task_graph {

using ClassId = int32_t;
using GrowingId = int32_t;  ///< a cluster that grows; merging two gives a new id

/// A versioned partition of tasks: each merge round replaces classes by new ones and keeps the old,
/// so the state before the last round can be had without copying.
class ClusterClasses {
 public:
  explicit ClusterClasses(const TaskGraph& graph);

  /// Forgets everything; clusters 0..count-1 exist and class c is {cluster c}.
  void restart(GrowingId count);
  void put(TaskId task, ClassId task_class) { class_of_[task] = task_class; }

  /// The class of tasks that stand in all clusters of these tasks, made if there is none yet.
  ClassId join(const std::vector<TaskId>& tasks);
  void add_weight(ClassId task_class, Time weight) { weight_[task_class] += weight; }
  Time weight(ClassId task_class) const { return weight_[task_class]; }
  const std::vector<GrowingId>& clusters(ClassId task_class) const { return sets_[task_class]; }
  /// The classes that have tasks in the cluster.
  const std::vector<ClassId>& classes_in(GrowingId cluster);

  /// Merges pairs (x[i], y[i]) into clusters first, first+1, ..; they must be disjoint pairs.
  void merge_round(const std::vector<std::pair<GrowingId, GrowingId>>& pairs, GrowingId first);

  /// The clusters of a task as they stood after `round` merge rounds.
  const std::vector<GrowingId>& clusters_at(TaskId task, int32_t round) const;

 private:
  ClassId find_or_make(std::vector<GrowingId> set);
  ClassId current(ClassId task_class);

  std::vector<ClassId> class_of_;
  std::vector<std::vector<GrowingId>> sets_;  ///< ascending
  std::vector<Time> weight_;
  std::vector<ClassId> replaced_by_;
  std::vector<int32_t> replaced_in_;
  std::vector<ClassId> shortcut_;
  std::vector<std::vector<ClassId>> classes_in_;
  std::unordered_multimap<uint64_t, ClassId> by_hash_;
  int32_t round_ = 0;
  std::vector<int64_t> seen_class_;
  int64_t stamp_ = 0;
};

}  // namespace ibcoll::task_graph
