#include "verbs/port_agreement.h"

#include <unistd.h>

#include <algorithm>
#include <bit>

#include "engine/base/log.h"
#include "engine/transport/exchange.h"
#include "verbs/lock_limit.h"
#include "verbs/port_choice.h"
#include "verbs/reach.h"

namespace ibcoll::verbs {

namespace {

/// What ranks tell each other.
struct Start {
  Offer offer;
  uint64_t job = 0;
};

tl::unexpected<Error> no_transport(const Error& error) {
  return fail(error.code, "no verbs transport: {}", error.message);
}

uint64_t memory_bytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
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

}  // namespace

size_t port_agreement_bytes_each_rank() {
  return exchange_bytes_each_rank<Start>() + sizeof(Offer);
}

size_t port_agreement_record() { return sizeof(ExchangeEnvelope<Start>); }

Result<PortInfo> agree_on_port(Bootstrap& bootstrap, const Shape& shape,
                               const std::vector<int>& machine_of,
                               const Result<TransportOptions>& options, uint64_t job) {
  const auto me = static_cast<size_t>(bootstrap.rank());
  Result<std::vector<PortInfo>> ports = tl::unexpected<Error>(Error{});
  if (options)
    ports = usable_ports(options->devices);
  else
    ports = tl::unexpected<Error>(options.error());
  if (ports) {
    const auto lockable = lockable_bytes();  // raises the limit
    const auto ranks = std::count(machine_of.begin(), machine_of.end(), machine_of[me]);
    const std::string limit =
        too_little_lockable(lockable, memory_bytes(), static_cast<int>(ranks));
    if (!limit.empty() && options->may_decline) ports = fail(ErrorCode::kUnsupported, "{}", limit);
  }
  Result<Start> mine = tl::unexpected<Error>(Error{});
  if (ports)
    mine = Start{
        offer_of(*ports, machine_of[me], !options->devices.devices.empty(), options->numa_node),
        job};
  else
    mine = tl::unexpected<Error>(ports.error());
  IBCOLL_ASSIGN(const std::vector<Start> started, exchange(bootstrap, "verbs", mine));
  std::vector<Offer> offers;
  for (const Start& start : started) offers.push_back(start.offer);
  const auto kept_class = keep_one_class(offers);
  if (!kept_class) return no_transport(kept_class.error());
  std::vector<PortMask> kept = *kept_class;
  const Stations stations = find_stations(offers, kept);
  if (std::any_of(kept.begin(), kept.end(),
                  [](PortMask mask) { return std::popcount(mask) > 1; })) {
    IBCOLL_ASSIGN(
        const std::vector<Heard> heard,
        listen_around(bootstrap, stations, offers, *ports, started[0].job, options->may_decline));
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
  return (*ports)[choose_port(offers, kept, shape, bootstrap.rank())];
}

}  // namespace ibcoll::verbs
