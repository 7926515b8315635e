#pragma once
/// Figures of placements worked out apart from the library's own evaluation, for tests of mapping.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "studies/mapping/refine.h"

namespace ibcoll::topology {

struct Figures {
  double hop_bytes = 0, hop_bytes_mesh = 0, max_link_bytes = 0;
};

/// Walks every message hop by hop, links named by their two ends and what way they go.
inline Figures recompute(const CommMatrix& matrix, const Grid& grid, const Placement& placement) {
  Figures figures;
  std::map<std::vector<int>, double> links;
  const std::vector<int>& sides = grid.sides();
  for (const Flow& flow : matrix.flows()) {
    std::vector<int> at, end;
    for (int a = placement[flow.from], b = placement[flow.to], d = 0; d < grid.dimensions(); ++d) {
      at.push_back(a % sides[d]);
      end.push_back(b % sides[d]);
      a /= sides[d];
      b /= sides[d];
    }
    for (int d = 0; d < grid.dimensions(); ++d) {
      const int straight = end[d] - at[d];
      figures.hop_bytes_mesh += flow.bytes * std::abs(straight);
      int sign = straight > 0 ? 1 : -1;
      if (grid.torus() && 2 * std::abs(straight) > sides[d]) sign = -sign;
      while (at[d] != end[d]) {
        std::vector<int> link = at;
        link.push_back(d);
        link.push_back(sign);
        links[link] += flow.bytes;
        figures.hop_bytes += flow.bytes;
        at[d] = (at[d] + sign + sides[d]) % sides[d];
      }
    }
  }
  for (const auto& [link, bytes] : links) {
    figures.max_link_bytes = std::max(figures.max_link_bytes, bytes);
  }
  return figures;
}

/// Checks that the placement fits the room, and the library's figures against those worked out
/// here.
inline Figures checked(const CommMatrix& matrix, const Grid& grid, const Room& room,
                       const Placement& placement) {
  EXPECT_EQ(placement.size(), static_cast<size_t>(matrix.tasks()));
  std::map<int, int> on_node;
  for (const int node : placement) {
    EXPECT_TRUE(node >= 0 && node < grid.nodes() && room.allows(node)) << node;
    EXPECT_LE(++on_node[node], room.per_node);
  }
  const Figures figures = recompute(matrix, grid, placement);
  const Evaluation evaluation = evaluate(matrix, grid, placement);
  EXPECT_NEAR(evaluation.hop_bytes, figures.hop_bytes, 1e-9 * figures.hop_bytes);
  EXPECT_NEAR(evaluation.hop_bytes_mesh, figures.hop_bytes_mesh, 1e-9 * figures.hop_bytes_mesh);
  EXPECT_NEAR(evaluation.max_link_bytes, figures.max_link_bytes, 1e-9 * figures.max_link_bytes);
  EXPECT_EQ(evaluation.link_loads.size(), static_cast<size_t>(grid.usable_links()));
  return figures;
}

inline Grid grid_of(const char* text) { return Grid::parse(text).value(); }

inline CommMatrix scrambled(const CommMatrix& matrix, uint64_t seed) {
  std::vector<int> name(matrix.tasks());
  std::iota(name.begin(), name.end(), 0);
  std::shuffle(name.begin(), name.end(), std::mt19937_64(seed));
  return matrix.renamed(name);
}

inline RefineOptions moves(double link_share, int64_t count, uint64_t seed = 1) {
  RefineOptions options;
  options.goal.link_share = link_share;
  options.limits = {1e9, count};
  options.seed = seed;
  return options;
}

}  // namespace ibcoll::topology
