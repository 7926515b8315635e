#include "studies/mapping/grid_pattern.h"

#include <algorithm>
#include <functional>

#include "studies/mapping/embed.h"

namespace ibcoll::topology {
namespace {

using Lists = std::vector<std::vector<int>>;

bool has(const std::vector<int>& sorted, int value) {
  return std::binary_search(sorted.begin(), sorted.end(), value);
}

/// How many partners of `a` have one of `b`'s for a partner: what goes on beside a step in a grid.
size_t beside(const Lists& partners, int a, int b) {
  return std::ranges::count_if(partners[a], [&](int beyond_a) {
    return beyond_a != b && std::ranges::any_of(partners[b], [&](int beyond_b) {
             return beyond_b != a && has(partners[beyond_a], beyond_b);
           });
  });
}

/// Whether a pair may be a step in a grid: of the other partners of its ends, all have counterparts
/// beside the step but one each, which is straight ahead.
bool may_be_step(const Lists& partners, int a, int b) {
  const auto others = [&](int task, int other) {
    return partners[task].size() - (has(partners[task], other) ? 1 : 0);
  };
  const size_t least = std::min(others(a, b), others(b, a));
  return std::min(beside(partners, a, b), beside(partners, b, a)) + 1 >= least;
}

/// Without the pairs that cannot be steps in a grid.
Lists without_foreign(const Lists& partners) {
  Lists kept(partners.size()), left_out(partners.size());
  for (size_t task = 0; task < partners.size(); ++task) {
    for (const int partner : partners[task]) {
      const bool keep = may_be_step(partners, static_cast<int>(task), partner);
      (keep ? kept : left_out)[task].push_back(partner);
    }
  }
  // A step between two tasks with foreign partners shows once those are left out.
  Lists whole = kept;
  for (size_t task = 0; task < partners.size(); ++task) {
    for (const int partner : left_out[task]) {
      if (may_be_step(kept, static_cast<int>(task), partner)) whole[task].push_back(partner);
    }
    std::ranges::sort(whole[task]);
  }
  return whole;
}

/// The tasks of each connected part with at least two.
Lists parts_of(const Lists& partners) {
  Lists parts;
  std::vector<char> seen(partners.size());
  for (size_t first = 0; first < partners.size(); ++first) {
    if (seen[first] != 0 || partners[first].empty()) continue;
    std::vector<int> part{static_cast<int>(first)};
    seen[first] = 1;
    for (size_t i = 0; i < part.size(); ++i) {
      for (const int partner : partners[part[i]]) {
        if (seen[partner] == 0) part.push_back(partner);
        seen[partner] = 1;
      }
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

/// The pairs inside a part, its tasks numbered in the order of the part, a byte each way.
CommMatrix matrix_of(const Lists& partners, const std::vector<int>& part,
                     std::vector<int>& number) {
  for (size_t i = 0; i < part.size(); ++i) number[part[i]] = static_cast<int>(i);
  std::vector<Flow> flows;
  for (const int task : part) {
    for (const int partner : partners[task]) flows.push_back({number[task], number[partner], 1});
  }
  return CommMatrix::from_flows(static_cast<int>(part.size()), std::move(flows)).value();
}

/// Pairs of neighbours in a grid.
size_t pairs_in(const Grid& grid) { return grid.usable_links() / 2; }

/// Calls `visit` for the sides of all grids of `nodes` nodes, longest side first, until it returns
/// true.
bool visit_shapes(int nodes, int longest, std::vector<int>& sides,
                  const std::function<bool(const std::vector<int>&)>& visit) {
  if (nodes == 1) return sides.size() >= 2 && visit(sides);
  if (static_cast<int>(sides.size()) == Grid::kMaxDimensions) return false;
  for (int side = std::min(nodes, longest); side >= 2; --side) {
    if (nodes % side != 0) continue;
    sides.push_back(side);
    if (visit_shapes(nodes / side, side, sides, visit)) return true;
    sides.pop_back();
  }
  return false;
}

}  // namespace

std::optional<GridPattern> find_grid_pattern(const CommMatrix& matrix) {
  constexpr double kSignificant = 0.5;
  const Lists partners = without_foreign(partners_that_count(matrix, kSignificant));
  const Lists parts = parts_of(partners);
  if (parts.empty()) return std::nullopt;
  const size_t size = parts.front().size();
  for (const std::vector<int>& part : parts) {
    if (part.size() != size) return std::nullopt;
  }
  std::vector<int> number(partners.size());
  const CommMatrix first = matrix_of(partners, parts.front(), number);
  std::optional<Grid> shape;
  std::vector<int> sides;
  visit_shapes(static_cast<int>(size), static_cast<int>(size), sides, [&](const auto& fitting) {
    for (const bool torus : {true, false}) {
      const auto grid = Grid::create(fitting, torus);
      // As many pairs, or some other part of the grid would do.
      if (!grid || 2 * pairs_in(*grid) != first.pairs() || !embed(first, *grid, {}, {})) continue;
      shape = *grid;
      return true;
    }
    return false;
  });
  if (!shape) return std::nullopt;
  GridPattern found{*shape, static_cast<int>(parts.size()),
                    std::vector<int>(static_cast<size_t>(matrix.tasks()), -1)};
  for (size_t copy = 0; copy < parts.size(); ++copy) {
    const CommMatrix part = matrix_of(partners, parts[copy], number);
    const auto nodes = part.pairs() == first.pairs() ? embed(part, *shape, {}, {}) : std::nullopt;
    if (!nodes) return std::nullopt;
    for (size_t i = 0; i < size; ++i)
      found.place[parts[copy][i]] = static_cast<int>(copy * size) + (*nodes)[i];
  }
  return found;
}

}  // namespace ibcoll::topology
