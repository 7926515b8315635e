#include "studies/mapping/fabric_network.h"

namespace ibcoll::topology {

Result<RoutedNetwork> tabled_network(const Fabric& fabric) {
  std::vector<double> rates;
  for (int link = 0; link < fabric.links(); ++link) rates.push_back(fabric.link(link).bandwidth);
  IBCOLL_ASSIGN(RoutedNetwork network,
                RoutedNetwork::create(fabric.name(), fabric.hosts(), std::move(rates)));
  std::vector<RoutedNetwork::Route> routes(static_cast<size_t>(fabric.hosts()));
  for (int from = 0; from < fabric.hosts(); ++from) {
    for (int to = 0; to < fabric.hosts(); ++to) routes[to] = fabric.route(from, to);
    IBCOLL_TRY(network.add_source(routes));
  }
  return network;
}

}  // namespace ibcoll::topology
