/// DSH: a list schedule with duplicates, on the classic model.

#include <algorithm>
#include <limits>

#include "studies/task_graph/list_scheduling.h"

namespace ibcoll::task_graph {

namespace {

/// A classic schedule with duplicates that grows at the processors' ends.
class Duplicating {
 public:
  Duplicating(const TaskGraph& graph, Time delay, int processors)
      : graph_(graph),
        delay_(delay),
        finish_(processors, std::vector<Time>(graph.size(), kNever)),
        soonest_(graph.size(), kNever),
        end_(processors, 0),
        runs_(processors) {}

  struct Trial {
    Time start = kNever;
    Time finish = kNever;
    std::vector<ClassicRun> duplicates;
  };

  /// How `task` would go at the end of processor p: while an input that comes from elsewhere
  /// decides its start and a copy in the idle time before would finish sooner, that input is
  /// duplicated, its own inputs first.
  Trial attempt(TaskId task, ProcessorId p, bool duplicate) {
    Trial trial;
    Time end = end_[p];
    trial.start = start_of(task, p, end, duplicate, trial.duplicates);
    trial.finish = trial.start + graph_.weight(task);
    for (const ClassicRun& run : trial.duplicates) finish_[p][run.task] = kNever;  // a trial only
    return trial;
  }

  void commit(TaskId task, ProcessorId p, const Trial& trial) {
    for (const ClassicRun& run : trial.duplicates) add(run, p);
    add({trial.start, task}, p);
  }

  bool used(ProcessorId p) const { return !runs_[p].empty(); }
  bool has(ProcessorId p, TaskId task) const { return finish_[p][task] != kNever; }
  const ClassicSchedule& runs() const { return runs_; }

 private:
  static constexpr Time kNever = std::numeric_limits<Time>::max();

  void add(const ClassicRun& run, ProcessorId p) {
    const Time finish = run.start + graph_.weight(run.task);
    finish_[p][run.task] = finish;
    soonest_[run.task] = std::min(soonest_[run.task], finish);
    end_[p] = std::max(end_[p], finish);
    runs_[p].push_back(run);
  }

  Time arrival(TaskId task, ProcessorId p) const {
    return std::min(finish_[p][task], soonest_[task] + delay_);
  }

  /// Earliest start after `end` on p, which duplicates move on. Inputs duplicated are noted in
  /// finish_ until the caller takes them back or keeps them.
  Time start_of(TaskId task, ProcessorId p, Time& end, bool duplicate,
                std::vector<ClassicRun>& duplicates) {
    for (;;) {
      Time ready = 0;
      TaskId critical = -1;
      for (TaskId before : graph_.predecessors(task)) {
        const Time at = arrival(before, p);
        if (at <= ready) continue;
        ready = at;
        critical = before;
      }
      if (ready <= end || !duplicate || finish_[p][critical] == ready) return std::max(ready, end);
      // The input comes from elsewhere and leaves an idle slot [end, ready).
      if (end + graph_.weight(critical) >= ready) return ready;
      const size_t mark = duplicates.size();
      Time moved_end = end;
      const Time start = start_of(critical, p, moved_end, duplicate, duplicates);
      const Time finish = start + graph_.weight(critical);
      if (finish >= ready) {  // no gain: take the duplicates back
        for (size_t i = mark; i < duplicates.size(); ++i) finish_[p][duplicates[i].task] = kNever;
        duplicates.resize(mark);
        return ready;
      }
      duplicates.push_back({start, critical});
      finish_[p][critical] = finish;
      end = finish;
    }
  }

  const TaskGraph& graph_;
  const Time delay_;
  std::vector<std::vector<Time>> finish_;  ///< by processor and task
  std::vector<Time> soonest_;              ///< by task: its first copy
  std::vector<Time> end_;
  ClassicSchedule runs_;
};

}  // namespace

Result<TaskSchedule> schedule_dsh(const TaskGraph& graph, const LogP& logp, int processors,
                                  const SchedulerOptions& options) {
  IBCOLL_TRY(refuse_many_copies(graph, processors, options, "dsh"));
  Duplicating state(graph, logp.message(), processors);
  constexpr int64_t kReportEvery = 1024;
  int64_t done = 0;
  // Static levels (no delays) are DSH's priorities.
  for (TaskId task : by_upward_rank(graph, 0)) {
    ProcessorId chosen = 0;
    Duplicating::Trial best;
    for (ProcessorId p = 0; p < processors; ++p) {
      Duplicating::Trial trial = state.attempt(task, p, true);
      if (trial.finish >= best.finish) continue;
      best = std::move(trial);
      chosen = p;
    }
    state.commit(task, chosen, best);
    if (options.progress && ++done % kReportEvery == 0) options.progress("dsh", done, graph.size());
  }
  return with_messages(graph, logp, state.runs());
}

}  // namespace ibcoll::task_graph
