#pragma once
/// What the classic list schedulers have in common: a fixed delay between processors, no overheads.

#include <iterator>
#include <limits>
#include <map>
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

/// Upward rank: the longest path to a sink when every edge costs `delay`, the task included.
/// `order`: topological.
std::vector<Time> upward_ranks(const TaskGraph& graph, const std::vector<TaskId>& order,
                               Time delay);

/// Tasks by descending upward rank; topological since equal ranks keep topological order.
std::vector<TaskId> by_upward_rank(const TaskGraph& graph, Time delay);

/// Places task after task into idle slots, each after its predecessors, without duplicates.
class EarliestFinish {
 public:
  EarliestFinish(const TaskGraph& graph, Time delay, int processors);

  /// On the processor where it finishes first; ties go to the lower one.
  void place(TaskId task);
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
  void take(TaskId task, ProcessorId processor, Time start);

  const TaskGraph& graph_;
  const Time delay_;
  std::vector<Slots> slots_;
  std::vector<Time> finish_;
  std::vector<ProcessorId> processor_;
  ClassicSchedule runs_;
};

/// Schedulers that keep a time for every task on every processor refuse what is too large.
Status refuse_many_copies(const TaskGraph& graph, int processors, const SchedulerOptions& options,
                          const char* name);

}  // namespace ibcoll::task_graph
