#pragma once
/// List schedulers as they were published, on processors that may differ (see Costs): HEFT and CPOP
/// in H. Topcuoglu, S. Hariri, M.-Y. Wu, Performance-Effective and Low-Complexity Task Scheduling
/// for Heterogeneous Computing, IEEE Transactions on Parallel and Distributed Systems 13(3), 2002;
/// PEFT in H. Arabnejad, J. G. Barbosa, List Scheduling Algorithm for Heterogeneous Systems by an
/// Optimistic Cost Table, the same 25(3), 2014. Weights of the graph are the mean run times.

#include "studies/task_graph/list_scheduling.h"

namespace ibcoll::task_graph {

/// By descending upward rank, each where it finishes first.
ClassicSchedule plan_heft(const TaskGraph& graph, const Costs& costs, int processors,
                          const Placed& placed = {});

/// A critical path on the processor that runs it fastest. Of the tasks that can run, the one on the
/// longest path comes first; those beside the critical path run where they finish first.
ClassicSchedule plan_cpop(const TaskGraph& graph, const Costs& costs, int processors,
                          const Placed& placed = {});

/// By the optimistic cost of what is behind a task: were each successor to run where it is best,
/// and wait for this task's result only. Of the tasks that can run, the one of highest mean cost
/// comes first; it runs where finish and cost together are least.
ClassicSchedule plan_peft(const TaskGraph& graph, const Costs& costs, int processors,
                          const Placed& placed = {});

}  // namespace ibcoll::task_graph
