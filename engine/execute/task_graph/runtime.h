#pragma once
/// Runs a schedule for real: task bodies in each processor's order, packaged messages over a link.

#include <functional>
#include <vector>

#include "engine/execute/task_graph/package_link.h"
#include "engine/planner/task_graph/generators.h"

namespace ibcoll::task_graph {

/// A computation cut into tasks that each make one number.
class TaskBodies {
 public:
  virtual ~TaskBodies() = default;
  /// Runs the tasks of [first, last), each an Instruction::kRun, in order: results[t] becomes the
  /// result of task t, those of its inputs are there.
  virtual void run(const Instruction* first, const Instruction* last, double* results) const = 0;
};

/// What one rank did.
struct RunTimes {
  int64_t elapsed_ns = 0;  ///< from its first instruction to its last
  int64_t waited_ns = 0;   ///< of that, for messages that weren't there
};

/// Runs processor `bootstrap.rank()` of a checked schedule once. `results` has room for every
/// task. Collective: all ranks start together. Fails when a peer does.
Result<RunTimes> run_processor(Bootstrap& bootstrap, const Schedule& schedule,
                               const TaskBodies& bodies, PackageLink& link,
                               std::vector<double>& results);

/// Gauss-Jordan or LU on a matrix: the bodies of a generator's tasks.
class MatrixProblem final : public TaskBodies {
 public:
  enum class Method { kGaussJordan, kGaussJordanB, kLu };
  /// A random, diagonally dominant system of n equations.
  MatrixProblem(Method method, int n, uint64_t seed);

  const TaskGraph& graph() const { return graph_; }
  void run(const Instruction* first, const Instruction* last, double* results) const override;

  /// The tasks whose results are the solution, in a fixed order: x of A x = b, or the entries of L
  /// and U that are computed.
  const std::vector<TaskId>& solution_tasks() const { return solution_tasks_; }
  /// The same numbers from a plain solver that knows nothing of tasks.
  std::vector<double> plain_solution() const;

 private:
  struct Body {
    MatrixStatement::Kind kind;
    int32_t operand[3];  ///< a task, or -1 - index of an input entry
  };
  Method method_;
  int n_;
  int columns_;
  std::vector<double> input_;  ///< row by row; the right-hand side is the last column
  TaskGraph graph_;
  std::vector<Body> bodies_;
  std::vector<TaskId> solution_tasks_;
};

/// The LogP parameters of a link as the runtime sees them, in nanoseconds: packing and unpacking
/// `results` results is part of the overheads.
struct MeasuredLogP {
  double send_overhead_ns = 0;
  double receive_overhead_ns = 0;
  double latency_ns = 0;
  double round_trip_ns = 0;
};

/// A schedule of no tasks whose messages go to and fro between processors 0 and 1: what
/// measure_logp() needs of a link. `rounds` messages each way.
Schedule logp_schedule(int rounds, int results);

/// Measures on ranks 0 and 1 (others take part and do nothing): overheads by bursts, latency from
/// round trips. `schedule` is logp_schedule(rounds, results), `link` was made for it. The result
/// is the same on all ranks.
Result<MeasuredLogP> measure_logp(Bootstrap& bootstrap, const Schedule& schedule,
                                  PackageLink& link);

}  // namespace ibcoll::task_graph
