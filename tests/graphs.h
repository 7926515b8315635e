#pragma once
/// Graphs for tests: of each kind that is awkward in its own way.

#include <random>
#include <string>
#include <vector>

#include "engine/schedule/graph.h"

namespace ibcoll {

struct NamedGraph {
  std::string name;
  std::shared_ptr<const Graph> graph;
};

inline constexpr size_t kGraphs = 8;

/// The same on all ranks for the same shape. Ranks list their neighbours in different orders.
inline std::vector<NamedGraph> graphs_for(const Shape& shape) {
  const int n = shape.ranks();
  std::mt19937 random(static_cast<uint32_t>(n));
  const auto any = [&] { return static_cast<Rank>(random() % static_cast<uint32_t>(n)); };
  std::vector<std::pair<std::string, std::vector<Graph::Edge>>> all(kGraphs);
  all[0].first = "empty";
  all[1].first = "ring";
  all[2].first = "star";
  all[3].first = "self loops";
  all[4].first = "parallel edges";
  all[5].first = "one way";
  all[6].first = "random";
  all[7].first = "complete";
  for (Rank rank = 0; rank < n; ++rank) {
    all[1].second.push_back({rank, (rank + 1) % n});
    all[1].second.push_back({rank, (rank + n - 1) % n});
    all[2].second.push_back({rank, n / 2});
    all[2].second.push_back({n / 2, rank});
    for (int i = 0; i < rank % 3; ++i) all[3].second.push_back({rank, rank});
    for (int i = 0; i < 3; ++i) all[4].second.push_back({rank, (rank + n / 2) % n});
    for (int i = 0; i < rank % 3; ++i) all[4].second.push_back({(rank + 1) % n, rank});
    for (Rank other = rank + 1; other < n; ++other) {
      if ((rank + other) % 3 == 0) all[5].second.push_back({rank, other});
    }
    for (int i = 0; i < 4; ++i) all[6].second.push_back({any(), any()});
    for (Rank other = 0; other < n; ++other) all[7].second.push_back({rank, other});
  }
  std::vector<NamedGraph> result;
  for (auto& [name, edges] : all) {
    std::shuffle(edges.begin(), edges.end(), random);
    result.push_back({name, Graph::create(shape, edges).value()});
  }
  return result;
}

}  // namespace ibcoll
