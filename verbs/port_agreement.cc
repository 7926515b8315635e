#include "verbs/port_agreement.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <random>

#include "engine/base/digest.h"
#include "engine/base/log.h"
#include "engine/transport/exchange.h"
#include "verbs/lock_limit.h"
#include "verbs/port_choice.h"
#include "verbs/reach.h"

namespace ibcoll::verbs {

namespace {

/// What ranks tell each other first.
struct Start {
  Digest offer;
  uint64_t job = 0;  ///< rank 0's
  int32_t numa_node = -1;
};

uint64_t random_number() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

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

/// The ports that this rank can use.
Result<std::vector<PortInfo>> own_ports(const Result<TransportOptions>& options, int ranks_here) {
  if (!options) return tl::unexpected<Error>(options.error());
  IBCOLL_ASSIGN(std::vector<PortInfo> ports, usable_ports(options->devices));
  const auto lockable = lockable_bytes();  // raises the limit
  const std::string limit = too_little_lockable(lockable, memory_bytes(), ranks_here);
  if (!limit.empty() && options->may_decline) return fail(ErrorCode::kUnsupported, "{}", limit);
  return ports;
}

/// Collective: who has which ports to offer. `mine`: what this rank has, an error where it has
/// none.
Result<AgreedPort> tell_offers(Bootstrap& bootstrap, const Result<Offer>& mine, int numa_node) {
  Result<Start> start = tl::unexpected<Error>(Error{});
  if (mine)
    start = Start{digest_of_value(*mine), bootstrap.rank() == 0 ? random_number() : 0, numa_node};
  else
    start = tl::unexpected<Error>(mine.error());
  IBCOLL_ASSIGN(const std::vector<Start> started, exchange(bootstrap, "verbs", start));
  std::vector<Digest> digests;
  digests.reserve(started.size());
  for (const Start& one : started) digests.push_back(one.offer);
  const DistinctNumbers distinct = number_distinct(digests);
  AgreedPort agreed;
  agreed.job = started[0].job;
  agreed.ranks.reserve(started.size());
  for (size_t rank = 0; rank < started.size(); ++rank)
    agreed.ranks.push_back({distinct.numbers[rank], started[rank].numa_node});
  agreed.offers.resize(distinct.firsts.size());
  IBCOLL_TRY(bootstrap.allgather_of(distinct.firsts, &*mine, sizeof *mine, agreed.offers.data()));
  for (size_t i = 0; i < agreed.offers.size(); ++i) agreed.offers[i].first = distinct.firsts[i];
  return agreed;
}

}  // namespace

size_t port_agreement_bytes(uint64_t ranks, uint64_t machines) {
  return ranks * (exchange_bytes_each_rank<Start>() + sizeof(RankPorts)) + machines * sizeof(Offer);
}

size_t port_agreement_told(uint64_t ranks, uint64_t machines) {
  return std::max(ranks * sizeof(ExchangeEnvelope<Start>), machines * sizeof(Offer));
}

Result<AgreedPort> agree_on_port(Bootstrap& bootstrap, const Shape& shape,
                                 const std::vector<int>& machine_of,
                                 const Result<TransportOptions>& options) {
  const auto me = static_cast<size_t>(bootstrap.rank());
  const auto ranks_here = std::count(machine_of.begin(), machine_of.end(), machine_of[me]);
  const Result<std::vector<PortInfo>> ports = own_ports(options, static_cast<int>(ranks_here));
  Result<Offer> mine = tl::unexpected<Error>(Error{});
  if (ports)
    mine = offer_of(*ports, machine_of[me], !options->devices.devices.empty());
  else
    mine = tl::unexpected<Error>(ports.error());
  IBCOLL_ASSIGN(AgreedPort agreed, tell_offers(bootstrap, mine, options ? options->numa_node : -1));
  const std::vector<Offer>& offers = agreed.offers;
  const auto kept_class = keep_one_class(offers);
  if (!kept_class) return no_transport(kept_class.error());
  std::vector<PortMask> kept = *kept_class;
  const Stations stations = find_stations(offers, kept);
  const auto own = static_cast<size_t>(agreed.ranks[me].offer);
  const int station = stations.of_offer[own];
  if (std::any_of(kept.begin(), kept.end(),
                  [](PortMask mask) { return std::popcount(mask) > 1; })) {
    IBCOLL_ASSIGN(const std::vector<Heard> heard,
                  listen_around(bootstrap, stations, station, offers, *ports, agreed.job,
                                options->may_decline));
    const auto joined = keep_one_network(stations, heard, offers);
    if (!joined) return no_transport(joined.error());
    for (size_t i = 0; i < kept.size(); ++i)
      kept[i] = (*joined)[static_cast<size_t>(stations.of_offer[i])];
  }
  if (stations.all[static_cast<size_t>(station)].agent == bootstrap.rank()) {
    tell_left_out(offers[own], (*kept_class)[own], kept[own]);
    if (ports->size() > kMaxPorts)
      log().warn("of {} RDMA ports the first {} are looked at: IBCOLL_DEVICES names others",
                 ports->size(), kMaxPorts);
  }
  agreed.place = choose_port(offers, kept, agreed.ranks, shape, bootstrap.rank());
  agreed.port = (*ports)[agreed.place];
  return agreed;
}

}  // namespace ibcoll::verbs
