#pragma once
/// ECPFD, the economical form of Critical Path Fast Duplication for a bounded number of
/// processors: I. Ahmad, Y.-K. Kwok, On Exploiting Task Duplication in Parallel Program
/// Scheduling, IEEE Transactions on Parallel and Distributed Systems 9(9), 1998; CPFD as in the
/// same authors' Static Scheduling Algorithms for Allocating Directed Task Graphs to
/// Multiprocessors, ACM Computing Surveys 31(4), 1999.

#include <vector>

#include "studies/task_graph/list_scheduling.h"

namespace ibcoll::task_graph {

/// The order in which ECPFD places tasks: those of a critical path in turn, each behind the
/// ancestors it still lacks (of a task's parents, the one with the largest b-level first, then the
/// one with the smaller t-level), and the others, the out-branch, by descending b-level.
struct CriticalPathDominant {
  std::vector<TaskId> sequence;
  size_t out_branch = 0;  ///< where the out-branch begins
};
CriticalPathDominant critical_path_dominant(const TaskGraph& graph, const EdgeDelay& delay);

/// Places tasks in that order, each where it starts first: on a processor that holds one of its
/// parents or on an unused one; tasks of the out-branch on any processor in use or an unused one;
/// where none is unused, on any. Into idle slots, and before a task the parent whose result would
/// arrive last is duplicated, with its own ancestors where they help it, as long as the task
/// starts earlier for it.
ClassicSchedule plan_ecpfd(const TaskGraph& graph, const EdgeDelay& delay, int processors,
                           const Placed& placed = {});

}  // namespace ibcoll::task_graph
