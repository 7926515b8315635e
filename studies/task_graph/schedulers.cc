#include "studies/task_graph/schedulers.h"

#include <algorithm>

#include "studies/task_graph/cluster_groups.h"
#include "studies/task_graph/emit_schedule.h"
#include "studies/task_graph/ldsh.h"

namespace ibcoll::task_graph {

std::span<const Scheduler> schedulers() {
  static constexpr Scheduler kAll[] = {
      {"sppc", "the paper's four phases: clusters, affinity, worst-case finish, packaged messages",
       schedule_sppc},
      {"sppc+", "the best of all others, improved by search on small graphs", schedule_sppc_plus},
      {"sppc-balanced", "SPPC with groups of equal load instead of greatest affinity",
       schedule_sppc_balanced},
      {"bcsh", "bulk-synchronous, LDSH in each layer, on the best number of processors",
       schedule_bcsh},
      {"bcsh-grouped", "bulk-synchronous with the groups and places of sppc",
       schedule_bcsh_grouped},
      {"bcsh-balanced", "bulk-synchronous with the groups and places of sppc-balanced",
       schedule_bcsh_balanced},
      {"heft", "earliest finish time, no duplication, one message a result", schedule_heft},
      {"cpop", "critical path on one processor, the others by earliest finish", schedule_cpop},
      {"peft", "earliest finish time, by the work behind a task", schedule_peft},
      {"etf", "of all ready tasks the one that can start first", schedule_etf},
      {"dsh", "duplication scheduling heuristic, one message a result", schedule_dsh},
      {"ecpfd", "critical path first duplication, economical, one message a result",
       schedule_ecpfd},
      {"serial", "everything on processor 0", schedule_serial},
      {"optimal", "exhaustive search, tiny graphs only", schedule_optimal},
  };
  return kAll;
}

Result<const Scheduler*> find_scheduler(std::string_view name) {
  std::string names;
  for (const Scheduler& scheduler : schedulers()) {
    if (scheduler.name == name) return &scheduler;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", scheduler.name);
  }
  return fail(ErrorCode::kInvalidArgument, "no scheduler named '{}'; there are {}", name, names);
}

Result<TaskSchedule> schedule(const Scheduler& scheduler, const TaskGraph& graph, const LogP& logp,
                              int processors, const SchedulerOptions& options) {
  if (processors < 1 || processors > kMaxProcessors)
    return fail(ErrorCode::kInvalidArgument, "{} processors: must be 1 to {}", processors,
                kMaxProcessors);
  for (Time cost : {logp.send_overhead, logp.receive_overhead, logp.latency, logp.per_result}) {
    if (cost < 0 || cost > kMaxCost)
      return fail(ErrorCode::kInvalidArgument, "LogP parameter {}: must be 0 to {}", cost,
                  kMaxCost);
  }
  return scheduler.run(graph, logp, processors, options);
}

Result<TaskSchedule> schedule_serial(const TaskGraph& graph, const LogP& logp, int processors,
                                     const SchedulerOptions&) {
  TaskSchedule schedule(processors, logp);
  Time clock = 0;
  for (TaskId task : topological_order(graph)) {
    schedule.processors[0].push_back({clock, task, Instruction::Kind::kRun});
    clock += graph.weight(task);
  }
  return schedule;
}

namespace {

enum class Grouping { kAffinity, kLoad };

Progress stage(const SchedulerOptions& options, const char* name) {
  if (!options.progress) return {};
  return [&options, name](int64_t done, int64_t all) { options.progress(name, done, all); };
}

/// Phases 1 to 3.
struct PlacedClusters {
  ClusterGraph clusters;
  Placement placement;
  MessagePlan messages;
};
PlacedClusters place_clusters(const TaskGraph& graph, const LogP& logp, int processors,
                              Grouping grouping, const SchedulerOptions& options) {
  PlacedClusters placed;
  placed.clusters =
      build_cluster_graph(graph, logp, processors, {}, stage(options, "gathering clusters"));
  const ClusterGroups groups = grouping == Grouping::kLoad
                                   ? group_by_load(graph, processors, placed.clusters)
                                   : group_by_affinity(graph, logp, processors, placed.clusters,
                                                       stage(options, "grouping clusters"));
  placed.placement = place_groups(logp, processors, placed.clusters, groups);
  placed.messages = plan_messages(graph, placed.clusters, placed.placement);
  return placed;
}

}  // namespace

Result<TaskSchedule> schedule_sppc(const TaskGraph& graph, const LogP& logp, int processors,
                                   const SchedulerOptions& options) {
  const PlacedClusters placed =
      place_clusters(graph, logp, processors, Grouping::kAffinity, options);
  return emit_packaged(graph, logp, placed.clusters, placed.placement, placed.messages);
}

Result<TaskSchedule> schedule_sppc_balanced(const TaskGraph& graph, const LogP& logp,
                                            int processors, const SchedulerOptions& options) {
  const PlacedClusters placed = place_clusters(graph, logp, processors, Grouping::kLoad, options);
  return emit_packaged(graph, logp, placed.clusters, placed.placement, placed.messages);
}

Result<TaskSchedule> schedule_bcsh_grouped(const TaskGraph& graph, const LogP& logp, int processors,
                                           const SchedulerOptions& options) {
  const PlacedClusters placed =
      place_clusters(graph, logp, processors, Grouping::kAffinity, options);
  return emit_bulk_synchronous(graph, logp, placed.clusters, placed.placement, placed.messages,
                               processors);
}

Result<TaskSchedule> schedule_bcsh_balanced(const TaskGraph& graph, const LogP& logp,
                                            int processors, const SchedulerOptions& options) {
  const PlacedClusters placed = place_clusters(graph, logp, processors, Grouping::kLoad, options);
  return emit_bulk_synchronous(graph, logp, placed.clusters, placed.placement, placed.messages,
                               processors);
}

Result<TaskSchedule> schedule_bcsh(const TaskGraph& graph, const LogP& logp, int processors,
                                   const SchedulerOptions& options) {
  IBCOLL_ASSIGN(TaskSchedule best, schedule_serial(graph, logp, processors, options));
  Time best_makespan = makespan(graph, best);
  // Every number up to 16, then about every eighth: neighbours differ little there.
  constexpr int kEvery = 16;
  for (int participants = 2; participants <= processors;
       participants += participants < kEvery ? 1 : participants / 8) {
    if (options.progress) options.progress("bulk-synchronous", participants - 1, processors);
    const ClusterGraph clusters = build_cluster_graph(graph, logp, participants);
    Placement placement{processors, std::vector<ProcessorId>(clusters.size())};
    std::vector<std::vector<ClusterId>> layers(clusters.levels());
    for (ClusterId c = 0; c < clusters.size(); ++c) layers[clusters.level[c]].push_back(c);
    for (const auto& layer : layers) {
      std::vector<Time> work;
      for (ClusterId c : layer) work.push_back(clusters.work[c]);
      const std::vector<int32_t> processor = assign_longest_first(work, participants);
      for (size_t i = 0; i < layer.size(); ++i) placement.processor[layer[i]] = processor[i];
    }
    const MessagePlan plan = plan_messages(graph, clusters, placement);
    TaskSchedule candidate =
        emit_bulk_synchronous(graph, logp, clusters, placement, plan, participants);
    const Time length = makespan(graph, candidate);
    if (length >= best_makespan) continue;
    best_makespan = length;
    best = std::move(candidate);
  }
  return best;
}

}  // namespace ibcoll::task_graph
