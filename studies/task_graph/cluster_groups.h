#pragma once
/// SPPC's second and third phase: which clusters of a layer run on one processor, and on which one
/// (paper, 8.1.2 and 8.1.3, figures 11 and 12).

#include <cstdint>
#include <vector>

#include "studies/task_graph/cluster_graph.h"

namespace ibcoll::task_graph {

/// The clusters of one layer that run on one processor (the paper's cluster group).
struct ClusterGroup {
  int32_t level;
  std::vector<ClusterId> clusters;
  Time work;  ///< each task once
};

/// At most P groups a layer.
struct ClusterGroups {
  std::vector<ClusterGroup> groups;
  std::vector<int32_t> group_of;  ///< by cluster
};

/// The paper's phase 2: while a layer has more than P clusters, the pair of greatest affinity over
/// all such layers becomes one: A(p, q) = or * (common predecessors) + os * (common successors) -
/// Lambda(C) * S. Edges of both lead to the pair afterwards.
ClusterGroups group_by_affinity(const TaskGraph& graph, const LogP& logp, int processors,
                                const ClusterGraph& clusters, const Progress& progress = {});

/// Longest cluster first onto the group that has least work, counting only tasks that the group
/// doesn't have yet. Better balanced than affinity, with more messages.
ClusterGroups group_by_load(const TaskGraph& graph, int processors, const ClusterGraph& clusters);

/// Where clusters run.
struct Placement {
  int processors;
  std::vector<ProcessorId> processor;  ///< by cluster
};

/// The paper's phase 3, from the highest layer down: every unassigned group picks the processor
/// where its worst-case finish is earliest; one picked by several takes the one that would finish
/// last. Worst case: every message leaves after its sender's whole group and all its other sends.
Placement place_groups(const LogP& logp, int processors, const ClusterGraph& clusters,
                       const ClusterGroups& groups);

}  // namespace ibcoll::task_graph
