#pragma once
/// SPPC's first phase: tasks gathered into clusters, with duplication (paper, 8.1.1, figure 9).

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "studies/task_graph/graph.h"

namespace ibcoll::task_graph {

using ClusterId = int32_t;

/// Clusters that cover a task graph; a task may stand in several. Acyclic; a cluster needs nothing
/// from clusters of its own or a lower level.
struct ClusterGraph {
  /// Tasks of cluster c: tasks[first_task[c] .. first_task[c+1]), each after its predecessors.
  std::vector<int64_t> first_task{0};
  std::vector<TaskId> tasks;
  std::vector<Time> work;                     ///< sum of the tasks' weights
  std::vector<int32_t> level;                 ///< longest path to a cluster without successors
  std::vector<ClusterId> provider;            ///< per task: the cluster its consumers rely on
  std::vector<std::vector<ClusterId>> needs;  ///< direct predecessors, ascending
  std::vector<std::vector<ClusterId>> feeds;  ///< direct successors, ascending

  ClusterId size() const { return static_cast<ClusterId>(work.size()); }
  int32_t levels() const;
  std::span<const TaskId> tasks_of(ClusterId cluster) const {
    return {tasks.data() + first_task[cluster],
            static_cast<size_t>(first_task[cluster + 1] - first_task[cluster])};
  }
};

/// Knobs of phase 1; the presets are the paper's algorithm.
struct ClusterOptions {
  /// Multiplies the idle time os(P-1) that the balance test lets pass.
  double slack = 1.0;
};

/// Called now and then with tasks done and tasks in all.
using Progress = std::function<void(int64_t done, int64_t all)>;

/// From layer to layer: one cluster for each task of a layer, then layers above are added to the
/// clusters of their direct successors and clusters are merged while LDSH on P processors gets no
/// longer, until max - (rest / (P-1) + os (P-1)) > 0. Consumers rely on the lightest cluster that
/// holds a task. Ties: lower id.
ClusterGraph build_cluster_graph(const TaskGraph& graph, const LogP& logp, int processors,
                                 const ClusterOptions& options = {}, const Progress& progress = {});

}  // namespace ibcoll::task_graph
