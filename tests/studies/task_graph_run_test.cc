/// Task graphs run for real.

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "engine/transport/open.h"
#include "studies/task_graph/run/real_runs.h"

namespace ibcoll::task_graph {
namespace {

TEST(ProcessorProgram, UsesSlotsAgainAndKeepsTheSolution) {
  const MatrixProblem problem(MatrixProblem::Method::kGaussJordan, 24, 7);
  const TaskGraph& graph = problem.graph();
  const TaskSchedule serial = *schedule_serial(graph, {}, 1, {});
  const ProcessorProgram program(graph, serial, 0, problem, problem.solution_tasks());
  EXPECT_EQ(program.operations(), graph.size());
  std::vector<double> slots;
  program.fill_slots(slots);
  // The inputs, about a matrix of live results, and not one slot a task.
  EXPECT_LT(slots.size(), 3 * problem.inputs().size());
  for (const ProcessorProgram::Step& step : program.steps()) program.run(step, slots.data());
  const std::vector<double> expected = problem.plain_solution();
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(slots[program.slot_of_kept(i)], expected[i], 1e-12);
}

class RealRuns : public ::testing::TestWithParam<std::tuple<const char*, bool>> {};
INSTANTIATE_TEST_SUITE_P(, RealRuns,
                         ::testing::Combine(::testing::Values("shm", "loopback"),
                                            ::testing::Bool()));

/// Solves a small system with a schedule for cheap messages: there are some whatever they cost
/// here.
void expect_solved(MatrixProblem::Method method, const char* scheduler, const char* channel,
                   bool threads, int processors) {
  const auto result = run_matrix_problem({.method = method,
                                          .size = 20,
                                          .processors = processors,
                                          .scheduler = find_scheduler(scheduler).value(),
                                          .channel = channel,
                                          .threads = threads,
                                          .repeat = 2,
                                          .logp = LogP{5, 5, 10}});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_GT(result->messages, 0);
  EXPECT_LT(result->worst_error, 1e-12);
}

TEST_P(RealRuns, SolveTheSystemAsAPlainSolverDoes) {
  const auto [channel, threads] = GetParam();
  expect_solved(MatrixProblem::Method::kGaussJordan, "dsh", channel, threads, 3);
  expect_solved(MatrixProblem::Method::kGaussJordanB, "sppc", channel, threads, 2);
  expect_solved(MatrixProblem::Method::kLu, "heft", channel, threads, 2);
}

TEST(VerbsTaskGraph, SolvesTheSystemOverQueuePairs) {
  if (!usable_network_port("verbs"))
    GTEST_SKIP() << "no RDMA device here; ./run softroce brings some";
  expect_solved(MatrixProblem::Method::kGaussJordan, "dsh", "verbs", false, 3);
  expect_solved(MatrixProblem::Method::kLu, "sppc", "verbs", true, 2);
  const auto logp = run_logp({.channel = "verbs", .results = 16, .rounds = 50});
  ASSERT_TRUE(logp.has_value()) << logp.error().message;
  EXPECT_GT(logp->send_overhead_ns, 0);
  EXPECT_GT(logp->round_trip_ns, 0);
}

}  // namespace
}  // namespace ibcoll::task_graph
