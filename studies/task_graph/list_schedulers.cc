/// HEFT, DSH and ECPFD on the classic model.

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "studies/task_graph/classic.h"
#include "studies/task_graph/schedulers.h"

namespace ibcoll::task_graph {

namespace {

/// Upward rank: the longest path to a sink when every edge costs `delay`.
std::vector<Time> upward_ranks(const TaskGraph& graph, const std::vector<TaskId>& order,
                               Time delay) {
  std::vector<Time> rank(graph.size(), 0);
  for (auto task = order.rbegin(); task != order.rend(); ++task) {
    for (TaskId after : graph.successors(*task))
      rank[*task] = std::max(rank[*task], delay + rank[after]);
    rank[*task] += graph.weight(*task);
  }
  return rank;
}

/// Tasks by descending upward rank; topological since equal ranks keep topological order.
std::vector<TaskId> by_upward_rank(const TaskGraph& graph, Time delay) {
  std::vector<TaskId> order = topological_order(graph);
  const std::vector<Time> rank = upward_ranks(graph, order, delay);
  std::stable_sort(order.begin(), order.end(),
                   [&](TaskId a, TaskId b) { return rank[a] > rank[b]; });
  return order;
}

/// The idle slots of one processor: start -> end, the last one open.
class Slots {
 public:
  Slots() { free_[0] = std::numeric_limits<Time>::max(); }
  /// The earliest start at or after `ready` of something `length` long.
  Time earliest(Time ready, Time length) const {
    auto slot = free_.upper_bound(ready);
    if (slot != free_.begin()) --slot;
    for (;; ++slot) {
      const Time start = std::max(ready, slot->first);
      if (start <= slot->second && slot->second - start >= length) return start;
    }
  }
  void take(Time start, Time length) {
    if (length == 0) return;
    auto slot = std::prev(free_.upper_bound(start));
    const Time end = slot->second;
    if (slot->first == start)
      free_.erase(slot);
    else
      slot->second = start;
    if (end > start + length) free_[start + length] = end;
  }

 private:
  std::map<Time, Time> free_;
};

}  // namespace

Result<TaskSchedule> schedule_heft(const TaskGraph& graph, const LogP& logp, int processors,
                                   const SchedulerOptions& options) {
  const Time delay = logp.message();
  std::vector<Slots> slots(processors);
  std::vector<Time> finish(graph.size(), 0);
  std::vector<ProcessorId> processor(graph.size(), -1);
  ClassicSchedule classic(processors);
  int64_t done = 0;
  for (TaskId task : by_upward_rank(graph, delay)) {
    // Where each input is there soonest: at its own processor, or anywhere after the delay.
    Time ready_anywhere = 0, ready_but_one = 0;
    ProcessorId critical = -1;
    for (TaskId before : graph.predecessors(task)) {
      const Time arrival = finish[before] + delay;
      if (arrival > ready_anywhere) {
        if (processor[before] != critical) ready_but_one = ready_anywhere;
        ready_anywhere = arrival;
        critical = processor[before];
      } else if (processor[before] != critical) {
        ready_but_one = std::max(ready_but_one, arrival);
      }
    }
    Time local = 0;
    for (TaskId before : graph.predecessors(task)) {
      if (processor[before] == critical) local = std::max(local, finish[before]);
    }
    Time best = std::numeric_limits<Time>::max();
    ProcessorId chosen = 0;
    for (ProcessorId p = 0; p < processors; ++p) {
      const Time ready = p == critical ? std::max(local, ready_but_one) : ready_anywhere;
      const Time start = slots[p].earliest(ready, graph.weight(task));
      if (start < best) {
        best = start;
        chosen = p;
      }
    }
    slots[chosen].take(best, graph.weight(task));
    processor[task] = chosen;
    finish[task] = best + graph.weight(task);
    classic[chosen].push_back({best, task});
    constexpr int64_t kReportEvery = 65536;
    if (options.progress && ++done % kReportEvery == 0)
      options.progress("earliest finish", done, graph.size());
  }
  return with_messages(graph, logp, classic);
}

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

Status refuse_large(const TaskGraph& graph, int processors, const SchedulerOptions& options,
                    const char* name) {
  const int64_t copies = int64_t{graph.size()} * processors;
  if (copies <= options.max_copies) return {};
  return fail(ErrorCode::kUnsupported, "{} takes at most {} tasks times processors, these are {}",
              name, options.max_copies, copies);
}

constexpr int64_t kReportEvery = 1024;

}  // namespace

Result<TaskSchedule> schedule_dsh(const TaskGraph& graph, const LogP& logp, int processors,
                                  const SchedulerOptions& options) {
  IBCOLL_TRY(refuse_large(graph, processors, options, "dsh"));
  Duplicating state(graph, logp.message(), processors);
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

namespace {

enum class Branch : uint8_t { kOut, kIn, kCritical };

/// ECPFD's order: the critical path's tasks in turn, each after its ancestors that aren't placed
/// yet (in-branch), then the rest (out-branch) by upward rank.
std::vector<std::pair<TaskId, Branch>> critical_path_dominant(const TaskGraph& graph, Time delay) {
  const std::vector<TaskId> order = topological_order(graph);
  const std::vector<Time> rank = upward_ranks(graph, order, delay);
  std::vector<std::pair<TaskId, Branch>> sequence;
  if (order.empty()) return sequence;
  std::vector<bool> placed(graph.size(), false);
  TaskId at = *std::max_element(order.begin(), order.end(), [&](TaskId a, TaskId b) {
    return rank[a] != rank[b] ? rank[a] < rank[b] : a > b;
  });
  while (at >= 0) {
    // Ancestors depth first, the one with the longest way to go first.
    std::vector<TaskId> stack{at};
    while (!stack.empty()) {
      const TaskId task = stack.back();
      TaskId next = -1;
      for (TaskId before : graph.predecessors(task)) {
        if (!placed[before] && (next < 0 || rank[before] > rank[next])) next = before;
      }
      if (next >= 0) {
        stack.push_back(next);
        continue;
      }
      stack.pop_back();
      if (placed[task]) continue;
      placed[task] = true;
      sequence.emplace_back(task, task == at ? Branch::kCritical : Branch::kIn);
    }
    TaskId next = -1;
    for (TaskId after : graph.successors(at)) {
      if (next < 0 || rank[after] > rank[next]) next = after;
    }
    at = next;
  }
  std::vector<TaskId> rest;
  for (TaskId task : order) {
    if (!placed[task]) rest.push_back(task);
  }
  std::stable_sort(rest.begin(), rest.end(), [&](TaskId a, TaskId b) { return rank[a] > rank[b]; });
  for (TaskId task : rest) sequence.emplace_back(task, Branch::kOut);
  return sequence;
}

}  // namespace

Result<TaskSchedule> schedule_ecpfd(const TaskGraph& graph, const LogP& logp, int processors,
                                    const SchedulerOptions& options) {
  IBCOLL_TRY(refuse_large(graph, processors, options, "ecpfd"));
  Duplicating state(graph, logp.message(), processors);
  int64_t done = 0;
  std::vector<bool> candidate(processors);
  for (const auto& [task, branch] : critical_path_dominant(graph, logp.message())) {
    // The processors that hold an input, and one more that is still empty.
    std::fill(candidate.begin(), candidate.end(), false);
    bool any = false;
    for (ProcessorId p = 0; p < processors; ++p) {
      for (TaskId before : graph.predecessors(task)) {
        if (state.has(p, before)) {
          candidate[p] = any = true;
          break;
        }
      }
    }
    bool empty_found = false;
    for (ProcessorId p = 0; p < processors && !empty_found; ++p) {
      if (state.used(p)) continue;
      candidate[p] = empty_found = true;
    }
    if (!any && !empty_found) std::fill(candidate.begin(), candidate.end(), true);
    ProcessorId chosen = -1;
    Duplicating::Trial best;
    for (ProcessorId p = 0; p < processors; ++p) {
      if (!candidate[p]) continue;
      Duplicating::Trial trial = state.attempt(task, p, branch != Branch::kOut);
      if (chosen >= 0 && trial.finish >= best.finish) continue;
      best = std::move(trial);
      chosen = p;
    }
    state.commit(task, chosen, best);
    if (options.progress && ++done % kReportEvery == 0)
      options.progress("ecpfd", done, graph.size());
  }
  return with_messages(graph, logp, state.runs());
}

}  // namespace ibcoll::task_graph
