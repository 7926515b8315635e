#pragma once
/// Schedules of task graphs, as tests make them.

#include <gtest/gtest.h>

#include "studies/task_graph/quality.h"
#include "studies/task_graph/schedulers.h"

namespace ibcoll::testing {

/// By the scheduler of this name, with the paper's costs of communication.
inline task_graph::TaskSchedule scheduled(const char* name, const task_graph::TaskGraph& graph,
                                          int processors) {
  auto made = schedule(*task_graph::find_scheduler(name).value(), graph,
                       task_graph::paper_logp(processors), processors);
  EXPECT_TRUE(made.has_value()) << name;
  return *made;
}

}  // namespace ibcoll::testing
