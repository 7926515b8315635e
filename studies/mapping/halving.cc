#include "studies/mapping/halving.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "studies/mapping/bisect.h"

namespace ibcoll::topology {
namespace {

using Corner = std::array<int, Grid::kMaxDimensions>;

/// How many tasks go into the first of two parts of a network that share `tasks` by their room.
int share_of(int tasks, int room_first, int room_second) {
  const double share = static_cast<double>(room_first) / (room_first + room_second);
  return std::clamp(static_cast<int>(std::lround(tasks * share)), std::max(0, tasks - room_second),
                    std::min(tasks, room_first));
}

/// A box of nodes and the tasks that go there.
struct Piece {
  Corner low{}, sides{};
  std::vector<int> tasks;
};

class Halver {
 public:
  Halver(const CommMatrix& matrix, const Grid& grid, const Room& room,
         const HalvingOptions& options)
      : matrix_(matrix),
        grid_(grid),
        room_(room),
        ring_(grid.torus() && !options.mesh_hops),
        bisector_(matrix, options.seed),
        centre_(matrix.tasks()) {}

  Placement run() {
    Piece whole;
    for (int d = 0; d < grid_.dimensions(); ++d) whole.sides[d] = grid_.side(d);
    whole.tasks.resize(matrix_.tasks());
    std::iota(whole.tasks.begin(), whole.tasks.end(), 0);
    settle(whole);
    Placement placement(matrix_.tasks());
    // All pieces of one size are cut before any is cut again: what lies outside of a piece is known
    // about as well as what is inside.
    std::vector<Piece> pieces{std::move(whole)};
    while (!pieces.empty()) {
      std::vector<Piece> smaller;
      for (Piece& piece : pieces) {
        if (piece.tasks.empty()) continue;
        if (nodes_in(piece) == 1) {
          const std::vector<int> at(piece.low.begin(), piece.low.begin() + grid_.dimensions());
          for (const int task : piece.tasks) placement[task] = grid_.node_at(at);
          continue;
        }
        auto [first, second] = halve(piece);
        smaller.push_back(std::move(first));
        smaller.push_back(std::move(second));
      }
      pieces = std::move(smaller);
    }
    return placement;
  }

 private:
  int nodes_in(const Piece& piece) const {
    int nodes = 1;
    for (int d = 0; d < grid_.dimensions(); ++d) nodes *= piece.sides[d];
    return nodes;
  }

  /// Places for tasks in a box.
  int room_in(const Piece& piece) const {
    if (room_.usable.empty()) return nodes_in(piece) * room_.per_node;
    int room = 0;
    std::vector<int> at(piece.low.begin(), piece.low.begin() + grid_.dimensions());
    for (;;) {
      if (room_.allows(grid_.node_at(at))) room += room_.per_node;
      int d = 0;
      while (d < grid_.dimensions() && ++at[d] == piece.low[d] + piece.sides[d]) {
        at[d] = piece.low[d];
        ++d;
      }
      if (d == grid_.dimensions()) return room;
    }
  }

  double middle(const Piece& piece, int d) const {
    return piece.low[d] + 0.5 * (piece.sides[d] - 1);
  }
  double apart(int d, double x, double y) const {
    const double straight = std::abs(x - y);
    return ring_ ? std::min(straight, grid_.side(d) - straight) : straight;
  }

  /// Notes that a piece's tasks are somewhere in its box.
  void settle(const Piece& piece) {
    bisector_.make_set(piece.tasks);
    for (const int task : piece.tasks) {
      for (int d = 0; d < grid_.dimensions(); ++d) centre_[task][d] = middle(piece, d);
    }
  }

  std::pair<Piece, Piece> halve(const Piece& piece) {
    int along = 0;
    for (int d = 0; d < grid_.dimensions(); ++d) {
      if (piece.sides[d] >= piece.sides[along]) along = d;
    }
    Piece first = piece, second = piece;
    first.sides[along] = (piece.sides[along] + 1) / 2;
    second.sides[along] = piece.sides[along] / 2;
    second.low[along] += first.sides[along];
    const int count =
        share_of(static_cast<int>(piece.tasks.size()), room_in(first), room_in(second));
    const double x_first = middle(first, along), x_second = middle(second, along);
    for (const int task : piece.tasks) {
      double& pull = bisector_.pull(task);
      pull = 0;
      for (const CommMatrix::Edge& edge : matrix_.both(task)) {
        if (bisector_.set_of(edge.task) == bisector_.set_of(task)) continue;
        const double x = centre_[edge.task][along];
        pull += edge.bytes * (apart(along, x, x_second) - apart(along, x, x_first));
      }
    }
    first.tasks = piece.tasks;
    bisector_.cut(first.tasks, count, x_second - x_first);
    second.tasks.assign(first.tasks.begin() + count, first.tasks.end());
    first.tasks.resize(count);
    settle(first);
    settle(second);
    return {std::move(first), std::move(second)};
  }

  const CommMatrix& matrix_;
  const Grid& grid_;
  const Room& room_;
  const bool ring_;
  Bisector bisector_;
  std::vector<std::array<double, Grid::kMaxDimensions>> centre_;  ///< of each task's box
};

}  // namespace

Placement place_by_halving(const CommMatrix& matrix, const Grid& grid, const Room& room,
                           const HalvingOptions& options) {
  if (matrix.tasks() == 0) return {};
  return Halver(matrix, grid, room, options).run();
}

Placement place_by_halving(const CommMatrix& matrix, const Hierarchy& hierarchy, const Room& room,
                           uint64_t seed) {
  Bisector bisector(matrix, seed);
  Placement placement(matrix.tasks());
  // What is outside of a group is equally far from all that is in it: groups are cut one by one.
  struct Part {
    int first_node, nodes, level;
    std::vector<int> tasks;
  };
  std::vector<Part> parts{{0, hierarchy.nodes(), hierarchy.levels(), {}}};
  parts[0].tasks.resize(matrix.tasks());
  std::iota(parts[0].tasks.begin(), parts[0].tasks.end(), 0);
  const auto room_on = [&](int first_node, int nodes) {
    int places = 0;
    for (int node = first_node; node < first_node + nodes; ++node)
      places += room.allows(node) ? room.per_node : 0;
    return places;
  };
  while (!parts.empty()) {
    Part part = std::move(parts.back());
    parts.pop_back();
    if (part.tasks.empty()) continue;
    if (part.nodes == 1) {
      for (const int task : part.tasks) placement[task] = part.first_node;
      continue;
    }
    while (hierarchy.span(part.level - 1) == part.nodes) --part.level;
    const int member = hierarchy.span(part.level - 1);
    Part rest = part;
    part.nodes = (part.nodes / member + 1) / 2 * member;
    rest.first_node += part.nodes;
    rest.nodes -= part.nodes;
    const int count =
        share_of(static_cast<int>(part.tasks.size()), room_on(part.first_node, part.nodes),
                 room_on(rest.first_node, rest.nodes));
    bisector.cut(part.tasks, count, hierarchy.distance_at(part.level - 1));
    rest.tasks.assign(part.tasks.begin() + count, part.tasks.end());
    part.tasks.resize(count);
    bisector.make_set(part.tasks);
    bisector.make_set(rest.tasks);
    parts.push_back(std::move(part));
    parts.push_back(std::move(rest));
  }
  return placement;
}

}  // namespace ibcoll::topology
