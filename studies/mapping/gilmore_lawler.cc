#include "studies/mapping/gilmore_lawler.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "studies/mapping/near.h"
#include "studies/mapping/small.h"

namespace ibcoll::topology {
namespace {

/// The least sum of costs where each row gets a column of its own: shortest augmenting paths with
/// potentials (Kuhn 1955; Tomizawa 1971), O(size^3). `costs` are [row * size + column].
double least_assignment(const std::vector<double>& costs, int size) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const int none = size;
  std::vector<double> row_price(size + 1, 0), column_price(size + 1, 0), slack(size + 1);
  std::vector<int> row_of(size + 1, none), came_from(size + 1);
  std::vector<char> done(size + 1);
  for (int row = 0; row < size; ++row) {
    // Column `none` stands for the one that the new row comes from.
    std::fill(slack.begin(), slack.end(), kInfinity);
    std::fill(done.begin(), done.end(), 0);
    row_of[none] = row;
    int column = none;
    while (row_of[column] != none || column == none) {
      done[column] = 1;
      const int from = row_of[column];
      int next = none;
      double least = kInfinity;
      for (int other = 0; other < size; ++other) {
        if (done[other] != 0) continue;
        const double reduced =
            costs[static_cast<size_t>(from) * size + other] - row_price[from] - column_price[other];
        if (reduced < slack[other]) {
          slack[other] = reduced;
          came_from[other] = column;
        }
        if (slack[other] < least) {
          least = slack[other];
          next = other;
        }
      }
      for (int other = 0; other <= size; ++other) {
        if (done[other] != 0) {
          row_price[row_of[other]] += least;
          column_price[other] -= least;
        } else {
          slack[other] -= least;
        }
      }
      column = next;
    }
    while (column != none) {
      row_of[column] = row_of[came_from[column]];
      column = came_from[column];
    }
  }
  double sum = 0;
  for (int column = 0; column < size; ++column)
    sum += costs[static_cast<size_t>(row_of[column]) * size + column];
  return sum;
}

/// For each place the distances of the others, ascending: [place * (places - 1) + i].
template <class Paths>
std::vector<double> sorted_distances(const Paths& paths, const std::vector<int>& node_of,
                                     bool mesh_hops) {
  const Hops<Paths> hops(paths, mesh_hops);
  std::vector<double> sorted, row;
  for (size_t place = 0; place < node_of.size(); ++place) {
    row.clear();
    for (size_t other = 0; other < node_of.size(); ++other) {
      const int from = node_of[place], to = node_of[other];
      if (other != place) row.push_back(from == to ? 0 : std::min(hops(from, to), hops(to, from)));
    }
    std::sort(row.begin(), row.end());
    sorted.insert(sorted.end(), row.begin(), row.end());
  }
  return sorted;
}

}  // namespace

std::optional<double> gilmore_lawler(const CommMatrix& matrix, const Network& network,
                                     const Room& room, bool mesh_hops) {
  const int places = usable_slots(network, room);
  if (places > kMostBoundedPlaces) return std::nullopt;
  std::vector<int> node_of;
  for (int node = 0; node < node_count(network); ++node) {
    if (room.allows(node)) node_of.insert(node_of.end(), room.per_node, node);
  }
  const std::vector<double> distances = std::visit(
      [&](const auto& paths) { return sorted_distances(paths, node_of, mesh_hops); }, network);
  std::vector<double> costs(static_cast<size_t>(places) * places, 0), weights;
  for (int task = 0; task < matrix.tasks(); ++task) {
    weights.clear();
    for (const CommMatrix::Edge& edge : matrix.both(task)) weights.push_back(edge.bytes);
    std::sort(weights.rbegin(), weights.rend());
    for (int place = 0; place < places; ++place) {
      const double* nearest = &distances[static_cast<size_t>(place) * (places - 1)];
      double cost = 0;
      for (size_t i = 0; i < weights.size(); ++i) cost += weights[i] * nearest[i];
      costs[static_cast<size_t>(task) * places + place] = cost / 2;  // both ends count a pair
    }
  }
  return least_assignment(costs, places);
}

}  // namespace ibcoll::topology
