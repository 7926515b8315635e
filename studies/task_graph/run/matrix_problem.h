#pragma once
/// Systems of equations as task graphs with bodies.

#include <vector>

#include "studies/task_graph/generators.h"
#include "studies/task_graph/run/processor_program.h"

namespace ibcoll::task_graph {

/// Gauss-Jordan or LU on a matrix: the bodies of a generator's tasks.
class MatrixProblem final : public TaskBodies {
 public:
  enum class Method { kGaussJordan, kGaussJordanB, kLu };
  /// A random, diagonally dominant system of n equations.
  MatrixProblem(Method method, int n, uint64_t seed);

  const TaskGraph& graph() const { return graph_; }
  std::span<const double> inputs() const override { return input_; }
  TaskOperation compile(TaskId task, int32_t result,
                        std::span<const int32_t> slot_of) const override;
  void run(std::span<const TaskOperation> operations, double* slots) const override;

  /// The tasks whose results are the solution, in a fixed order: x of A x = b, or the entries of L
  /// and U that are computed.
  const std::vector<TaskId>& solution_tasks() const { return solution_tasks_; }
  /// The same numbers from a plain solver that knows nothing of tasks.
  std::vector<double> plain_solution() const;

 private:
  int32_t entry(int row, int column) const { return row * columns_ + column; }

  Method method_;
  int n_;
  int columns_;
  std::vector<double> input_;  ///< row by row; the right-hand side is the last column
  TaskGraph graph_;
  std::vector<MatrixStatement> statements_;
  std::vector<TaskId> solution_tasks_;
};

}  // namespace ibcoll::task_graph
