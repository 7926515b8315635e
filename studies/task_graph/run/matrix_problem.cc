#include "studies/task_graph/run/matrix_problem.h"

#include <cmath>
#include <random>

namespace ibcoll::task_graph {

namespace {

TaskGraph generate_for(MatrixProblem::Method method, int n,
                       std::vector<MatrixStatement>& statements) {
  switch (method) {
    case MatrixProblem::Method::kGaussJordan:
      return gauss_jordan(n, &statements);
    case MatrixProblem::Method::kGaussJordanB:
      return gauss_jordan_b(n, &statements);
    case MatrixProblem::Method::kLu:
      break;
  }
  return lu_decomposition(n, &statements);
}

std::vector<MatrixStatement>& scratch() {
  static thread_local std::vector<MatrixStatement> statements;
  return statements;
}

}  // namespace

MatrixProblem::MatrixProblem(Method method, int n, uint64_t seed)
    : method_(method),
      n_(n),
      columns_(method == Method::kLu ? n : n + 1),
      input_(static_cast<size_t>(n) * columns_),
      graph_(generate_for(method, n, scratch())) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < n_; ++i) {
    for (int j = 0; j < columns_; ++j) {
      const double value = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
      input_[static_cast<size_t>(i) * columns_ + j] = i == j ? value + n_ : value;
    }
  }
  statements_ = std::move(scratch());
  scratch() = {};
  std::vector<TaskId> writer(input_.size(), -1);
  for (size_t task = 0; task < statements_.size(); ++task) {
    const MatrixStatement& s = statements_[task];
    if (s.kind != StatementKind::kCopy) writer[entry(s.row, s.column)] = static_cast<TaskId>(task);
  }
  if (method_ == Method::kLu) {
    for (TaskId task : writer) {
      if (task >= 0) solution_tasks_.push_back(task);
    }
  } else {
    for (int i = 0; i < n_; ++i)
      solution_tasks_.push_back(writer[static_cast<size_t>(i) * columns_ + n_]);
  }
}

namespace {

/// The kind stands in the low bits of an operation's first word, the slot of its result above.
constexpr int kKindBits = 2;

}  // namespace

TaskOperation MatrixProblem::compile(TaskId task, int32_t result,
                                     std::span<const int32_t> slot_of) const {
  const MatrixStatement& s = statements_[task];
  // LU divides column k by the pivot, Gauss-Jordan row k: both by a[k][k].
  const int32_t read[3] = {entry(s.row, s.column),
                           entry(s.kind == StatementKind::kDivide ? s.step : s.row, s.step),
                           entry(s.step, s.column)};
  TaskOperation operation{result << kKindBits | static_cast<int32_t>(s.kind)};
  for (int i = 0; i < 3; ++i)
    operation[i + 1] = s.operands[i] >= 0 ? slot_of[s.operands[i]] : read[i];
  return operation;
}

void MatrixProblem::run(std::span<const TaskOperation> operations, double* slots) const {
  for (const auto& [result, a, b, c] : operations) {
    double& to = slots[result >> kKindBits];
    switch (static_cast<StatementKind>(result & ((1 << kKindBits) - 1))) {
      case StatementKind::kDivide:
        to = slots[a] / slots[b];
        break;
      case StatementKind::kSubtract:
        to = slots[a] - slots[b] * slots[c];
        break;
      case StatementKind::kCopy:
        to = slots[a];
        break;
    }
  }
}

std::vector<double> MatrixProblem::plain_solution() const {
  std::vector<double> a = input_;
  const auto at = [&](int i, int j) -> double& { return a[static_cast<size_t>(i) * columns_ + j]; };
  std::vector<double> solution;
  if (method_ == Method::kLu) {
    for (int k = 0; k + 1 < n_; ++k) {
      for (int i = k + 1; i < n_; ++i) {
        at(i, k) /= at(k, k);
        for (int j = k + 1; j < n_; ++j) at(i, j) -= at(i, k) * at(k, j);
      }
    }
    // Row 0 is never assigned.
    for (int i = 1; i < n_; ++i) {
      for (int j = 0; j < n_; ++j) solution.push_back(at(i, j));
    }
    return solution;
  }
  // Gaussian elimination with partial pivoting and back substitution: another way to x.
  for (int k = 0; k < n_; ++k) {
    int pivot = k;
    for (int i = k + 1; i < n_; ++i) {
      if (std::fabs(at(i, k)) > std::fabs(at(pivot, k))) pivot = i;
    }
    for (int j = k; j < columns_; ++j) std::swap(at(k, j), at(pivot, j));
    for (int i = k + 1; i < n_; ++i) {
      const double factor = at(i, k) / at(k, k);
      for (int j = k; j < columns_; ++j) at(i, j) -= factor * at(k, j);
    }
  }
  solution.resize(n_);
  for (int i = n_ - 1; i >= 0; --i) {
    double sum = at(i, n_);
    for (int j = i + 1; j < n_; ++j) sum -= at(i, j) * solution[j];
    solution[i] = sum / at(i, i);
  }
  return solution;
}

}  // namespace ibcoll::task_graph
