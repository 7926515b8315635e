#include "verbs/network_kind.h"

#include "verbs/port_choice.h"
#include "verbs/rc_transport.h"
#include "verbs/transport.h"

namespace ibcoll::verbs {
namespace {

Result<std::unique_ptr<NetworkTransport>> open(const NetworkSetup& setup) {
  Result<TransportOptions> options = TransportOptions::from_environment();
  if (options) {
    options->numa_node = own_numa_node();
    options->may_decline = setup.may_decline;
    options->max_connections = setup.max_connections;
  }
  return create_transport(setup.bootstrap, setup.shape, setup.machines, options);
}

Result<std::string> usable_port() {
  const Result<TransportOptions> options = TransportOptions::from_environment();
  if (!options) return tl::unexpected<Error>(options.error());
  const Result<std::vector<PortInfo>> ports = usable_ports(options->devices);
  if (!ports) return tl::unexpected<Error>(ports.error());
  return ports->front().name();
}

std::vector<NetworkPort> ports() {
  // Whoever lists ports also checks the settings, and tells which can't be read.
  const Result<TransportOptions> options = TransportOptions::from_environment();
  const DeviceOptions devices = options ? options->devices : DeviceOptions{};
  const std::vector<PortInfo> known = list_ports(devices);
  const std::vector<std::string> left_out = left_out_here(known, devices);
  std::vector<NetworkPort> all;
  for (size_t i = 0; i < known.size(); ++i) {
    const PortInfo& port = known[i];
    all.push_back({.name = port.name(),
                   .device = port.device,
                   .port = port.port,
                   .usable = port.active,
                   .missing = port.missing,
                   .left_out = left_out[i],
                   .gid = port.gid_text,
                   .gid_index = port.gid_index,
                   .gid_type = port.gid_type,
                   .mtu_bytes = 128 << port.mtu,
                   .rate_mbps = port.rate_mbps,
                   .numa_node = port.numa_node,
                   .pkey_index = port.pkey_index,
                   .traffic_class = port.traffic_class,
                   .max_queue_pairs = port.max_queue_pairs,
                   .max_work_requests = port.max_work_requests,
                   .max_completions = port.max_completions,
                   .max_shared_receives = port.max_shared_receives,
                   .max_registrations = port.max_registrations,
                   .max_message_bytes = port.max_message_bytes});
  }
  return all;
}

Result<NetworkMemory> memory(const NetworkLoad& load) {
  IBCOLL_ASSIGN(const TransportOptions options, TransportOptions::from_environment());
  return RcTransport::memory(load, options);
}

}  // namespace

NetworkKind network_kind() {
  return {.preference = kPreference,
          .open = open,
          .usable_port = usable_port,
          .ports = ports,
          .memory = memory};
}

}  // namespace ibcoll::verbs
