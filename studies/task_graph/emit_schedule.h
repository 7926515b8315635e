#pragma once
/// From placed clusters to a schedule: SPPC's fourth phase (paper, 8.1.4, figure 13) and its
/// bulk-synchronous counterpart.

#include "studies/task_graph/cluster_groups.h"
#include "studies/task_graph/schedule.h"

namespace ibcoll::task_graph {

/// What the messages of placed clusters carry: one message a pair of processors a layer.
struct MessagePlan {
  struct Parcel {
    int32_t level;
    ProcessorId from;
    ProcessorId to;
    std::vector<TaskId> tasks;         ///< ascending
    std::vector<ClusterId> providers;  ///< clusters at `from` that make them
  };
  std::vector<Parcel> parcels;                  ///< by level, from, to
  std::vector<std::vector<int32_t>> needed_by;  ///< by parcel: clusters at `to` that use it
  std::vector<int32_t> missing;                 ///< by cluster: parcels it waits for
};
MessagePlan plan_messages(const TaskGraph& graph, const ClusterGraph& clusters,
                          const Placement& placement);

/// The paper's phase 4: layer by layer and processor by processor, receive before send before run,
/// whatever is possible at the processor's clock. A message of layer i is received in layer i-1;
/// the send that needs the least cluster work goes first, then the clusters that feed it.
TaskSchedule emit_packaged(const TaskGraph& graph, const LogP& logp, const ClusterGraph& clusters,
                           const Placement& placement, const MessagePlan& plan);

/// Computation layers separated by all-to-alls of `participants` processors, each
/// max((P-1) os + L + or, (P-1) (os + or)) long (longer if receives take longer than sends and
/// wait). Messages without content are left out, their time isn't.
TaskSchedule emit_bulk_synchronous(const TaskGraph& graph, const LogP& logp,
                                   const ClusterGraph& clusters, const Placement& placement,
                                   const MessagePlan& plan, int participants);

}  // namespace ibcoll::task_graph
