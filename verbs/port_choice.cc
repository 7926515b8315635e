#include "verbs/port_choice.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace ibcoll::verbs {

namespace {

bool has(PortMask mask, size_t port) { return (mask >> port & 1) != 0; }

const char* layer_name(bool ethernet) { return ethernet ? "RoCE" : "InfiniBand"; }

/// A rank's fastest ports of a link layer; all of them where the user named them.
PortMask fastest(const Offer& offer, bool ethernet) {
  uint64_t rate = 0;
  for (const PortOffer& port : offer.all())
    if ((port.address.ethernet != 0) == ethernet) rate = std::max(rate, port.rate_mbps);
  PortMask mask = 0;
  for (size_t i = 0; i < offer.all().size(); ++i) {
    const PortOffer& port = offer.ports[i];
    if ((port.address.ethernet != 0) == ethernet && (offer.named != 0 || port.rate_mbps == rate))
      mask |= PortMask{1} << i;
  }
  return mask;
}

uint64_t rate_of(const Offer& offer, PortMask mask) {
  uint64_t rate = 0;
  for (size_t i = 0; i < offer.all().size(); ++i)
    if (has(mask, i)) rate += std::max<uint64_t>(offer.ports[i].rate_mbps, 1);
  return rate;
}

std::string names_of(const Offer& offer, PortMask mask) {
  std::vector<std::string> names;
  for (size_t i = 0; i < offer.all().size(); ++i)
    if (has(mask, i)) names.emplace_back(offer.ports[i].name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Of a rank's ports those on the NUMA node it runs on, or on one that is not known; all of them
/// where there is none.
PortMask near_ports(const Offer& offer, PortMask kept, int numa_node) {
  PortMask near = 0;
  for (size_t i = 0; i < offer.all().size(); ++i) {
    const int32_t node = offer.ports[i].numa_node;
    if (has(kept, i) && (numa_node < 0 || node < 0 || node == numa_node)) near |= PortMask{1} << i;
  }
  return near != 0 ? near : kept;
}

/// What keep_one_class() gives with one link layer, and what the rank with least of it has.
struct LayerChoice {
  std::vector<PortMask> kept;
  uint64_t least_mbps = UINT64_MAX;
  const Offer* without = nullptr;  ///< the first that has none
};

LayerChoice with_layer(std::span<const Offer> offers, bool ethernet) {
  LayerChoice choice;
  for (const Offer& offer : offers) {
    choice.kept.push_back(fastest(offer, ethernet));
    const uint64_t rate = rate_of(offer, choice.kept.back());
    choice.least_mbps = std::min(choice.least_mbps, rate);
    if (rate == 0 && choice.without == nullptr) choice.without = &offer;
  }
  return choice;
}

/// Sets of nodes that grow together.
class Groups {
 public:
  explicit Groups(size_t nodes) : parent_(nodes) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }
  size_t find(size_t node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }
  /// The lower one stands for both.
  void join(size_t a, size_t b) {
    a = find(a), b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<size_t> parent_;
};

}  // namespace

Offer offer_of(std::span<const PortInfo> ports, int machine, bool named) {
  Offer offer;
  offer.machine = machine;
  offer.named = named;
  for (const PortInfo& port : ports.first(std::min(ports.size(), size_t{kMaxPorts}))) {
    PortOffer& entry = offer.ports[static_cast<size_t>(offer.count++)];
    port.name().copy(entry.name, sizeof entry.name - 1);
    entry.rate_mbps = port.rate_mbps;
    entry.numa_node = port.numa_node;
    entry.address = address_of(port);
  }
  return offer;
}

Result<std::vector<PortMask>> keep_one_class(std::span<const Offer> offers) {
  LayerChoice infiniband = with_layer(offers, false), roce = with_layer(offers, true);
  if (infiniband.without != nullptr && roce.without != nullptr) {
    const Offer &a = *infiniband.without, &b = *roce.without;
    return fail(ErrorCode::kUnsupported,
                "rank {} has ports of RoCE only ({}) and rank {} of InfiniBand only ({}), which "
                "don't reach each other",
                a.first, names_of(a, ~PortMask{0}), b.first, names_of(b, ~PortMask{0}));
  }
  return infiniband.least_mbps >= roce.least_mbps ? infiniband.kept : roce.kept;
}

std::vector<std::string> why_left_out(const Offer& offer, PortMask kept) {
  const PortOffer* chosen = nullptr;
  for (size_t i = 0; i < offer.all().size() && chosen == nullptr; ++i)
    if (has(kept, i)) chosen = &offer.ports[i];
  std::vector<std::string> reasons(offer.all().size());
  for (size_t i = 0; chosen != nullptr && i < reasons.size(); ++i) {
    const PortOffer& port = offer.ports[i];
    if (has(kept, i)) continue;
    reasons[i] = port.address.ethernet != chosen->address.ethernet
                     ? fmt::format("{}, where {} is used", layer_name(port.address.ethernet != 0),
                                   layer_name(chosen->address.ethernet != 0))
                     : fmt::format("{} Mbit/s, where {} has {}", port.rate_mbps, chosen->name,
                                   chosen->rate_mbps);
  }
  return reasons;
}

std::vector<std::string> left_out_here(std::span<const PortInfo> ports,
                                       const DeviceOptions& options) {
  std::vector<PortInfo> candidates;
  std::vector<size_t> place;
  std::vector<std::string> reasons(ports.size());
  for (size_t i = 0; i < ports.size(); ++i) {
    const PortInfo& port = ports[i];
    if (!port.active) continue;
    const bool wanted =
        options.devices.empty() ||
        std::any_of(options.devices.begin(), options.devices.end(), [&](const std::string& name) {
          return name == port.device || name == port.name();
        });
    if (!wanted) {
      reasons[i] = "not in IBCOLL_DEVICES";
    } else {
      candidates.push_back(port);
      place.push_back(i);
    }
  }
  if (candidates.empty()) return reasons;
  const Offer offer = offer_of(candidates, 0, !options.devices.empty());
  const auto kept = keep_one_class({&offer, 1});
  const std::vector<std::string> why = why_left_out(offer, kept->front());
  for (size_t i = 0; i < why.size(); ++i) reasons[place[i]] = why[i];
  return reasons;
}

Stations find_stations(std::span<const Offer> offers, std::span<const PortMask> kept) {
  Stations stations;
  std::map<std::tuple<int32_t, PortMask, std::string>, int> known;
  for (size_t i = 0; i < offers.size(); ++i) {
    const auto [station, fresh] =
        known.try_emplace({offers[i].machine, kept[i], names_of(offers[i], kept[i])},
                          static_cast<int>(stations.all.size()));
    if (fresh) stations.all.push_back({offers[i].first, kept[i], i});
    stations.of_offer.push_back(station->second);
  }
  return stations;
}

Result<std::vector<PortMask>> keep_one_network(const Stations& stations,
                                               std::span<const Heard> heard,
                                               std::span<const Offer> offers) {
  const size_t count = stations.all.size();
  const auto node = [](size_t station, size_t port) { return station * kMaxPorts + port; };
  const auto before = [&](size_t station) { return (station + count - 1) % count; };
  Groups groups(count * kMaxPorts);
  for (size_t station = 0; station < count; ++station)
    for (size_t port = 0; port < kMaxPorts; ++port)
      for (size_t from = 0; from < kMaxPorts; ++from)
        if (has(heard[station][port], from))
          groups.join(node(station, port), node(before(station), from));

  const auto members = [&](size_t station, size_t group) {
    PortMask mask = 0;
    for (size_t port = 0; port < kMaxPorts; ++port)
      if (has(stations.all[station].ports, port) && groups.find(node(station, port)) == group)
        mask |= PortMask{1} << port;
    return mask;
  };
  const auto offer = [&](size_t station) -> const Offer& {
    return offers[stations.all[station].offer];
  };
  std::vector<PortMask> best;
  uint64_t best_rate = 0;
  for (size_t port = 0; port < kMaxPorts; ++port) {
    if (!has(stations.all[0].ports, port)) continue;
    const size_t group = groups.find(node(0, port));
    std::vector<PortMask> kept;
    uint64_t least = UINT64_MAX;
    for (size_t station = 0; station < count; ++station) {
      kept.push_back(members(station, group));
      least = std::min(least, rate_of(offer(station), kept.back()));
    }
    if (least > best_rate) best = std::move(kept), best_rate = least;
  }
  if (best_rate > 0) return best;
  // Going round, the first two neighbours none of whose ports are joined; if all are, each to the
  // next by other ports, the first station and one that its first port does not reach.
  size_t one = 0, other = 0;
  for (size_t station = 1; station < count && other == 0; ++station) {
    PortMask any = 0;
    for (const PortMask row : heard[station]) any |= row;
    if (any == 0) one = station - 1, other = station;
  }
  for (size_t station = 1; station < count && other == 0; ++station)
    if (members(station, groups.find(node(0, 0))) == 0) other = station;
  return fail(ErrorCode::kUnsupported,
              "no ports of all servers reach each other: rank {} on {} does not reach rank {} on "
              "{}: are they on one network, in one partition?",
              stations.all[one].agent, names_of(offer(one), stations.all[one].ports),
              stations.all[other].agent, names_of(offer(other), stations.all[other].ports));
}

size_t choose_port(std::span<const Offer> offers, std::span<const PortMask> kept,
                   std::span<const RankPorts> ranks, const Shape& shape, Rank me) {
  const auto offer_index = [&](Rank rank) {
    return static_cast<size_t>(ranks[static_cast<size_t>(rank)].offer);
  };
  const auto near_of = [&](Rank rank) {
    const size_t index = offer_index(rank);
    return near_ports(offers[index], kept[index], ranks[static_cast<size_t>(rank)].numa_node);
  };
  const auto near_names = [&](Rank rank) {
    return names_of(offers[offer_index(rank)], near_of(rank));
  };
  const Offer& mine = offers[offer_index(me)];
  const std::string wanted = near_names(me);
  std::set<int> servers;  // of this machine
  std::ptrdiff_t place = 0;
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    if (offers[offer_index(rank)].machine != mine.machine) continue;
    servers.insert(shape.server_of(rank));
    if (rank < me && shape.same_server(rank, me) && near_names(rank) == wanted) ++place;
  }
  if (servers.size() > 1) place = std::distance(servers.begin(), servers.find(shape.server_of(me)));
  const PortMask near = near_of(me);
  std::ptrdiff_t skip = place % std::popcount(near);
  size_t port = 0;
  while (!has(near, port) || skip-- > 0) ++port;
  return port;
}

}  // namespace ibcoll::verbs
