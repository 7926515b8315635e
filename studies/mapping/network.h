#pragma once
/// The networks that tasks are mapped onto: grids and hierarchies, whose routes are computed, and
/// any other, whose routes are tabled.

#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/result.h"
#include "studies/mapping/grid.h"
#include "studies/mapping/hierarchy.h"

namespace ibcoll::topology {

/// Nodes with one fixed route a pair over directed links, as a table.
class RoutedNetwork {
 public:
  /// One pair's route: the links in order.
  using Route = std::vector<int>;

  /// Largest number of nodes: the table has an entry a pair and hop.
  static constexpr int kMaxNodes = 4096;

  /// Starts a network of `nodes` nodes without routes. `link_rates[l]` is the bandwidth of link l
  /// in bytes a second.
  static Result<RoutedNetwork> create(std::string name, int nodes, std::vector<double> link_rates);
  /// Adds the routes from the next source node, `routes[b]` to each node b. Call it once a node,
  /// ascending.
  Status add_source(const std::vector<Route>& routes);

  int nodes() const { return nodes_; }
  int links() const { return static_cast<int>(link_rates_.size()); }
  int usable_links() const { return links(); }
  const std::string& name() const { return name_; }
  /// Hops of the route; it may differ from that of the way back.
  int distance(int a, int b) const {
    const size_t pair = static_cast<size_t>(a) * nodes_ + b;
    return static_cast<int>(start_[pair + 1] - start_[pair]);
  }
  template <class Visit>
  void route(int a, int b, Visit&& visit) const {
    const size_t pair = static_cast<size_t>(a) * nodes_ + b;
    for (size_t i = start_[pair]; i < start_[pair + 1]; ++i) visit(links_on_route_[i]);
  }
  /// How many times longer than on the fastest link a byte takes on link l: at least 1.
  double slowness(int link) const { return slowness_[link]; }
  double fastest_rate() const { return fastest_rate_; }

 private:
  std::string name_;
  int nodes_ = 0;
  double fastest_rate_ = 0;
  std::vector<double> link_rates_, slowness_;
  std::vector<size_t> start_;  ///< source * nodes + destination
  std::vector<int> links_on_route_;
};

using Network = std::variant<Grid, Hierarchy, RoutedNetwork>;

inline int node_count(const Network& network) {
  return std::visit([](const auto& paths) { return paths.nodes(); }, network);
}
std::string network_name(const Network& network);

/// Whether it is as far back as there between all nodes, as the type tells.
template <class Paths>
inline constexpr bool kAsFarBack = !std::is_same_v<Paths, RoutedNetwork>;

/// How many times longer than on the fastest link of its network a byte takes on a link.
inline double slowness(const Grid&, int) { return 1; }
inline double slowness(const Hierarchy&, int) { return 1; }
inline double slowness(const RoutedNetwork& network, int link) { return network.slowness(link); }

}  // namespace ibcoll::topology
