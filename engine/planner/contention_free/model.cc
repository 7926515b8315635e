#include "engine/planner/contention_free/model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ibcoll::contention_free {

namespace {

constexpr int kMostSlots = 256;
constexpr int kFineness = 32;
constexpr int kMostServers = 1 << 15;
/// Larger plans would take more than 10 GB.
constexpr int64_t kMostTransfers = int64_t{1} << 25;
/// Servers whose latencies stand in a table, of 32 MB.
constexpr int kMostInTable = 2048;
/// Shipments whose routes are kept.
constexpr size_t kMostRoutes = 70'000;

Status check_sizes(const PlanInputs& inputs) {
  const size_t servers = inputs.server_ranks.size();
  constexpr uint64_t kMostBytes = uint64_t{1} << 50;
  if (inputs.block_bytes > kMostBytes) {
    return fail(ErrorCode::kInvalidArgument, "{} bytes a block: at most {}", inputs.block_bytes,
                kMostBytes);
  }
  if (inputs.piece_bytes == 0) return fail(ErrorCode::kInvalidArgument, "pieces of 0 bytes");
  if (inputs.most_parts < 0 || inputs.most_parts > kMostParts) {
    return fail(ErrorCode::kInvalidArgument, "messages in {} parts: must be 0 to {}",
                inputs.most_parts, kMostParts);
  }
  if (inputs.message_bytes.empty()) return {};
  const size_t expected = sizes_of(inputs.collective, servers);
  if (inputs.message_bytes.size() != expected) {
    return fail(ErrorCode::kInvalidArgument, "{} sizes of messages: {} of {} servers takes {}",
                inputs.message_bytes.size(), to_string(inputs.collective), servers, expected);
  }
  for (size_t i = 0; i < expected; ++i) {
    if (inputs.message_bytes[i] <= kMostBytes) continue;
    return fail(ErrorCode::kInvalidArgument, "message {} has {} bytes: at most {}", i,
                inputs.message_bytes[i], kMostBytes);
  }
  return {};
}

Status check_hosts(const PlanInputs& inputs, Problem& problem) {
  const topology::Fabric& fabric = *inputs.fabric;
  if (!inputs.hosts.empty() && inputs.hosts.size() != inputs.server_ranks.size()) {
    return fail(ErrorCode::kInvalidArgument, "{} hosts for {} servers", inputs.hosts.size(),
                problem.servers);
  }
  std::vector<int> server_of(fabric.hosts(), -1);
  for (int server = 0; server < problem.servers; ++server) {
    const int host = inputs.hosts.empty() ? server : inputs.hosts[server];
    if (host < 0 || host >= fabric.hosts()) {
      return fail(ErrorCode::kInvalidArgument,
                  "server {} is host {}: the network '{}' has hosts 0 to {}", server, host,
                  fabric.name(), fabric.hosts() - 1);
    }
    if (server_of[host] >= 0) {
      return fail(ErrorCode::kInvalidArgument, "servers {} and {} are both host {} ({})",
                  server_of[host], server, host, fabric.node(host).name);
    }
    server_of[host] = server;
    problem.hosts.push_back(host);
  }
  return {};
}

/// Servers of one switch side by side, switches in the order of their first hosts.
void number_servers(Problem& problem) {
  std::vector<int> first(problem.fabric.nodes(), INT32_MAX);
  for (int server = 0; server < problem.servers; ++server) {
    int& least = first[problem.leaf(server)];
    least = std::min(least, problem.hosts[server]);
  }
  problem.by_position.resize(problem.servers);
  problem.position.resize(problem.servers);
  std::iota(problem.by_position.begin(), problem.by_position.end(), 0);
  std::sort(problem.by_position.begin(), problem.by_position.end(), [&](int a, int b) {
    return std::pair(first[problem.leaf(a)], problem.hosts[a]) <
           std::pair(first[problem.leaf(b)], problem.hosts[b]);
  });
  for (int i = 0; i < problem.servers; ++i) problem.position[problem.by_position[i]] = i;
}

/// Switches joined without a cycle, bundles of cables counted singly.
bool is_tree(const topology::Fabric& fabric) {
  int cables = 0;
  for (int link = 0; link < fabric.links(); link += 2) {
    cables += !fabric.is_host(fabric.link(link).from) && !fabric.is_host(fabric.link(link).to);
  }
  return cables == fabric.switches() - 1;
}

/// How many of the slowest shipments a link carries at once.
int slots_of(double bandwidth, double least_rate) {
  const double slots = bandwidth / least_rate * (1 + 1e-9);
  return std::max(1, static_cast<int>(std::min<double>(slots, kMostSlots)));
}

/// Counts what the shipments put on links, by the rates that they have.
void count_uses(Problem& problem) {
  for (LinkUse& use : problem.links) use = {};
  Path path;
  for (uint32_t i = 0; i < problem.shipments.size(); ++i) {
    Shipment& shipment = problem.shipments[i];
    shipment.duration_ns = duration_ns(shipment.bytes, shipment.rate);
    for (const Hop& hop : problem.route(i, path)) {
      LinkUse& use = problem.links[hop.link];
      const bool first = use.shipments++ == 0;
      use.least_rate = first ? shipment.rate : std::min(use.least_rate, shipment.rate);
      use.most_rate = std::max(use.most_rate, shipment.rate);
      use.shortest_ns =
          first ? shipment.duration_ns : std::min(use.shortest_ns, shipment.duration_ns);
      use.busy_ns +=
          static_cast<double>(shipment.bytes) * 1e9 / problem.fabric.link(hop.link).bandwidth;
    }
  }
  for (int link = 0; link < problem.fabric.links(); ++link) {
    LinkUse& use = problem.links[link];
    if (use.shipments == 0) continue;
    use.slots = slots_of(problem.fabric.link(link).bandwidth, use.least_rate);
    use.units = use.slots;
  }
}

/// What is forwarded goes on no faster than it comes, a sum no faster than what goes into it.
void follow_rates(Problem& problem, const Sums& sums) {
  std::vector<double> arriving(sums.count(), INFINITY);  // by sum: the slowest into it
  for (Shipment& shipment : problem.shipments) {
    if (const size_t sum = sums.awaited_by(shipment); sum != Sums::kNone) {
      shipment.rate = std::min(shipment.rate, arriving[sum]);
    } else if (shipment.forwards != Transfer::kNone && !problem.by_wholes) {
      shipment.rate = std::min(shipment.rate, problem.shipments[shipment.forwards].rate);
    }
    if (const size_t sum = sums.fed_by(shipment); sum != Sums::kNone) {
      arriving[sum] = std::min(arriving[sum], shipment.rate);
    }
  }
}

/// A shipment as fast as a link that slow ones pass, too, would have it for itself and wait until
/// none of them is there. Where that costs it little it leaves room for one. Whether any does.
bool leave_room(Problem& problem) {
  constexpr int kLeastSlots = 8;
  const auto is_mixed = [](const LinkUse& use) {
    return use.slots >= kLeastSlots && use.most_rate > use.least_rate;
  };
  if (std::ranges::none_of(problem.links, is_mixed)) return false;
  bool slower = false;
  Path path;
  for (uint32_t i = 0; i < problem.shipments.size(); ++i) {
    Shipment& shipment = problem.shipments[i];
    for (const Hop& hop : problem.route(i, path)) {
      const int slots = problem.links[hop.link].slots;
      if (!is_mixed(problem.links[hop.link])) continue;
      const double most = problem.fabric.link(hop.link).bandwidth * (slots - 1) / slots;
      if (shipment.rate <= most) continue;
      shipment.rate = most;
      slower = true;
    }
  }
  return slower;
}

/// Divides the slots of links whose shipments have rates that are no multiples of the least.
void divide_slots(Problem& problem) {
  Path path;
  for (uint32_t i = 0; i < problem.shipments.size(); ++i) {
    const Shipment& shipment = problem.shipments[i];
    for (const Hop& hop : problem.route(i, path)) {
      LinkUse& use = problem.links[hop.link];
      if (use.slots == 1 || use.fineness > 1) continue;
      const double parts = shipment.rate / use.least_rate;
      if (std::abs(parts - std::round(parts)) <= 1e-6 * parts) continue;
      use.fineness = kFineness;
      use.units = static_cast<int>(problem.fabric.link(hop.link).bandwidth / use.least_rate *
                                   kFineness * (1 + 1e-9));
      use.units = std::min(use.units, kMostSlots * kFineness);
    }
  }
}

}  // namespace

int64_t duration_ns(uint64_t bytes, double rate) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(bytes) * 1e9 / rate - 1e-6));
}

uint64_t message_bytes(const PlanInputs& inputs, int origin, int target) {
  const std::vector<int>& ranks = inputs.server_ranks;
  const auto sized = [&](int server) {
    return inputs.message_bytes.empty() ? inputs.block_bytes * static_cast<uint64_t>(ranks[server])
                                        : inputs.message_bytes[server];
  };
  switch (inputs.collective) {
    case Collective::kGather:
    case Collective::kAllgather:
      return sized(origin);
    case Collective::kScatter:
    case Collective::kReduceScatter:
      return sized(target);
    case Collective::kAlltoall:
      return inputs.message_bytes.empty()
                 ? inputs.block_bytes * static_cast<uint64_t>(ranks[origin]) *
                       static_cast<uint64_t>(ranks[target])
                 : inputs.message_bytes[static_cast<size_t>(origin) * ranks.size() + target];
    case Collective::kBcast:
    case Collective::kReduce:
      return inputs.block_bytes;
    case Collective::kAllreduce:
      return (inputs.block_bytes + ranks.size() - 1) / ranks.size();
    default:  // is not planned
      return 0;
  }
}

void Problem::walk(int from, int to, Path& path) const {
  path.hops.clear();
  path.latency_ns = 0;
  path.bandwidth = INFINITY;
  fabric.visit_route(hosts[from], hosts[to], [&](int l) {
    const topology::Link& link = fabric.link(l);
    path.hops.push_back({l, 1, path.latency_ns});
    path.latency_ns += link.latency_ns + fabric.switch_latency_ns();
    path.bandwidth = std::min(path.bandwidth, link.bandwidth);
  });
  if (from != to) path.latency_ns -= fabric.switch_latency_ns();
}

Result<Problem> make_problem(const PlanInputs& inputs) {
  if (inputs.fabric == nullptr) return fail(ErrorCode::kInvalidArgument, "no network given");
  if (std::ranges::count(kPlanned, inputs.collective) == 0) {
    return fail(ErrorCode::kInvalidArgument, "no plans of {}: one of {}",
                to_string(inputs.collective), planned_names());
  }
  if (inputs.server_ranks.empty() || inputs.server_ranks.size() > kMostServers) {
    return fail(ErrorCode::kInvalidArgument, "{} servers: must be 1 to {}",
                inputs.server_ranks.size(), kMostServers);
  }
  Problem problem(inputs);
  problem.servers = static_cast<int>(inputs.server_ranks.size());
  problem.piece_bytes = inputs.piece_bytes;
  for (int server = 0; server < problem.servers; ++server) {
    if (inputs.server_ranks[server] >= 1) continue;
    return fail(ErrorCode::kInvalidArgument, "server {} has {} ranks: at least 1", server,
                inputs.server_ranks[server]);
  }
  const int64_t transfers = transfers_of(inputs.collective, problem.servers);
  if (transfers > kMostTransfers) {
    return fail(ErrorCode::kInvalidArgument, "{} of {} servers has {} transfers: at most {}",
                to_string(inputs.collective), problem.servers, transfers, kMostTransfers);
  }
  if (inputs.root < 0 || inputs.root >= problem.servers) {
    return fail(ErrorCode::kInvalidArgument, "root {}: there are servers 0 to {}", inputs.root,
                problem.servers - 1);
  }
  IBCOLL_TRY(check_sizes(inputs));
  IBCOLL_TRY(check_hosts(inputs, problem));
  number_servers(problem);
  problem.is_tree = is_tree(problem.fabric);
  if (is_alltoall(inputs.collective) && problem.servers <= kMostInTable) {
    std::vector<int64_t> latencies;
    latencies.reserve(static_cast<size_t>(problem.servers) * problem.servers);
    for (int from = 0; from < problem.servers; ++from) {
      for (int to = 0; to < problem.servers; ++to) {
        latencies.push_back(problem.latency_ns(from, to));
      }
    }
    problem.latencies = std::move(latencies);
  }
  return problem;
}

void measure_shipments(Problem& problem) {
  problem.links.assign(problem.fabric.links(), {});
  const Sums sums(problem.inputs.collective, problem.servers);
  problem.hops.clear();
  problem.first_hop.clear();
  const bool keep = problem.shipments.size() <= kMostRoutes;
  if (keep) {
    constexpr size_t kUsualHops = 8;  // what is reserved and not used costs nothing
    problem.first_hop.reserve(problem.shipments.size() + 1);
    problem.hops.reserve(problem.shipments.size() * kUsualHops);
  }
  Path path;
  for (Shipment& shipment : problem.shipments) {
    problem.walk(shipment.from, shipment.to, path);
    if (keep) {
      problem.first_hop.push_back(static_cast<uint32_t>(problem.hops.size()));
      problem.hops.insert(problem.hops.end(), path.hops.begin(), path.hops.end());
    }
    shipment.latency_ns = path.latency_ns;
    shipment.rate = path.bandwidth;
  }
  if (keep) problem.first_hop.push_back(static_cast<uint32_t>(problem.hops.size()));
  follow_rates(problem, sums);
  count_uses(problem);
  if (leave_room(problem)) {
    follow_rates(problem, sums);
    count_uses(problem);
  }
  bool uneven = false;
  for (const LinkUse& use : problem.links)
    uneven = uneven || (use.slots > 1 && use.most_rate > use.least_rate * (1 + 1e-9));
  if (uneven) divide_slots(problem);
  if (!keep) return;
  for (size_t i = 0; i < problem.shipments.size(); ++i) {
    for (uint32_t h = problem.first_hop[i]; h < problem.first_hop[i + 1]; ++h) {
      Hop& hop = problem.hops[h];
      hop.units = problem.links[hop.link].units_of(problem.shipments[i].rate);
    }
  }
}

}  // namespace ibcoll::contention_free
