// How a job sets its transports up: from the settings to ranks that can connect to each other.

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <string_view>

#include "engine/base/config.h"
#include "engine/base/log.h"
#include "engine/base/units.h"
#include "engine/transport/exchange.h"
#include "verbs/limit_errors.h"
#include "verbs/lock_limit.h"
#include "verbs/port_agreement.h"
#include "verbs/rc_transport.h"

namespace ibcoll::verbs {

namespace {

constexpr size_t kMaxPieceBytes = size_t{1} << 30;

/// Devices of a rank's machine with ports like its own: its ranks are dealt over them.
size_t devices_of(const AgreedPort& agreed, Rank me) {
  const Offer& offer =
      agreed.offers[static_cast<size_t>(agreed.ranks[static_cast<size_t>(me)].offer)];
  std::set<std::string_view> devices;
  for (const PortOffer& port : offer.all()) {
    const std::string_view name = port.name;
    if (port.rate_mbps == offer.ports[agreed.place].rate_mbps)
      devices.insert(name.substr(0, name.rfind(':')));
  }
  return std::max<size_t>(devices.size(), 1);
}

/// What of the job counts for a rank's own queues.
JobPlace place_of(const Shape& shape, Rank me, const std::vector<int>& machine_of,
                  const AgreedPort& agreed) {
  JobPlace place;
  const auto own = machine_of[static_cast<size_t>(me)];
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    if (!shape.same_server(rank, me)) ++place.peers;
    if (rank != me && machine_of[static_cast<size_t>(rank)] == own) ++place.sharing;
    if (rank < me && machine_of[static_cast<size_t>(rank)] == own) ++place.on_machine;
  }
  const auto devices = static_cast<int>(devices_of(agreed, me));
  place.sharing = (place.sharing + devices - 1) / devices;
  return place;
}

/// How many connections a rank may have at a time; 0: as many as there are peers. Those made by
/// librdmacm are limited by nobody but the device.
uint32_t most_connections(const PortInfo& port, const TransportOptions& options,
                          const JobPlace& place) {
  if (options.connect == ConnectBy::kRdmacm && options.max_connections == 0) return 0;
  uint32_t most = RcTransport::share_of_device(port, static_cast<uint32_t>(place.sharing));
  if (options.max_connections != 0) most = std::min(most, options.max_connections);
  return most < static_cast<uint32_t>(place.peers) ? most : 0;
}

/// What ranks that have opened their transports find wrong with each other.
Status check(const std::vector<RankAddress>& all) {
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if ((all[rank].service_port == 0) != (all[0].service_port == 0))
      return fail(ErrorCode::kMismatch,
                  "no verbs transport: ranks 0 and {} differ in IBCOLL_CONNECT", rank);
  }
  return {};
}

}  // namespace

/// The offers are known until the address book is made.
size_t introduction_bytes(uint64_t ranks, uint64_t machines) {
  return ranks * (exchange_bytes_each_rank<RankAddress>() + sizeof(RankPorts)) +
         machines * (sizeof(Offer) + AddressBook::bytes_each_port());
}

size_t introduction_told(uint64_t ranks) { return ranks * sizeof(ExchangeEnvelope<RankAddress>); }

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
  IBCOLL_ASSIGN(options.devices.mtu_bytes, config_integer("IBCOLL_MTU"));
  IBCOLL_ASSIGN(const std::string ordering, config_choice("IBCOLL_RELAXED_ORDERING"));
  options.ordering = ordering == "on"    ? RelaxedOrdering::kOn
                     : ordering == "off" ? RelaxedOrdering::kOff
                                         : RelaxedOrdering::kAuto;
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

Result<std::unique_ptr<RcTransport>> RcTransport::open(const PortInfo& port,
                                                       const TransportOptions& options,
                                                       const JobPlace& place) {
  std::unique_ptr<RcTransport> result(new RcTransport);
  result->options_ = options;
  IBCOLL_ASSIGN(result->device_, Device::open(port, place.on_machine));
  const Device& device = result->device_;
  if (fcntl(device.context()->async_fd, F_SETFL, O_NONBLOCK) < 0)
    return fail_errno(fmt::format("{}: events can't be read", port.name()));
  result->registrar_ = std::make_unique<DeviceRegistrar>(device, options.ordering);
  result->memory_ = std::make_unique<MemoryCache>(*result->registrar_, options.kept_registrations);
  result->channel_.reset(ibv_create_comp_channel(device.context()));
  if (!result->channel_) return fail_errno(fmt::format("{}: no completion channel", port.name()));
  IBCOLL_ASSIGN(result->receives_, ReceiveQueue::create(device, options.receives, kMaxMailBytes));
  if (port.max_work_requests < static_cast<int>(kLeastSendDepth))
    return fail(ErrorCode::kUnsupported, "{}: a queue pair holds {} work requests, {} are needed",
                port.name(), port.max_work_requests, kLeastSendDepth);
  const uint32_t limit = most_connections(port, options, place);
  const uint32_t most = limit != 0 ? limit : static_cast<uint32_t>(place.peers);
  IBCOLL_ASSIGN(result->send_completions_,
                SendCompletions::create(device, result->channel_.get(), most));
  const int arrivals = static_cast<int>(result->receives_.depth()) + 1;
  result->arrivals_.reset(ibv_create_cq(device.context(), arrivals, nullptr, result->channel_.get(),
                                        device.completion_vector()));
  if (!result->arrivals_)
    return completion_queue_error(device, static_cast<uint64_t>(arrivals), errno);
  IBCOLL_ASSIGN(result->responder_, Responder::create(device));
  IBCOLL_ASSIGN(result->connector_, Connector::create(options.connect, device, *result->responder_,
                                                      options.retry, result->channel_.get()));
  result->watch_ = std::make_unique<ArrivalWatch>(
      result->channel_.get(),
      std::array{result->send_completions_.get(), result->arrivals_.get(),
                 result->connector_->completions()},
      result->connector_->events());
  result->port_counters_.emplace(port);
  if (port.max_message_bytes < kMaxMailBytes)
    return fail(ErrorCode::kUnsupported, "{}: messages of {} bytes at most, {} are needed",
                port.name(), port.max_message_bytes, kMaxMailBytes);
  result->max_piece_ = std::min<size_t>(kMaxPieceBytes, port.max_message_bytes);
  result->taken_.reserve(kBatch);
  return result;
}

RcTransport::~RcTransport() = default;

RankAddress RcTransport::address(size_t port) const {
  RankAddress address;
  address.port = static_cast<uint32_t>(port);
  address.responder_number = responder_->number();
  connector_->introduce(address);
  return address;
}

void RcTransport::warn_of_registrations() const {
  if (const std::string reason = memory_->why_nothing_is_kept(); !reason.empty())
    log().warn(
        "buffers are registered with the RDMA device anew for each call, which is slow, since "
        "nothing tells when memory is unmapped: {} (Debian's package libucx0)",
        reason);
}

void RcTransport::connect_job(Bootstrap& bootstrap, uint64_t job, AddressBook addresses,
                              const Limits& limits) {
  bootstrap_ = &bootstrap;
  me_ = bootstrap.rank();
  peers_.resize(addresses.ranks());
  const auto ranks = static_cast<int>(addresses.ranks());
  responder_->start(me_, job, ranks);
  ConnectionSlots::Network& network = *this;
  if (limits.own != 0) slots_.emplace(me_, ranks, limits.own, network);
  max_connections_ = limits.fewest;
  connector_->start(me_, job, std::move(addresses),
                    {&send_completions_, arrivals_.get(), receives_.get()},
                    slots_ ? &*slots_ : nullptr);
}

Result<std::unique_ptr<NetworkTransport>> create_transport(
    Bootstrap& bootstrap, const Shape& shape, const std::vector<int>& machine_of,
    const Result<TransportOptions>& options) {
  IBCOLL_ASSIGN(const AgreedPort agreed, agree_on_port(bootstrap, shape, machine_of, options));
  const JobPlace place = place_of(shape, bootstrap.rank(), machine_of, agreed);
  Result<std::unique_ptr<RcTransport>> transport = RcTransport::open(agreed.port, *options, place);
  Result<RankAddress> mine = tl::unexpected<Error>(Error{});
  const uint32_t connections = most_connections(agreed.port, *options, place);
  if (transport) {
    mine = (*transport)->address(agreed.place);
    mine->connections = std::min(connections, RankAddress::kMostConnections);
  } else {
    mine = tl::unexpected<Error>(declined(transport.error(), options->may_decline));
  }
  if (transport && place.on_machine == 0) (*transport)->warn_of_registrations();
  IBCOLL_ASSIGN(std::vector<RankAddress> all, exchange(bootstrap, "verbs", mine));
  IBCOLL_TRY(check(all));
  uint32_t fewest = 0;
  for (const RankAddress& one : all) fewest = least_limit(fewest, one.connections);
  if (fewest != 0 && options->connect == ConnectBy::kRdmacm)
    return fail(ErrorCode::kUnsupported,
                "IBCOLL_MAX_CONNECTIONS: connections made by librdmacm (IBCOLL_CONNECT=rdmacm) "
                "can't be limited");
  (*transport)
      ->connect_job(
          bootstrap, agreed.job, AddressBook(agreed.offers, agreed.ranks, std::move(all)),
          {.own = fewest != 0 && connections == 0 ? UINT32_MAX : connections, .fewest = fewest});
  return std::unique_ptr<NetworkTransport>(std::move(*transport));
}

}  // namespace ibcoll::verbs
