#include "studies/mapping/network.h"

#include <algorithm>

namespace ibcoll::topology {

Result<RoutedNetwork> RoutedNetwork::create(std::string name, int nodes,
                                            std::vector<double> link_rates) {
  if (nodes < 1 || nodes > kMaxNodes) {
    return fail(ErrorCode::kInvalidArgument, "{} has {} nodes: routes are tabled for 1 to {}", name,
                nodes, kMaxNodes);
  }
  RoutedNetwork network;
  network.name_ = std::move(name);
  network.nodes_ = nodes;
  for (const double rate : link_rates) {
    if (!(rate > 0)) {
      return fail(ErrorCode::kInvalidArgument, "{} has a link of {} bytes/s", network.name_, rate);
    }
    network.fastest_rate_ = std::max(network.fastest_rate_, rate);
  }
  for (const double rate : link_rates) network.slowness_.push_back(network.fastest_rate_ / rate);
  network.link_rates_ = std::move(link_rates);
  network.start_.push_back(0);
  return network;
}

Status RoutedNetwork::add_source(const std::vector<Route>& routes) {
  if (routes.size() != static_cast<size_t>(nodes_) ||
      start_.size() + routes.size() > static_cast<size_t>(nodes_) * nodes_ + 1) {
    return fail(ErrorCode::kInvalidArgument, "{}: {} routes from a node, {} nodes", name_,
                routes.size(), nodes_);
  }
  for (const Route& route : routes) {
    for (const int link : route) {
      if (link < 0 || link >= links()) {
        return fail(ErrorCode::kInvalidArgument, "{}: a route over link {} of {}", name_, link,
                    links());
      }
    }
    links_on_route_.insert(links_on_route_.end(), route.begin(), route.end());
    start_.push_back(links_on_route_.size());
  }
  return {};
}

std::string network_name(const Network& network) {
  return std::visit([](const auto& paths) { return std::string(paths.name()); }, network);
}

}  // namespace ibcoll::topology
