#include "studies/mapping/halving.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "studies/mapping/random.h"

namespace ibcoll::topology {
namespace {

using Corner = std::array<int, Grid::kMaxDimensions>;

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
        random_(options.seed),
        centre_(matrix.tasks()),
        piece_of_(matrix.tasks(), 0),
        far_(matrix.tasks(), 0),
        pull_(matrix.tasks(), 0) {}

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
    ++pieces_;
    for (const int task : piece.tasks) {
      piece_of_[task] = pieces_;
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
    const int all = static_cast<int>(piece.tasks.size());
    const int room_first = room_in(first), room_second = room_in(second);
    const double share = static_cast<double>(room_first) / (room_first + room_second);
    const int count = std::clamp(static_cast<int>(std::lround(all * share)),
                                 std::max(0, all - room_second), std::min(all, room_first));
    const double x_first = middle(first, along), x_second = middle(second, along);
    for (const int task : piece.tasks) {
      pull_[task] = 0;
      for (const CommMatrix::Edge& edge : matrix_.both(task)) {
        if (piece_of_[edge.task] == piece_of_[task]) continue;
        const double x = centre_[edge.task][along];
        pull_[task] += edge.bytes * (apart(along, x, x_second) - apart(along, x, x_first));
      }
    }
    first.tasks = piece.tasks;
    order_from_rim(first.tasks);
    cut(first.tasks, count, x_second - x_first);
    second.tasks.assign(first.tasks.begin() + count, first.tasks.end());
    first.tasks.resize(count);
    settle(first);
    settle(second);
    return {std::move(first), std::move(second)};
  }

  /// Sorts tasks of one piece by their hops from a task at the rim, the end that is pulled to the
  /// first half in front.
  void order_from_rim(std::vector<int>& tasks) {
    const int piece = piece_of_[tasks.front()];
    std::vector<int> queue;
    int rim = tasks[random_.below(static_cast<int>(tasks.size()))];
    constexpr int kSweeps = 3;
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (const int task : tasks) far_[task] = 0;  // not reached
      queue.clear();
      size_t next = 0;
      for (size_t head = 0; queue.size() < tasks.size();) {
        if (head == queue.size()) {  // the next connected part
          int start = rim;
          while (far_[start] != 0) start = tasks[next++];
          far_[start] = 1;
          queue.push_back(start);
        }
        for (; head < queue.size(); ++head) {
          for (const CommMatrix::Edge& edge : matrix_.both(queue[head])) {
            if (piece_of_[edge.task] != piece || far_[edge.task] != 0) continue;
            far_[edge.task] = far_[queue[head]] + 1;
            queue.push_back(edge.task);
          }
        }
      }
      rim = queue.back();
    }
    double front = 0, back = 0;
    for (size_t i = 0; i < queue.size(); ++i)
      (i < queue.size() / 2 ? front : back) += pull_[queue[i]];
    if (back > front) std::reverse(queue.begin(), queue.end());
    tasks = queue;
  }

  /// Rearranges tasks so that the first `count` of them are a half that costs few hop-bytes;
  /// `distance` hops lie between the halves.
  void cut(std::vector<int>& tasks, int count, double distance) {
    const int piece = piece_of_[tasks.front()];
    const int all = static_cast<int>(tasks.size());
    if (count == 0 || count == all) return;
    std::vector<char>& side = side_;
    std::vector<double>& gain = gain_;
    side.resize(matrix_.tasks());
    gain.resize(matrix_.tasks());
    for (int i = 0; i < all; ++i) side[tasks[i]] = i < count ? 0 : 1;
    constexpr int kPasses = 4;
    for (int pass = 0; pass < kPasses; ++pass) {
      using Entry = std::pair<double, int>;
      std::array<std::set<Entry>, 2> open;
      for (const int task : tasks) {
        gain[task] = side[task] == 0 ? -pull_[task] : pull_[task];
        for (const CommMatrix::Edge& edge : matrix_.both(task)) {
          if (piece_of_[edge.task] != piece) continue;
          gain[task] += edge.bytes * distance * (side[edge.task] == side[task] ? -1 : 1);
        }
        open[side[task]].insert({-gain[task], task});
      }
      std::vector<int> moved;
      double sum = 0, best = 0;
      size_t kept = 0;
      int in_first = count, idle = 0;
      constexpr int kPatience = 400;
      // One from each side in turn, so that the halves keep their sizes.
      while (idle < kPatience) {
        const int from = in_first >= count ? 0 : 1;
        if (open[from].empty()) break;
        const auto [negated, task] = *open[from].begin();
        open[from].erase(open[from].begin());
        sum -= negated;
        side[task] ^= 1;
        in_first += from == 0 ? -1 : 1;
        moved.push_back(task);
        for (const CommMatrix::Edge& edge : matrix_.both(task)) {
          if (piece_of_[edge.task] != piece) continue;
          auto& entries = open[side[edge.task]];
          const auto found = entries.find({-gain[edge.task], edge.task});
          const double change =
              2 * edge.bytes * distance * (side[edge.task] == side[task] ? -1 : 1);
          gain[edge.task] += change;
          if (found == entries.end()) continue;  // has moved in this pass
          entries.erase(found);
          entries.insert({-gain[edge.task], edge.task});
        }
        ++idle;
        if (in_first == count && sum > best * (1 + 1e-12)) {
          best = sum;
          kept = moved.size();
          idle = 0;
        }
      }
      for (size_t i = kept; i < moved.size(); ++i) side[moved[i]] ^= 1;
      if (kept == 0) break;
    }
    std::stable_partition(tasks.begin(), tasks.end(), [&](int task) { return side[task] == 0; });
  }

  const CommMatrix& matrix_;
  const Grid& grid_;
  const Room& room_;
  const bool ring_;
  FastRandom random_;
  std::vector<std::array<double, Grid::kMaxDimensions>> centre_;  ///< of each task's box
  std::vector<int> piece_of_;
  int pieces_ = 0;
  std::vector<int> far_;      ///< scratch of order_from_rim
  std::vector<double> pull_;  ///< hop-bytes that a task saves in the first half, by those outside
  std::vector<char> side_;    ///< scratch of cut
  std::vector<double> gain_;
};

}  // namespace

Placement place_by_halving(const CommMatrix& matrix, const Grid& grid, const Room& room,
                           const HalvingOptions& options) {
  if (matrix.tasks() == 0) return {};
  return Halver(matrix, grid, room, options).run();
}

}  // namespace ibcoll::topology
