#pragma once
/// Runs task-graph schedules for real on this machine: starts the ranks, measures LogP, schedules
/// with what was measured, runs and compares.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "studies/task_graph/run/matrix_problem.h"
#include "studies/task_graph/run/runtime.h"
#include "studies/task_graph/schedulers.h"

namespace ibcoll::task_graph {

/// What may carry the messages: "shm", and the transports between servers that the build has.
std::vector<std::string> channel_names();
/// That name, if it is one of them.
Result<std::string> parse_channel(std::string_view name);
/// "gauss-jordan", "gauss-jordan-b" or "lu".
Result<MatrixProblem::Method> parse_method(std::string_view name);

struct RunSettings {
  MatrixProblem::Method method = MatrixProblem::Method::kGaussJordan;
  int size = 64;
  int processors = 2;
  const Scheduler* scheduler = nullptr;
  std::string channel = "shm";  ///< one of channel_names()
  bool threads = false;         ///< ranks are threads, not processes
  int repeat = 11;
  std::optional<LogP> logp = {};  ///< schedule with these costs, in tasks, instead of measuring
  uint64_t seed = 1;
};

struct RunResult {
  MeasuredLogP logp;
  double task_ns = 0;           ///< one task as the runtime runs it: the unit of the model
  double serial_ns = 0;         ///< median of a run of all tasks on one rank
  double predicted_ns = 0;      ///< extended makespan in that unit
  double measured_ns = 0;       ///< median of the slowest rank's time
  double speedup_model = 0;     ///< Sm
  double speedup_measured = 0;  ///< Se
  int64_t messages = 0;
  int64_t results_a_message = 0;
  double worst_error =
      0;  ///< largest difference from the plain solver, relative to the largest entry
};

/// Measures LogP at the message size of a first schedule and the time of a task in its order,
/// schedules again with that, runs `repeat` times. Every rank computes the schedule for itself.
Result<RunResult> run_matrix_problem(const RunSettings& settings);

struct LogPSettings {
  std::string channel = "shm";  ///< one of channel_names()
  bool threads = false;
  int results = 1;    ///< 8-byte results in a message
  int rounds = 2000;  ///< messages each way
};

/// LogP of two ranks on this machine.
Result<MeasuredLogP> run_logp(const LogPSettings& settings);

}  // namespace ibcoll::task_graph
