#pragma once
/// Hop counts and nearby nodes as the inner loops of the searches need them: one interface over
/// grids, hierarchies and tabled networks.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "studies/mapping/network.h"
#include "studies/mapping/random.h"

namespace ibcoll::topology {

/// Hops between two nodes; `mesh` leaves a torus's wraparound links out.
template <class Paths>
class Hops {
 public:
  Hops(const Paths& paths, bool) : paths_(paths) {}
  int operator()(int a, int b) const { return paths_.distance(a, b); }

 private:
  const Paths& paths_;
};

template <>
class Hops<Grid> {
 public:
  Hops(const Grid& grid, bool mesh) : dimensions_(grid.dimensions()), nodes_(grid.nodes()) {
    for (int node = 0; node < grid.nodes(); ++node) {
      for (int d = 0; d < dimensions_; ++d) at_.push_back(grid.coordinate(node, d));
    }
    for (int d = 0; d < dimensions_; ++d) {
      const int side = grid.side(d);
      zero_.push_back(static_cast<int>(hops_.size()) + side - 1);
      for (int offset = 1 - side; offset < side; ++offset) {
        const int straight = std::abs(offset);
        hops_.push_back(grid.torus() && !mesh ? std::min(straight, side - straight) : straight);
      }
    }
    // A table of all pairs is faster as long as it stays in the cache.
    constexpr int kMostTabled = 1024;
    if (nodes_ > kMostTabled) return;
    std::vector<uint16_t> pairs;
    for (int a = 0; a < nodes_; ++a) {
      for (int b = 0; b < nodes_; ++b) pairs.push_back(static_cast<uint16_t>((*this)(a, b)));
    }
    pairs_ = std::move(pairs);
  }
  int operator()(int a, int b) const {
    if (!pairs_.empty()) return pairs_[static_cast<size_t>(a) * nodes_ + b];
    const int* from = &at_[static_cast<size_t>(a) * dimensions_];
    const int* to = &at_[static_cast<size_t>(b) * dimensions_];
    int sum = 0;
    for (int d = 0; d < dimensions_; ++d) sum += hops_[zero_[d] + to[d] - from[d]];
    return sum;
  }

 private:
  int dimensions_, nodes_;
  std::vector<int> at_, hops_, zero_;
  std::vector<uint16_t> pairs_;  ///< of few nodes: a * nodes + b
};

/// Nodes near a given one, to aim moves at.
template <class Paths>
class Neighbours {
 public:
  explicit Neighbours(const Paths& paths)
      : nodes_(paths.nodes()), each_(std::min(kMost, paths.nodes())) {
    std::vector<int> order(nodes_);
    for (int node = 0; node < nodes_; ++node) {
      std::iota(order.begin(), order.end(), 0);
      const auto nearer = [&](int a, int b) {
        const int to_a = paths.distance(node, a), to_b = paths.distance(node, b);
        return to_a != to_b ? to_a < to_b : (a ^ node) < (b ^ node);
      };
      std::partial_sort(order.begin(), order.begin() + each_, order.end(), nearer);
      near_.insert(near_.end(), order.begin(), order.begin() + each_);
    }
  }
  int beside(int node, FastRandom& random) const {
    return near_[static_cast<size_t>(node) * each_ + random.below(each_)];
  }
  int around(int node, int, FastRandom& random) const { return beside(node, random); }
  /// Calls `visit(other)` for the nearest nodes, nearest first.
  template <class Visit>
  void for_each_near(int node, Visit&& visit) const {
    for (int i = 0; i < each_; ++i) visit(near_[static_cast<size_t>(node) * each_ + i]);
  }
  int reach() const { return 1; }

 private:
  static constexpr int kMost = 24;
  int nodes_, each_;
  std::vector<int> near_;
};

template <>
class Neighbours<Grid> {
 public:
  explicit Neighbours(const Grid& grid) : grid_(grid) {
    int stride = 1;
    for (const int side : grid.sides()) {
      strides_.push_back(stride);
      stride *= side;
      if (side > 1) wide_.push_back(static_cast<int>(strides_.size()) - 1);
      reach_ = std::max(reach_, side / 2);
    }
  }
  /// One hop away; now and then a diagonal one.
  int beside(int node, FastRandom& random) const {
    int target = step(node, random);
    if (random.below(4) == 0) target = step(target, random);
    return target;
  }
  /// At most `radius` away in each dimension.
  int around(int node, int radius, FastRandom& random) const {
    for (const int d : wide_) node = shifted(node, d, random.below(2 * radius + 1) - radius);
    return node;
  }
  /// Calls `visit(other)` for the nodes at most two hops away.
  template <class Visit>
  void for_each_near(int node, Visit&& visit) const {
    visit(node);
    for (size_t i = 0; i < 2 * wide_.size(); ++i) {
      const int beside = shifted(node, wide_[i / 2], i % 2 == 0 ? 1 : -1);
      visit(beside);
      // Not back again, and each pair of directions once.
      for (size_t j = i; j < 2 * wide_.size(); ++j) {
        if (j == i || j / 2 != i / 2) visit(shifted(beside, wide_[j / 2], j % 2 == 0 ? 1 : -1));
      }
    }
  }
  int reach() const { return reach_; }

 private:
  int step(int node, FastRandom& random) const {
    if (wide_.empty()) return node;
    const int choice = random.below(2 * static_cast<int>(wide_.size()));
    return shifted(node, wide_[choice / 2], choice % 2 == 0 ? 1 : -1);
  }
  int shifted(int node, int d, int by) const {
    const int side = grid_.side(d), from = grid_.coordinate(node, d);
    int to = from + by;
    if (grid_.torus()) {
      to = ((to % side) + side) % side;
    } else {
      to = std::clamp(to, 0, side - 1);
    }
    return node + (to - from) * strides_[d];
  }

  const Grid& grid_;
  std::vector<int> strides_, wide_;
  int reach_ = 1;
};

/// Nearby means: in the same group, and the smaller the group the nearer.
template <>
class Neighbours<Hierarchy> {
 public:
  explicit Neighbours(const Hierarchy& hierarchy) : hierarchy_(hierarchy) {}
  /// In the same group of the first level; now and then in one of the next.
  int beside(int node, FastRandom& random) const {
    int level = 1;
    while (level < hierarchy_.levels() && random.below(4) == 0) ++level;
    return around(node, level, random);
  }
  /// In the same group of this level.
  int around(int node, int level, FastRandom& random) const {
    const int span = hierarchy_.span(level);
    return node - node % span + random.below(span);
  }
  template <class Visit>
  void for_each_near(int node, Visit&& visit) const {
    visit(node);
    for (int level = 1, count = 1; level <= hierarchy_.levels() && count < kMost; ++level) {
      const int inner = hierarchy_.span(level - 1), span = hierarchy_.span(level);
      const int skipped = node - node % inner;
      for (int other = node - node % span; other < node - node % span + span; ++other) {
        if (other >= skipped && other < skipped + inner) continue;
        if (count++ == kMost) return;
        visit(other);
      }
    }
  }
  int reach() const { return hierarchy_.levels(); }

 private:
  static constexpr int kMost = 24;
  const Hierarchy& hierarchy_;
};

}  // namespace ibcoll::topology
