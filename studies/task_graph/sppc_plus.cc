/// sppc+: never longer than any other scheduler that finishes on the same input.

#include <algorithm>
#include <vector>

#include "studies/task_graph/cluster_groups.h"
#include "studies/task_graph/decode.h"
#include "studies/task_graph/emit_schedule.h"
#include "studies/task_graph/free_messages.h"
#include "studies/task_graph/improve.h"
#include "studies/task_graph/schedulers.h"

namespace ibcoll::task_graph {

namespace {

/// Keeps the shortest of the schedules offered, and all as starts of a search if they are small.
class Candidates {
 public:
  Candidates(const TaskGraph& graph, bool keep_sequences)
      : graph_(graph), keep_sequences_(keep_sequences) {}

  /// Replays first: instructions may start earlier than a bulk-synchronous schedule says.
  void offer(TaskSchedule candidate) {
    if (!replay(graph_, candidate)) return;
    const Time length = makespan(graph_, candidate);
    if (keep_sequences_) sequences_.push_back(sequence_of(graph_, candidate));
    if (length >= best_makespan_) return;
    best_makespan_ = length;
    best_ = std::move(candidate);
  }
  Time best_makespan() const { return best_makespan_; }
  TaskSchedule& best() { return best_; }
  const std::vector<std::vector<PlacedTask>>& sequences() const { return sequences_; }

 private:
  const TaskGraph& graph_;
  const bool keep_sequences_;
  Time best_makespan_ = INT64_MAX;
  TaskSchedule best_;
  std::vector<std::vector<PlacedTask>> sequences_;
};

}  // namespace

Result<TaskSchedule> schedule_sppc_plus(const TaskGraph& graph, const LogP& logp, int processors,
                                        const SchedulerOptions& options) {
  // Beyond this size a search with the usual effort decodes too few sequences to find anything.
  constexpr TaskId kSearchTasks = 2000;
  // Ecpfd takes longer than all others together.
  constexpr TaskId kEcpfdTasks = 200'000;
  const bool search = graph.size() <= kSearchTasks && processors > 1 && graph.size() > 1;
  Candidates candidates(graph, search);
  // A task in a list costs about as much time as two that are decoded with their messages.
  constexpr int64_t kListCost = 2;
  const bool free_messages = logp == LogP{};
  if (search && free_messages) {
    candidates.offer(schedule_at(
        graph, logp, processors,
        search_starts(graph, processors, options.search_effort / kListCost, /*seed=*/1)));
    if (candidates.best_makespan() == shortest_possible(graph, processors))
      return std::move(candidates.best());
  }
  for (const Scheduler& scheduler : schedulers()) {
    if (scheduler.run == schedule_sppc_plus || scheduler.run == schedule_optimal) continue;
    if (scheduler.run == schedule_ecpfd && graph.size() > kEcpfdTasks) continue;
    Result<TaskSchedule> schedule = scheduler.run(graph, logp, processors, options);
    if (schedule)
      candidates.offer(std::move(*schedule));
    else if (schedule.error().code != ErrorCode::kUnsupported)
      return schedule;
  }
  // Flatter or deeper clusters than the balance test alone would make.
  for (const double slack : {0.25, 0.5, 0.75, 1.25, 1.5, 2.0}) {
    if (options.progress) options.progress("trying balances", static_cast<int64_t>(slack * 4), 8);
    const ClusterGraph clusters = build_cluster_graph(graph, logp, processors, {.slack = slack});
    const ClusterGroups groups = group_by_load(graph, processors, clusters);
    const Placement placement = place_groups(logp, processors, clusters, groups);
    const MessagePlan plan = plan_messages(graph, clusters, placement);
    candidates.offer(emit_packaged(graph, logp, clusters, placement, plan));
  }
  if (search && !free_messages) {
    Decoder decoder(graph, logp, processors);
    const std::vector<PlacedTask> improved =
        improve(graph, logp, processors, candidates.sequences(), options.search_effort, /*seed=*/1);
    candidates.offer(decoder.schedule(improved));
  }
  return std::move(candidates.best());
}

}  // namespace ibcoll::task_graph
