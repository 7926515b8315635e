/// Communication of the NAS Parallel Benchmarks CG and SP as their MPI sources (NPB 3) decompose
/// the problem.

#include <array>
#include <cmath>
#include <utility>

#include "studies/mapping/patterns.h"

namespace ibcoll::topology {
namespace {

constexpr double kDouble = 8;  ///< bytes of the double-precision words that both programs exchange

/// Position of a class letter in "SWABCDE", or an error that names it.
Result<int> class_index(const char* program, char problem) {
  constexpr std::string_view kClasses = "SWABCDE";
  const size_t index = kClasses.find(problem);
  if (index == std::string_view::npos) {
    return fail(ErrorCode::kInvalidArgument, "{}: class '{}' is none of {}", program, problem,
                kClasses);
  }
  return static_cast<int>(index);
}

/// Elements of part `part` when `total` are dealt to `parts`, the first ones taking one more.
int dealt(int total, int parts, int part) { return total / parts + (part < total % parts ? 1 : 0); }

}  // namespace

Result<CommMatrix> npb_cg(int tasks, char problem) {
  constexpr std::array<int, 7> kRows = {1400, 7000, 14000, 75000, 150000, 1500000, 9000000};
  constexpr int kSteps =
      25;  // conj_grad: matrix-vector products inside the loop; one more for the residual
  IBCOLL_ASSIGN(const int index, class_index("cg", problem));
  if (tasks < 1 || (tasks & (tasks - 1)) != 0) {
    return fail(ErrorCode::kInvalidArgument, "cg: {} tasks is not a power of two", tasks);
  }
  int exponent = 0;
  while ((1 << exponent) < tasks) ++exponent;
  const int columns = 1 << ((exponent + 1) / 2), rows = 1 << (exponent / 2);
  const int total = kRows[index];
  if (total < columns)
    return fail(ErrorCode::kInvalidArgument, "cg: {} tasks for {} rows", tasks, total);

  std::vector<Flow> flows;
  for (int me = 0; me < tasks; ++me) {
    const int row = me / columns, column = me % columns;
    const int length = dealt(total, rows, row);  // elements of this row of tasks
    const bool square = rows == columns;
    const int half = me % 2 == 0 ? (1 + length) / 2 : length / 2;
    const int own = square ? length : half;
    const auto send = [&](int to, double bytes) { flows.push_back({me, to, bytes}); };
    // Sums over a row of tasks: partners at half the row's length, then a quarter, and so on.
    for (int width = columns; width > 1; width /= 2) {
      const int partner = row * columns + (column + width / 2) % width + column / width * width;
      const bool nearest = width == 2;
      const int exchanged = !square && nearest ? length - own : own;
      send(partner, kDouble * exchanged * (kSteps + 1));  // w, in every product
      send(partner, kDouble * (1 + 2 * kSteps + 1));  // rho; p.q and rho a step; the residual norm
      send(partner, kDouble * 2);                     // the two norms of the outer iteration
    }
    const int transposed =
        square ? me % rows * rows + me / rows : 2 * (me / 2 % rows * rows + me / 2 / rows) + me % 2;
    send(transposed, kDouble * own * (kSteps + 1));
  }
  return CommMatrix::from_flows(tasks, std::move(flows));
}

Result<CommMatrix> npb_sp(int tasks, char problem) {
  constexpr std::array<int, 7> kPoints = {12, 36, 64, 102, 162, 408, 1020};
  IBCOLL_ASSIGN(const int index, class_index("sp", problem));
  const int cells = static_cast<int>(std::lround(std::sqrt(tasks)));
  if (tasks < 1 || cells * cells != tasks) {
    return fail(ErrorCode::kInvalidArgument, "sp: {} tasks is not a square", tasks);
  }
  const int points = kPoints[index];
  if (points / cells < 3) {
    return fail(ErrorCode::kInvalidArgument,
                "sp: class {} has {} points a side, at least 3 for each of {} cells", problem,
                points, cells);
  }
  const auto wrap = [cells](int x) { return (x + cells) % cells; };
  const auto task_at = [cells, &wrap](int i, int j) { return wrap(i) + cells * wrap(j); };

  std::vector<Flow> flows;
  for (int me = 0; me < tasks; ++me) {
    const int i = me % cells, j = me / cells;
    const std::array<int, 3> successor = {task_at(i + 1, j), task_at(i, j + 1),
                                          task_at(i - 1, j + 1)};
    const std::array<int, 3> predecessor = {task_at(i - 1, j), task_at(i, j - 1),
                                            task_at(i + 1, j - 1)};
    for (int cell = 0; cell < cells; ++cell) {
      const std::array<int, 3> at = {wrap(i + cell), wrap(j - cell), cell};
      const auto size = [&](int d) { return dealt(points, cells, at[d]); };
      // Points of a face that a solve passes on: the domain's own surface is left out.
      const auto inner = [&](int d) { return size(d) - (at[d] == 0) - (at[d] == cells - 1); };
      for (int d = 0; d < 3; ++d) {
        const int e = (d + 1) % 3, f = (d + 2) % 3;
        const double face =
            kDouble * 5 * 2 * size(e) * size(f);  // copy_faces: 5 variables, 2 layers
        const double solve = kDouble * inner(e) * inner(f);
        if (at[d] != cells - 1) flows.push_back({me, successor[d], face + 22 * solve});
        if (at[d] != 0) flows.push_back({me, predecessor[d], face + 10 * solve});
      }
    }
  }
  return CommMatrix::from_flows(tasks, std::move(flows));
}

}  // namespace ibcoll::topology
