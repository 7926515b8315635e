#include "verbs/transport.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "engine/base/config.h"
#include "engine/base/units.h"
#include "engine/bootstrap/machine.h"
#include "verbs/rc_transport.h"

namespace ibcoll::verbs {

namespace {

/// What ranks tell each other at start, also if they have nothing to offer.
struct Introduction {
  RankAddress address;
  uint64_t job = 0;  ///< rank 0's counts
  ErrorCode code{};
  char error[400] = "";  ///< empty: all is well
};

/// Which of a machine's ports a rank uses. Emulated servers: the machine's i-th server gets the
/// i-th port.
int port_index(const Shape& shape, Rank me, const std::vector<int>& machine_of) {
  const int server = shape.server_of(me);
  std::vector<int> servers;
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    if (machine_of[static_cast<size_t>(rank)] == machine_of[static_cast<size_t>(me)])
      servers.push_back(shape.server_of(rank));
  }
  std::sort(servers.begin(), servers.end());
  servers.erase(std::unique(servers.begin(), servers.end()), servers.end());
  if (servers.size() == 1) return shape.local_of(me);
  return static_cast<int>(std::find(servers.begin(), servers.end(), server) - servers.begin());
}

Result<std::unique_ptr<RcTransport>> open_own(const TransportOptions& options, int index) {
  IBCOLL_ASSIGN(const std::vector<PortInfo> ports, usable_ports(options.devices));
  return RcTransport::open(choose_port(ports, options.numa_node, index), options);
}

}  // namespace

Result<TransportOptions> TransportOptions::from_environment() {
  TransportOptions options;
  IBCOLL_ASSIGN(const std::string devices, config_string("IBCOLL_DEVICES"));
  for (const std::string_view device : split(devices, ','))
    options.devices.devices.emplace_back(device);
  IBCOLL_ASSIGN(options.devices.gid_index, config_integer("IBCOLL_GID_INDEX"));
  IBCOLL_ASSIGN(const int64_t pkey, config_integer("IBCOLL_PKEY"));
  if (pkey != 0) options.devices.pkey = static_cast<uint16_t>(pkey);
  IBCOLL_ASSIGN(options.devices.service_level, config_integer("IBCOLL_SERVICE_LEVEL"));
  IBCOLL_ASSIGN(options.devices.traffic_class, config_integer("IBCOLL_TRAFFIC_CLASS"));
  IBCOLL_ASSIGN(options.retry.timeout_exponent, config_integer("IBCOLL_ACK_TIMEOUT"));
  IBCOLL_ASSIGN(options.retry.retries, config_integer("IBCOLL_RETRIES"));
  IBCOLL_ASSIGN(const std::string connect, config_choice("IBCOLL_CONNECT"));
  options.connect = connect == "rdmacm" ? ConnectBy::kRdmacm : ConnectBy::kDatagrams;
  IBCOLL_ASSIGN(options.port_down_ns, config_duration("IBCOLL_PORT_DOWN"));
  options.retry.unreachable_ns = options.port_down_ns;
  IBCOLL_ASSIGN(options.receives, config_integer("IBCOLL_RECEIVES"));
  IBCOLL_ASSIGN(options.kept_registrations, config_integer("IBCOLL_REGISTRATIONS"));
  return options;
}

Result<std::unique_ptr<NetworkTransport>> create_transport(Bootstrap& bootstrap, const Shape& shape,
                                                           const TransportOptions& options) {
  IBCOLL_ASSIGN(const std::vector<ProcessPlace> places, exchange_places(bootstrap));
  const int index = port_index(shape, bootstrap.rank(), machine_of_ranks(places));
  Result<std::unique_ptr<RcTransport>> transport = open_own(options, index);

  Introduction mine;
  if (transport) {
    mine.address = (*transport)->address();
    std::random_device random;
    mine.job = uint64_t{random()} << 32 | random();
  } else {
    mine.code = transport.error().code;
    transport.error().message.copy(mine.error, sizeof mine.error - 1);
  }
  std::vector<Introduction> all(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, all.data()));
  std::vector<RankAddress> addresses;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].error[0] != '\0')
      return fail(all[rank].code, "no verbs transport: rank {}: {}", rank, all[rank].error);
    if (all[rank].address.port.ethernet != all[0].address.port.ethernet)
      return fail(ErrorCode::kUnsupported,
                  "no verbs transport: rank 0 uses a port of {} and rank {} one of {}",
                  all[0].address.port.ethernet ? "RoCE" : "InfiniBand", rank,
                  all[rank].address.port.ethernet ? "RoCE" : "InfiniBand");
    if (const uint16_t own = (*transport)->address().service_port;
        (all[rank].address.service_port == 0) != (own == 0))
      return fail(ErrorCode::kMismatch,
                  "no verbs transport: ranks {} and {} differ in IBCOLL_CONNECT", bootstrap.rank(),
                  rank);
    addresses.push_back(all[rank].address);
  }
  (*transport)->connect_job(bootstrap, all[0].job, std::move(addresses));
  return std::unique_ptr<NetworkTransport>(std::move(*transport));
}

}  // namespace ibcoll::verbs
