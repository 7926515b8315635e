/// DSH: a list schedule with duplicates, on the classic model.

#include <algorithm>

#include "studies/task_graph/copies.h"
#include "studies/task_graph/list_scheduling.h"

namespace ibcoll::task_graph {

namespace {

/// A classic schedule with duplicates that grows at the processors' ends.
class Appending {
 public:
  Appending(const TaskGraph& graph, const EdgeDelay& delay, int processors)
      : graph_(graph), copies_(graph, delay, processors), end_(processors, 0) {}

  /// How `task` would go at the end of processor p: while an input that comes from elsewhere
  /// decides its start and a copy in the idle time before would finish sooner, that input is
  /// duplicated, its own inputs first.
  Trial attempt(TaskId task, ProcessorId p) {
    Trial trial;
    Time end = end_[p];
    trial.start = start_of(task, p, end, trial.duplicates);
    for (const ClassicRun& run : trial.duplicates) copies_.take_back(run.task, p);
    return trial;
  }

  void commit(TaskId task, ProcessorId p, const Trial& trial) {
    for (const ClassicRun& run : trial.duplicates) copies_.add(run, p);
    copies_.add({trial.start, task}, p);
    end_[p] = trial.start + graph_.weight(task);
  }

  const ClassicSchedule& runs() const { return copies_.runs(); }

 private:
  /// Earliest start after `end` on p, which duplicates move on. They stay on trial until the caller
  /// takes them back or keeps them.
  Time start_of(TaskId task, ProcessorId p, Time& end, std::vector<ClassicRun>& duplicates) {
    for (;;) {
      const auto [ready, last] = copies_.last_input(task, p);
      if (ready <= end || copies_.has(p, last)) return std::max(ready, end);
      // The input comes from elsewhere and leaves an idle slot [end, ready).
      if (end + graph_.weight(last) >= ready) return ready;
      const size_t mark = duplicates.size();
      Time moved_end = end;
      const Time start = start_of(last, p, moved_end, duplicates);
      const Time finish = start + graph_.weight(last);
      if (finish >= ready) {  // no gain
        for (size_t i = mark; i < duplicates.size(); ++i) copies_.take_back(duplicates[i].task, p);
        duplicates.resize(mark);
        return ready;
      }
      duplicates.push_back({start, last});
      copies_.try_out(duplicates.back(), p);
      end = finish;
    }
  }

  const TaskGraph& graph_;
  Copies copies_;
  std::vector<Time> end_;
};

}  // namespace

Result<TaskSchedule> schedule_dsh(const TaskGraph& graph, const LogP& logp, int processors,
                                  const SchedulerOptions& options) {
  IBCOLL_TRY(refuse_many_copies(graph, processors, options, "dsh"));
  const EdgeDelay delay = every_edge(logp.message());
  Appending state(graph, delay, processors);
  constexpr int64_t kReportEvery = 1024;
  const Placed placed = reporting(options, "dsh", graph, kReportEvery);
  int64_t done = 0;
  // Static levels (no delays) are DSH's priorities.
  for (TaskId task : by_upward_rank(graph, every_edge(0))) {
    ProcessorId chosen = 0;
    Trial best;
    for (ProcessorId p = 0; p < processors; ++p) {
      Trial trial = state.attempt(task, p);
      if (trial.start >= best.start) continue;
      best = std::move(trial);
      chosen = p;
    }
    state.commit(task, chosen, best);
    placed(++done);
  }
  return with_messages(graph, logp, state.runs());
}

}  // namespace ibcoll::task_graph
