#pragma once
/// Schedules of tasks on identical processors when messages cost nothing (P | prec | Cmax): a
/// lower bound of every schedule, and a search for start times that meet it.

#include <vector>

#include "studies/task_graph/schedule.h"

namespace ibcoll::task_graph {

/// No schedule on so many processors is shorter, whatever messages cost: the longest path, the
/// work per processor, and for each set of tasks that have much before and after them the work of
/// the set per processor between the shortest ways in and out (Carlier 1987's bound for heads and
/// tails).
Time shortest_possible(const TaskGraph& graph, int processors);

/// When each task starts in the shortest schedule found without any cost of messages: never more
/// than `processors` tasks at a time, each after its predecessors. A search over the order of a
/// serial list schedule, each one moved to the right and to the left again (double justification,
/// Valls, Ballestin and Quintanilla 2005). It ends at shortest_possible(), or when lists of
/// `effort` tasks in all were tried. Deterministic for a seed.
std::vector<Time> search_starts(const TaskGraph& graph, int processors, int64_t effort,
                                uint64_t seed);

/// A schedule with the runs at these starts, on processors that are free then, and a message for
/// each result that is needed elsewhere.
TaskSchedule schedule_at(const TaskGraph& graph, const LogP& logp, int processors,
                         const std::vector<Time>& starts);

}  // namespace ibcoll::task_graph
