#include "studies/mapping/tile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace ibcoll::topology {
namespace {

using Inside =
    std::array<std::array<double, Units::kSize>, Units::kSize>;  ///< bytes from place to place

/// A perfect matching by falling traffic; empty if some task is left without a partner.
std::vector<std::pair<int, int>> heaviest_pairs(const CommMatrix& matrix) {
  std::vector<Flow> edges;
  for (int task = 0; task < matrix.tasks(); ++task) {
    for (const CommMatrix::Edge& edge : matrix.both(task)) {
      if (task < edge.task) edges.push_back({task, edge.task, edge.bytes});
    }
  }
  std::stable_sort(edges.begin(), edges.end(),
                   [](const Flow& a, const Flow& b) { return a.bytes > b.bytes; });
  std::vector<char> taken(matrix.tasks(), 0);
  std::vector<std::pair<int, int>> pairs;
  for (const Flow& edge : edges) {
    if (taken[edge.from] || taken[edge.to]) continue;
    taken[edge.from] = taken[edge.to] = 1;
    pairs.emplace_back(edge.from, edge.to);
  }
  if (2 * pairs.size() != static_cast<size_t>(matrix.tasks())) pairs.clear();
  return pairs;
}

Inside traffic_inside(const CommMatrix& matrix, const std::array<int, Units::kSize>& tasks) {
  Inside inside{};
  for (int i = 0; i < Units::kSize; ++i) {
    for (const CommMatrix::Edge& edge : matrix.out(tasks[i])) {
      for (int j = 0; j < Units::kSize; ++j) {
        if (edge.task == tasks[j]) inside[i][j] = edge.bytes;
      }
    }
  }
  return inside;
}

bool same(const Inside& a, const Inside& b) {
  for (int i = 0; i < Units::kSize; ++i) {
    for (int j = 0; j < Units::kSize; ++j) {
      if (std::abs(a[i][j] - b[i][j]) > 1e-9 * std::max(a[i][j], b[i][j])) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<Units> equal_fours(const CommMatrix& matrix) {
  if (matrix.tasks() == 0 || matrix.tasks() % Units::kSize != 0) return std::nullopt;
  const auto pairs = heaviest_pairs(matrix);
  if (pairs.empty()) return std::nullopt;
  std::vector<int> pair_of(matrix.tasks());
  for (size_t i = 0; i < pairs.size(); ++i)
    pair_of[pairs[i].first] = pair_of[pairs[i].second] = static_cast<int>(i);
  std::vector<Flow> flows = matrix.flows();
  for (Flow& flow : flows) {
    flow.from = pair_of[flow.from];
    flow.to = pair_of[flow.to];
  }
  const auto between = CommMatrix::from_flows(static_cast<int>(pairs.size()), std::move(flows));
  if (!between) return std::nullopt;
  const auto fours = heaviest_pairs(*between);
  if (fours.empty()) return std::nullopt;

  std::vector<std::array<int, Units::kSize>> groups;
  for (const auto& [a, b] : fours) {
    groups.push_back({pairs[a].first, pairs[a].second, pairs[b].first, pairs[b].second});
    std::sort(groups.back().begin(), groups.back().end());
  }
  std::sort(groups.begin(), groups.end());
  // The first group's order is the model; the others follow it, lower tasks first where that is
  // open.
  const Inside model = traffic_inside(matrix, groups.front());
  Units units;
  for (std::array<int, Units::kSize>& order : groups) {
    bool found = false;
    do {
      found = same(traffic_inside(matrix, order), model);
      if (found) units.tasks.insert(units.tasks.end(), order.begin(), order.end());
    } while (!found && std::next_permutation(order.begin(), order.end()));
    if (!found) return std::nullopt;
  }
  std::array<int, Units::kSize> turn;
  std::iota(turn.begin(), turn.end(), 0);
  do {
    Inside turned{};
    for (int i = 0; i < Units::kSize; ++i) {
      for (int j = 0; j < Units::kSize; ++j) turned[i][j] = model[turn[i]][turn[j]];
    }
    if (same(turned, model)) units.turns.push_back(turn);
  } while (std::next_permutation(turn.begin(), turn.end()));
  return units;
}

namespace {

constexpr int kDimensions = 3;
using Offset = std::array<int, kDimensions>;
using Tile = std::array<Offset, Units::kSize>;

/// A lattice of index four as what a node's coordinates are modulo it: a number 0 to 3.
struct Lattice {
  Offset first{}, second{};
  int modulus = 4;  ///< 4: first alone counts; 2: both, modulo 2 each

  int class_of(const Offset& at) const {
    int a = 0, b = 0;
    for (int d = 0; d < kDimensions; ++d) {
      a += first[d] * at[d];
      b += second[d] * at[d];
    }
    return modulus == 4 ? a & 3 : (a & 1) * 2 + (b & 1);  // also right for negative sums
  }
  /// Whether going round a ring leads back to the same class.
  bool closes(const Offset& sides) const {
    for (int d = 0; d < kDimensions; ++d) {
      if (first[d] * sides[d] % modulus != 0 || second[d] * sides[d] % modulus != 0) return false;
    }
    return true;
  }
};

std::vector<Lattice> lattices() {
  std::vector<Lattice> all;
  for (int code = 0; code < 64; ++code) {
    const Offset factors{code & 3, code >> 2 & 3, code >> 4 & 3};
    if (std::ranges::any_of(factors, [](int f) { return f % 2 != 0; }))
      all.push_back({factors, {}, 4});
  }
  for (int a = 1; a < 8; ++a) {
    for (int b = a + 1; b < 8; ++b) {
      all.push_back({{a & 1, a >> 1 & 1, a >> 2}, {b & 1, b >> 1 & 1, b >> 2}, 2});
    }
  }
  return all;
}

/// Loads of the links of a tiled torus: one value for each class of nodes, dimension and direction.
struct TileLoad {
  double largest = 0, squares = 0;
  bool operator<(const TileLoad& other) const {
    constexpr double kEqual = 1 + 1e-9;
    if (largest * kEqual < other.largest) return true;
    return largest <= other.largest * kEqual && squares * kEqual < other.squares;
  }
};

TileLoad load_of(const Inside& inside, const Lattice& lattice, const Tile& tile) {
  std::array<double, Units::kSize * kDimensions * 2> loads{};
  for (int i = 0; i < Units::kSize; ++i) {
    for (int j = 0; j < Units::kSize; ++j) {
      if (inside[i][j] == 0) continue;
      Offset at = tile[i];
      for (int d = 0; d < kDimensions; ++d) {
        while (at[d] != tile[j][d]) {
          const bool up = tile[j][d] > at[d];
          loads[(lattice.class_of(at) * kDimensions + d) * 2 + (up ? 0 : 1)] += inside[i][j];
          at[d] += up ? 1 : -1;
        }
      }
    }
  }
  TileLoad result;
  for (const double load : loads) {
    result.largest = std::max(result.largest, load);
    result.squares += load * load;
  }
  return result;
}

/// The nodes of a tile in ascending order, shifted so that their coordinates begin at 0.
Tile shape_of(Tile tile) {
  for (int d = 0; d < kDimensions; ++d) {
    int low = tile[0][d];
    for (const Offset& place : tile) low = std::min(low, place[d]);
    for (Offset& place : tile) place[d] -= low;
  }
  std::sort(tile.begin(), tile.end());
  return tile;
}

/// The nodes of all copies of a tile.
std::vector<int> lay(const Grid& grid, const Lattice& lattice, const Tile& tile) {
  std::vector<int> nodes, at(grid.dimensions());
  for (int node = 0; node < grid.nodes(); ++node) {
    Offset site{};
    for (int d = 0; d < grid.dimensions(); ++d) site[d] = grid.coordinate(node, d);
    if (lattice.class_of(site) != 0) continue;
    for (const Offset& offset : tile) {
      for (int d = 0; d < grid.dimensions(); ++d)
        at[d] = (site[d] + offset[d] + grid.side(d)) % grid.side(d);
      nodes.push_back(grid.node_at(at));
    }
  }
  return nodes;
}

}  // namespace

std::vector<Tiling> tile_torus(const CommMatrix& matrix, const Units& units, const Grid& grid) {
  constexpr int kShortestRing = 4;
  if (!grid.torus() || grid.dimensions() > kDimensions ||
      grid.nodes() != units.count() * Units::kSize)
    return {};
  Offset sides;
  sides.fill(1);
  for (int d = 0; d < grid.dimensions(); ++d) {
    sides[d] = grid.side(d);
    if (sides[d] > 1 && sides[d] < kShortestRing) return {};
  }
  std::array<int, Units::kSize> first_unit;
  std::copy_n(units.tasks.begin(), Units::kSize, first_unit.begin());
  const Inside inside = traffic_inside(matrix, first_unit);
  std::vector<Offset> offsets;
  for (int code = 0; code < 27; ++code) {
    const Offset offset{code % 3 - 1, code / 3 % 3 - 1, code / 9 - 1};
    bool inside_torus = true;
    for (int d = 0; d < kDimensions; ++d) inside_torus &= sides[d] > 1 || offset[d] == 0;
    if (inside_torus) offsets.push_back(offset);
  }
  TileLoad best{std::numeric_limits<double>::infinity(), 0};
  std::vector<Tiling> tilings;
  std::set<Tile> shapes;  // of the lattice at hand
  for (const Lattice& lattice : lattices()) {
    if (!lattice.closes(sides)) continue;
    shapes.clear();
    for (const Offset& a : offsets) {
      if (lattice.class_of(a) == 0) continue;
      for (const Offset& b : offsets) {
        if (lattice.class_of(b) == 0 || lattice.class_of(b) == lattice.class_of(a)) continue;
        for (const Offset& c : offsets) {
          // Class 0 is taken by the first place: the others make up 1, 2 and 3.
          constexpr int kOthers = 1 << 1 | 1 << 2 | 1 << 3;
          const int classes =
              1 << lattice.class_of(a) | 1 << lattice.class_of(b) | 1 << lattice.class_of(c);
          if (classes != kOthers) continue;
          const Tile tile{Offset{}, a, b, c};
          const TileLoad load = load_of(inside, lattice, tile);
          if (best < load) continue;
          if (load < best) {
            best = load;
            tilings.clear();
            shapes.clear();
          }
          if (!shapes.insert(shape_of(tile)).second) continue;
          tilings.push_back({lay(grid, lattice, tile), load.largest});
        }
      }
    }
  }
  return tilings;
}

}  // namespace ibcoll::topology
