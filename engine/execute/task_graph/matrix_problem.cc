#include <cmath>
#include <random>

#include "engine/execute/task_graph/runtime.h"

namespace ibcoll::task_graph {

using Kind = MatrixStatement::Kind;

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
  const std::vector<MatrixStatement> statements = std::move(scratch());
  scratch() = {};
  bodies_.reserve(statements.size());
  std::vector<TaskId> writer(input_.size(), -1);
  for (size_t task = 0; task < statements.size(); ++task) {
    const MatrixStatement& s = statements[task];
    const int entry[3] = {s.row * columns_ + s.column,
                          (s.kind == Kind::kDivide ? s.step : s.row) * columns_ + s.step,
                          s.step * columns_ + s.column};
    // LU divides column k by the pivot, Gauss-Jordan row k: both by a[k][k].
    Body body{s.kind, {}};
    for (int i = 0; i < 3; ++i)
      body.operand[i] = s.operands[i] >= 0 ? s.operands[i] : -1 - entry[i];
    bodies_.push_back(body);
    if (s.kind != Kind::kCopy) writer[entry[0]] = static_cast<TaskId>(task);
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

void MatrixProblem::run(const Instruction* first, const Instruction* last, double* results) const {
  const auto value = [&](int32_t operand) {
    return operand >= 0 ? results[operand] : input_[-1 - operand];
  };
  for (; first != last; ++first) {
    const Body& body = bodies_[first->id];
    const double x = value(body.operand[0]);
    switch (body.kind) {
      case Kind::kDivide:
        results[first->id] = x / value(body.operand[1]);
        break;
      case Kind::kSubtract:
        results[first->id] = x - value(body.operand[1]) * value(body.operand[2]);
        break;
      case Kind::kCopy:
        results[first->id] = x;
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
