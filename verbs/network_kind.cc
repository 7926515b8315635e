#include "verbs/network_kind.h"

#include "verbs/transport.h"

namespace ibcoll::verbs {
namespace {

Result<std::unique_ptr<NetworkTransport>> open(const NetworkSetup& setup) {
  Result<TransportOptions> options = TransportOptions::from_environment();
  if (options) options->numa_node = own_numa_node();
  return create_transport(setup.bootstrap, setup.shape, setup.machines, options);
}

Result<std::string> usable_port() {
  const Result<TransportOptions> options = TransportOptions::from_environment();
  if (!options) return tl::unexpected<Error>(options.error());
  const Result<std::vector<PortInfo>> ports = usable_ports(options->devices);
  if (!ports) return tl::unexpected<Error>(ports.error());
  return ports->front().name();
}

}  // namespace

NetworkKind network_kind() { return {.name = "verbs", .open = open, .usable_port = usable_port}; }

}  // namespace ibcoll::verbs
