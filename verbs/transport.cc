#include "verbs/transport.h"

#include <algorithm>
#include <bit>
#include <random>

#include "engine/base/config.h"
#include "engine/base/log.h"
#include "engine/base/units.h"
#include "engine/bootstrap/machine.h"
#include "verbs/exchange.h"
#include "verbs/port_choice.h"
#include "verbs/rc_transport.h"
#include "verbs/reach.h"

namespace ibcoll::verbs {

namespace {

/// What ranks tell each other of the transports they have opened.
struct Introduction {
  RankAddress address;
  uint64_t job = 0;  ///< rank 0's counts
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

tl::unexpected<Error> no_transport(const Error& error) {
  return fail(error.code, "no verbs transport: {}", error.message);
}

uint64_t random_number() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

/// Says which of the machine's ports are left out, and why; on one rank of them.
void tell_left_out(const Offer& offer, PortMask of_class, PortMask kept) {
  const std::vector<std::string> reasons = why_left_out(offer, of_class);
  for (size_t i = 0; i < reasons.size(); ++i) {
    const bool reached = (kept >> i & 1) != 0 || (of_class >> i & 1) == 0;
    const std::string text =
        fmt::format("port {} is left out: {}", offer.ports[i].name, reasons[i]);
    if (!reasons[i].empty() && offer.named != 0)
      log().warn("{}", text);
    else if (!reasons[i].empty())
      log().info("{}", text);
    else if (!reached)
      log().warn(
          "port {} is left out: it does not reach the other servers' ports, or fewer of them "
          "than others do",
          offer.ports[i].name);
  }
}

/// Collective: those of this rank's ports that the job uses.
Result<std::vector<PortInfo>> agree_on_ports(Bootstrap& bootstrap,
                                             const std::vector<int>& machine_of,
                                             const Result<TransportOptions>& options,
                                             uint64_t job) {
  const auto me = static_cast<size_t>(bootstrap.rank());
  Result<std::vector<PortInfo>> ports = tl::unexpected<Error>(Error{});
  if (options)
    ports = usable_ports(options->devices);
  else
    ports = tl::unexpected<Error>(options.error());
  struct Start {
    Offer offer;
    uint64_t job = 0;
  };
  Result<Start> mine = tl::unexpected<Error>(Error{});
  if (ports)
    mine = Start{offer_of(*ports, machine_of[me], !options->devices.devices.empty()), job};
  else
    mine = tl::unexpected<Error>(ports.error());
  IBCOLL_ASSIGN(const std::vector<Start> started, exchange(bootstrap, mine));
  std::vector<Offer> offers;
  for (const Start& start : started) offers.push_back(start.offer);
  const auto kept_class = keep_one_class(offers);
  if (!kept_class) return no_transport(kept_class.error());
  std::vector<PortMask> kept = *kept_class;
  const Stations stations = find_stations(offers, kept);
  if (std::any_of(kept.begin(), kept.end(),
                  [](PortMask mask) { return std::popcount(mask) > 1; })) {
    IBCOLL_ASSIGN(const std::vector<Heard> heard,
                  listen_around(bootstrap, stations, offers, *ports, started[0].job));
    const auto joined = keep_one_network(stations, heard, offers);
    if (!joined) return no_transport(joined.error());
    for (size_t rank = 0; rank < kept.size(); ++rank)
      kept[rank] = (*joined)[static_cast<size_t>(stations.of_rank[rank])];
  }
  const auto station = static_cast<size_t>(stations.of_rank[me]);
  if (stations.all[station].agent == bootstrap.rank()) {
    tell_left_out(offers[me], (*kept_class)[me], kept[me]);
    if (ports->size() > kMaxPorts)
      log().warn("of {} RDMA ports the first {} are looked at: IBCOLL_DEVICES names others",
                 ports->size(), kMaxPorts);
  }
  std::vector<PortInfo> used;
  for (size_t i = 0; i < ports->size() && i < kMaxPorts; ++i)
    if ((kept[me] >> i & 1) != 0) used.push_back((*ports)[i]);
  return used;
}

/// What ranks that have opened their transports find wrong with each other.
Status check(const std::vector<Introduction>& all) {
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if ((all[rank].address.service_port == 0) != (all[0].address.service_port == 0))
      return fail(ErrorCode::kMismatch,
                  "no verbs transport: ranks 0 and {} differ in IBCOLL_CONNECT", rank);
  }
  return {};
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

Result<std::unique_ptr<NetworkTransport>> create_transport(
    Bootstrap& bootstrap, const Shape& shape, const Result<TransportOptions>& options) {
  IBCOLL_ASSIGN(const std::vector<ProcessPlace> places, exchange_places(bootstrap));
  const std::vector<int> machine_of = machine_of_ranks(places);
  const uint64_t job = random_number();
  IBCOLL_ASSIGN(const std::vector<PortInfo> ports,
                agree_on_ports(bootstrap, machine_of, options, job));
  const int index = port_index(shape, bootstrap.rank(), machine_of);
  Result<std::unique_ptr<RcTransport>> transport =
      RcTransport::open(choose_port(ports, options->numa_node, index), *options);
  Result<Introduction> mine = tl::unexpected<Error>(Error{});
  if (transport)
    mine = Introduction{(*transport)->address(), job};
  else
    mine = tl::unexpected<Error>(transport.error());
  IBCOLL_ASSIGN(const std::vector<Introduction> all, exchange(bootstrap, mine));
  IBCOLL_TRY(check(all));
  std::vector<RankAddress> addresses;
  for (const Introduction& other : all) addresses.push_back(other.address);
  (*transport)->connect_job(bootstrap, all[0].job, std::move(addresses));
  return std::unique_ptr<NetworkTransport>(std::move(*transport));
}

}  // namespace ibcoll::verbs
