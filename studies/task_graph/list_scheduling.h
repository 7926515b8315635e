#pragma once
/// What the classic list schedulers have in common: a fixed delay between processors, no overheads.

#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "studies/task_graph/classic.h"
#include "studies/task_graph/schedulers.h"

namespace ibcoll::task_graph {

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
  /// Takes back what take() did.
  void release(Time start, Time length) {
    if (length == 0) return;
    Time end = start + length;
    const auto after = free_.find(end);
    if (after != free_.end()) {
      end = after->second;
      free_.erase(after);
    }
    const auto next = free_.lower_bound(start);
    if (next != free_.begin() && std::prev(next)->second == start)
      std::prev(next)->second = end;
    else
      free_[start] = end;
  }

 private:
  std::map<Time, Time> free_;
};

/// What a list scheduler reckons with: how long results travel, and, where processors differ, how
/// long each task takes on each. Schedules are made for equal processors; unequal ones are in the
/// examples by which algorithms were published.
struct Costs {
  EdgeDelay delay;
  std::vector<std::vector<Time>> run_times = {};  ///< by task and processor; empty: the weights
};

/// The longest path from each task, itself included, to a sink: of weights and delays.
std::vector<Time> upward_ranks(const TaskGraph& graph, const std::vector<TaskId>& topological,
                               const EdgeDelay& delay);
/// The same to each task, itself not included.
std::vector<Time> downward_ranks(const TaskGraph& graph, const std::vector<TaskId>& topological,
                                 const EdgeDelay& delay);

/// Tasks by descending upward rank; topological since equal ranks keep topological order.
std::vector<TaskId> by_upward_rank(const TaskGraph& graph, const EdgeDelay& delay);

/// Places task after task into idle slots, each after its predecessors, without duplicates.
class EarliestFinish {
 public:
  EarliestFinish(const TaskGraph& graph, const Costs& costs, int processors);

  /// On the processor where it finishes first, with what is still to come (by processor, or the
  /// same for all if empty) added; ties go to the lower one.
  void place(TaskId task, std::span<const Time> still_to_come = {});
  void place_on(TaskId task, ProcessorId processor);
  const ClassicSchedule& runs() const { return runs_; }

 private:
  struct Ready {
    Time anywhere = 0;          ///< when all inputs are there, on processors without a part in it
    Time critical_at = 0;       ///< the same on the processor `critical`
    ProcessorId critical = -1;  ///< where the input is made that comes last
    Time on(ProcessorId p) const { return p == critical ? critical_at : anywhere; }
  };
  Ready ready(TaskId task) const;
  Time run_time(TaskId task, ProcessorId processor) const {
    return costs_.run_times.empty() ? graph_.weight(task) : costs_.run_times[task][processor];
  }
  void take(TaskId task, ProcessorId processor, Time start);

  const TaskGraph& graph_;
  const Costs& costs_;
  std::vector<Slots> slots_;
  std::vector<Time> finish_;
  std::vector<ProcessorId> processor_;
  ClassicSchedule runs_;
};

/// Called with the number of tasks that have been placed.
using Placed = std::function<void(int64_t)>;

/// Reports every so many tasks to `options`, which must outlive it, as the stage of that name.
Placed reporting(const SchedulerOptions& options, const char* stage, const TaskGraph& graph,
                 int64_t every);

/// Schedulers that keep a time for every task on every processor refuse what is too large.
Status refuse_many_copies(const TaskGraph& graph, int processors, const SchedulerOptions& options,
                          const char* name);

}  // namespace ibcoll::task_graph
