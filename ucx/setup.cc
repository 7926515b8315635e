// How a job sets its transports up: from the settings to ranks that can connect to each other.

#include <algorithm>

#include "engine/base/config.h"
#include "engine/base/log.h"
#include "engine/transport/exchange.h"
#include "ucx/transport.h"

namespace ibcoll::ucx {
namespace {

/// What ranks tell each other of the transports they have opened; their addresses follow.
struct Introduction {
  uint64_t address_bytes = 0;
  LifelinePlace lifeline;
  GatePlace gate;
};

std::vector<std::string> interfaces_of(const std::vector<Resource>& resources) {
  std::vector<std::string> names;
  for (const Resource& resource : resources)
    if (resource.transport == "tcp") names.push_back(resource.device);
  return names;
}

Result<std::vector<std::vector<std::byte>>> exchange_worker_addresses(
    Bootstrap& bootstrap, const std::vector<std::byte>& own, const std::vector<Introduction>& all) {
  size_t longest = 0;
  for (const Introduction& other : all) longest = std::max<size_t>(longest, other.address_bytes);
  std::vector<std::byte> mine = own, theirs(longest * all.size());
  mine.resize(longest);
  IBCOLL_TRY(bootstrap.allgather(mine.data(), longest, theirs.data()));
  std::vector<std::vector<std::byte>> addresses;
  for (const Introduction& other : all) {
    const auto begin = theirs.begin() + static_cast<std::ptrdiff_t>(addresses.size() * longest);
    addresses.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(other.address_bytes));
  }
  return addresses;
}

}  // namespace

Result<TransportOptions> TransportOptions::from_environment() {
  TransportOptions options;
  IBCOLL_ASSIGN(options.unreachable_ns, config_duration("IBCOLL_PORT_DOWN"));
  IBCOLL_ASSIGN(options.kept_registrations, config_integer("IBCOLL_REGISTRATIONS"));
  IBCOLL_ASSIGN(options.open_to_all, config_bool("IBCOLL_UCX_OPEN"));
  return options;
}

Result<std::unique_ptr<UcxTransport>> UcxTransport::open(const TransportOptions& options) {
  std::unique_ptr<UcxTransport> transport(new UcxTransport);
  transport->options_ = options;
  IBCOLL_ASSIGN(transport->context_, UcpContext::open());
  UcpContext& context = *transport->context_;
  transport->ucp_ = &context.ucp();
  const std::vector<Resource> resources = context.resources();
  transport->puts_ = options.puts.value_or(any_writes_by_itself(resources));
  transport->registrar_ = std::make_unique<UcxRegistrar>(context, transport->puts_);
  transport->memory_ =
      std::make_unique<MemoryCache>(*transport->registrar_, options.kept_registrations);
  transport->interfaces_ = interfaces_of(resources);
  IBCOLL_TRY(transport->listen());
  transport->watch_ = std::make_unique<ArrivalWatch>(transport->worker_->events());
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.cb = on_message;
  handler.arg = transport.get();
  if (const ucs_status_t status =
          transport->ucp_->worker_set_am_recv_handler(transport->worker_->handle(), &handler);
      status != UCS_OK)
    return fail(ErrorCode::kUnsupported, "UCX takes no messages: {}",
                explain(*transport->ucp_, status));
  return transport;
}

/// Opens the ports that peers connect to, so that nobody may so far.
Status UcxTransport::listen() {
  Status guarded;
  if (!options_.open_to_all && !interfaces_.empty()) {
    Result<std::unique_ptr<Gate>> gate = Gate::open(*ucp_);
    if (gate)
      gate_ = std::move(*gate);
    else
      guarded = tl::unexpected<Error>(gate.error());
  }
  {
    const Gate::Watch watch(gate_.get());
    IBCOLL_ASSIGN(worker_, Worker::open(*context_));
  }
  IBCOLL_ASSIGN(lifelines_, Lifelines::open(options_.unreachable_ns, interfaces_));
  if (gate_) {
    guarded = gate_->closed();
    if (guarded) guarded = gate_->guard(lifelines_->listener());
  }
  if (guarded) {
    if (gate_) lifelines_->come_from(gate_->port());
    return {};
  }
  gate_.reset();
  const std::string& why = guarded.error().message;
  if (!all_loopback(interfaces_))
    return fail(ErrorCode::kUnsupported,
                "with UCX {} anybody could connect to this job and end it: {}; UCX_NET_DEVICES=lo "
                "keeps to this machine, IBCOLL_UCX_OPEN=1 allows it",
                ucp_->get_version_string(), why);
  log().warn("any user of this machine can end this job over UCX: {}", why);
  return {};
}

GatePlace UcxTransport::gate() const { return gate_ ? gate_->place(interfaces_) : GatePlace{}; }

Status UcxTransport::admit(const std::vector<GatePlace>& places, const std::vector<int>& machine_of,
                           Rank me) {
  return gate_ ? gate_->admit(places, machine_of, me) : Status{};
}

void UcxTransport::connect_job(Bootstrap& bootstrap, std::vector<std::vector<std::byte>> addresses,
                               std::vector<LifelinePlace> lifelines,
                               const std::vector<int>& machine_of) {
  bootstrap_ = &bootstrap;
  me_ = bootstrap.rank();
  const size_t ranks = addresses.size();
  addresses_ = std::move(addresses);
  peers_.resize(ranks);
  for (std::vector<Peer*>* list : {&known_, &ready_, &unflushed_, &staying_}) list->reserve(ranks);
  taken_.reserve(kMailsPerPeer * ranks);
  lifelines_->start(std::move(lifelines), machine_of, me_);
}

Result<std::unique_ptr<NetworkTransport>> create_transport(
    Bootstrap& bootstrap, const std::vector<int>& machine_of,
    const Result<TransportOptions>& options) {
  Result<std::unique_ptr<UcxTransport>> transport = tl::unexpected<Error>(Error{});
  if (options)
    transport = UcxTransport::open(*options);
  else
    transport = tl::unexpected<Error>(options.error());
  Result<Introduction> mine = tl::unexpected<Error>(Error{});
  if (transport)
    mine = Introduction{(*transport)->address().size(), (*transport)->lifeline(),
                        (*transport)->gate()};
  else
    mine = tl::unexpected<Error>(transport.error());
  IBCOLL_ASSIGN(const std::vector<Introduction> all, exchange(bootstrap, "ucx", mine));
  std::vector<GatePlace> gates;
  for (const Introduction& other : all) gates.push_back(other.gate);
  Result<char> admitted = char{};
  if (const Status status = (*transport)->admit(gates, machine_of, bootstrap.rank()); !status)
    admitted = tl::unexpected<Error>(status.error());
  IBCOLL_TRY(exchange(bootstrap, "ucx", admitted));
  IBCOLL_ASSIGN(std::vector<std::vector<std::byte>> addresses,
                exchange_worker_addresses(bootstrap, (*transport)->address(), all));
  std::vector<LifelinePlace> lifelines;
  for (const Introduction& other : all) lifelines.push_back(other.lifeline);
  (*transport)->connect_job(bootstrap, std::move(addresses), std::move(lifelines), machine_of);
  return std::unique_ptr<NetworkTransport>(std::move(*transport));
}

}  // namespace ibcoll::ucx
