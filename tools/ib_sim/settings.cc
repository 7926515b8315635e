#include "tools/ib_sim/settings.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/units.h"
#include "engine/bootstrap/machine.h"
#include "engine/planner/server_order.h"
#include "engine/schedule/layout.h"
#include "studies/mapping/random.h"
#include "tools/frame/frame.h"
#include "tools/frame/graph_option.h"
#include "topology/spec.h"

namespace ibcoll::tools {

namespace {

using namespace ibcoll::sim;

constexpr int64_t kMaxBlockBytes = int64_t{1} << 40;
constexpr int kMostRanks = 8192;  // packet by packet: routes and packets take memory
constexpr int64_t kMostPorts = 64;
constexpr double kMostPackets = 1e9;  // an hour or so

Result<std::vector<uint32_t>> server_order(const std::string& text, int hosts, uint64_t seed) {
  std::vector<uint32_t> order(hosts);
  std::iota(order.begin(), order.end(), 0);
  if (text == "natural") return order;
  if (text == "random") {
    topology::FastRandom random(seed);
    for (int i = hosts - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
    return order;
  }
  order.clear();
  for (const std::string_view part : split(text, ',')) {
    IBCOLL_ASSIGN(
        const int64_t host,
        parse_integer(part, 0, hosts - 1, "a host of --server-order (natural, random or a list)"));
    order.push_back(static_cast<uint32_t>(host));
  }
  return order;
}

Status read_model(const Arguments& a, CollectiveOptions& options) {
  NetworkOptions& net = options.network;
  IBCOLL_ASSIGN(net.level, parse_level(a.level));
  IBCOLL_ASSIGN(net.queues, parse_queues(a.queues));
  IBCOLL_ASSIGN(net.arbiter, parse_arbiter(a.arbiter));
  IBCOLL_ASSIGN(net.nic, parse_nic(a.nic));
  if (a.switching != "cut-through" && a.switching != "store-and-forward") {
    return fail(ErrorCode::kInvalidArgument,
                "unknown switching '{}': one of cut-through, store-and-forward", a.switching);
  }
  net.cut_through = a.switching == "cut-through";
  constexpr int64_t kMostPacket = 1 << 24;
  const auto packet_bytes = [&](const std::string& text, const char* what) -> Result<uint32_t> {
    IBCOLL_ASSIGN(const int64_t bytes, parse_size(text));
    if (bytes > kMostPacket) {
      return fail(ErrorCode::kInvalidArgument, "{} {}: at most {}", what, text,
                  format_size(kMostPacket));
    }
    return static_cast<uint32_t>(bytes);
  };
  IBCOLL_ASSIGN(net.mtu_bytes, packet_bytes(a.mtu, "--mtu"));
  IBCOLL_ASSIGN(net.header_bytes, packet_bytes(a.header, "--header"));
  if (a.buffer < 1 || a.buffer > 65536) {
    return fail(ErrorCode::kInvalidArgument, "--buffer {}: must be 1 to 65536 packets", a.buffer);
  }
  net.buffer_packets = static_cast<uint32_t>(a.buffer);
  if (a.seed < 0)
    return fail(ErrorCode::kInvalidArgument, "--seed {}: must not be negative", a.seed);
  net.seed = options.run.seed = static_cast<uint64_t>(a.seed);

  RunOptions& run = options.run;
  IBCOLL_ASSIGN(run.send_overhead_ns, parse_duration(a.send_overhead));
  IBCOLL_ASSIGN(run.recv_overhead_ns, parse_duration(a.recv_overhead));
  IBCOLL_ASSIGN(run.skew_ns, parse_duration(a.skew));
  if (!a.copy_rate.empty()) {
    IBCOLL_ASSIGN(run.copy_bytes_per_second, parse_rate(a.copy_rate));
  }
  if (!(a.jitter >= 0 && a.jitter <= 100)) {
    return fail(ErrorCode::kInvalidArgument, "--jitter {}: must be 0 to 100", a.jitter);
  }
  run.jitter = a.jitter;
  constexpr int64_t kMostPieces = 4096;  // as the C interface takes
  if (a.pieces < 0 || a.pieces > kMostPieces) {
    return fail(ErrorCode::kInvalidArgument, "--pieces {}: must be 1 to {}, or 0: as the engine",
                a.pieces, kMostPieces);
  }
  run.pieces = static_cast<uint32_t>(a.pieces);
  IBCOLL_ASSIGN(options.algorithm.pacing, parse_pacing(a.pacing));
  if (a.window < 0 || a.window > kMaxLayoutRanks) {
    return fail(ErrorCode::kInvalidArgument, "--window {}: must be 0 (no limit) to {}", a.window,
                kMaxLayoutRanks);
  }
  options.algorithm.window = static_cast<uint32_t>(a.window);
  options.algorithm.root = static_cast<Rank>(a.root);
  options.algorithm.acks = a.acks;
  options.algorithm.ordered = a.ordered;
  return {};
}

/// Plans are for servers of one port.
Status check_ports(bool all, int64_t ports, Settings& settings) {
  if (ports == 1) return {};
  const auto planned = [](const Algorithm* algorithm) { return algorithm->spec->planned; };
  if (all) {
    std::erase_if(settings.algorithms, planned);
    return {};
  }
  const auto named = std::find_if(settings.algorithms.begin(), settings.algorithms.end(), planned);
  if (named == settings.algorithms.end()) return {};
  return fail(ErrorCode::kInvalidArgument, "{} plans for servers of one port", (*named)->name);
}

/// Of all algorithms those that can't combine in order are left out; one that is named is refused.
Status check_orders(bool all, Settings& settings) {
  for (const Shape& shape : settings.shapes) {
    for (size_t i = 0; i < settings.algorithms.size();) {
      const auto at = settings.algorithms.begin() + static_cast<ptrdiff_t>(i);
      const Status keeps = check_order(**at, shape, settings.options.algorithm);
      if (keeps)
        ++i;
      else if (all)
        settings.algorithms.erase(at);
      else
        return fail(keeps.error().code, "layout {}: {}", shape.describe(), keeps.error().message);
    }
  }
  return {};
}

/// The memory that a run may take is never more than there is.
Status read_limits(const Arguments& a, Settings& settings) {
  IBCOLL_ASSIGN(const int64_t bytes, parse_size(a.most_memory));
  IBCOLL_ASSIGN(const int64_t time_ns, parse_duration(a.most_time));
  settings.most_bytes = std::min(static_cast<uint64_t>(bytes), available_memory());
  settings.most_seconds = static_cast<double>(time_ns) / 1e9;
  return {};
}

/// Packet by packet every packet between servers takes time and, under way, memory: refuses what
/// would take days.
Status check_packets(const Settings& settings, const std::string& sizes) {
  if (settings.options.network.level != Level::kPacket) return {};
  for (size_t i = 0; i < settings.shapes.size(); ++i) {
    const Shape& shape = settings.shapes[i];
    if (shape.ranks() > kMostRanks) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} ranks are more than the limit of {}: take --level flow", shape.ranks(),
                  kMostRanks);
    }
    double messages = shape.ranks();
    if (settings.graphs[i] != nullptr) {
      messages = static_cast<double>(settings.graphs[i]->totals().crossing);
    } else if (!has_root(settings.collective)) {
      messages *= messages;
      for (int server = 0; server < shape.servers(); ++server) {
        const double ranks = shape.server_size(server);
        messages -= ranks * ranks;
      }
    }
    for (const int64_t size : settings.sizes) {
      const double packets =
          messages * std::ceil(static_cast<double>(size) /
                               static_cast<double>(settings.options.network.mtu_bytes));
      if (packets <= kMostPackets) continue;
      return fail(ErrorCode::kInvalidArgument,
                  "--sizes {}: blocks of {} are {:.2g} packets of {} bytes between servers, of "
                  "which up to {:.2g} are simulated: take smaller blocks, a larger --mtu, or "
                  "--level flow",
                  sizes, format_size(size), packets, settings.options.network.mtu_bytes,
                  kMostPackets);
    }
  }
  return {};
}

/// Numbers the servers as suits the network.
Status renumber(const topology::Fabric& fabric, Shape& shape, std::vector<uint32_t>& hosts) {
  const std::vector<int> before(hosts.begin(), hosts.end());
  const ServerOrder best = fabric_server_order(fabric, shape, before);
  IBCOLL_ASSIGN(shape, renumber_servers(shape, best.order));
  for (size_t i = 0; i < hosts.size(); ++i) {
    hosts[i] = static_cast<uint32_t>(before[best.order[i]]);
  }
  return {};
}

}  // namespace

Result<Settings> understand(const Arguments& a) {
  Settings settings;
  IBCOLL_ASSIGN(settings.collective, parse_collective(a.collective));
  IBCOLL_ASSIGN(settings.algorithms, find_algorithms(settings.collective, a.algorithms));
  IBCOLL_ASSIGN(const Placement placement, parse_placement(a.placement));
  for (const std::string& layout : a.layouts) {
    IBCOLL_ASSIGN(Shape shape, shape_from_options(layout, a.ranks, a.servers, placement));
    settings.shapes.push_back(std::move(shape));
  }
  if (a.layouts.empty()) {
    const int64_t servers = a.servers.value_or(a.ranks ? 1 : 24);
    IBCOLL_ASSIGN(Shape shape,
                  shape_from_options("", a.ranks.value_or(servers * 8), servers, placement));
    settings.shapes.push_back(std::move(shape));
  }
  if (a.ports < 1 || a.ports > kMostPorts || (a.ports > 1 && a.renumber)) {
    return fail(ErrorCode::kInvalidArgument, "--ports {}: must be 1 to {}, and 1 with --renumber",
                a.ports, kMostPorts);
  }
  const int ports = static_cast<int>(a.ports);
  settings.options.ports = static_cast<uint32_t>(ports);
  int servers = 0;
  for (const Shape& shape : settings.shapes) {
    servers = std::max(servers, shape.servers());
  }
  for (const std::string_view mode : split(a.modes, ',')) {
    IBCOLL_ASSIGN(settings.modes.emplace_back(), parse_mode(mode));
  }
  IBCOLL_ASSIGN(settings.sizes, parse_sizes(a.sizes));
  for (const int64_t size : settings.sizes) {
    if (size > kMaxBlockBytes) {
      return fail(ErrorCode::kInvalidArgument, "size {} is over the limit of {} bytes a pair", size,
                  format_size(kMaxBlockBytes));
    }
  }
  if (!moves_data(settings.collective)) settings.sizes = {0};
  for (const Shape& shape : settings.shapes) {
    if (a.root >= 0 && a.root < shape.ranks()) continue;
    return fail(ErrorCode::kInvalidArgument, "--root {}: must be 0 to {}", a.root,
                shape.ranks() - 1);
  }
  for (const Shape& shape : settings.shapes) {
    IBCOLL_ASSIGN(settings.graphs.emplace_back(), graph_of(settings.collective, a.graph, shape));
  }
  IBCOLL_TRY(read_model(a, settings.options));
  IBCOLL_TRY(read_limits(a, settings));
  IBCOLL_TRY(check_ports(a.algorithms == "all", ports, settings));
  IBCOLL_TRY(check_orders(a.algorithms == "all", settings));
  IBCOLL_TRY(check_packets(settings, a.sizes));
  const std::string network =
      a.network.empty() ? fmt::format("single-switch:{}", std::max(servers * ports, 2)) : a.network;
  IBCOLL_ASSIGN(settings.fabric, topology::open_fabric(network));
  if (servers * ports > settings.fabric.hosts()) {
    return fail(ErrorCode::kInvalidArgument, "{} {}: the network '{}' has {} hosts",
                servers * ports, ports > 1 ? "ports of servers" : "servers", network,
                settings.fabric.hosts());
  }
  IBCOLL_ASSIGN(const auto order,
                server_order(a.server_order, settings.fabric.hosts(), settings.options.run.seed));
  if (static_cast<int>(order.size()) < servers * ports) {
    return fail(ErrorCode::kInvalidArgument, "--server-order names {} hosts for {} servers",
                order.size(), servers * ports);
  }
  for (Shape& shape : settings.shapes) {
    settings.hosts.emplace_back(order.begin(), order.begin() + shape.servers() * ports);
    if (a.renumber) IBCOLL_TRY(renumber(settings.fabric, shape, settings.hosts.back()));
  }
  return settings;
}

namespace {

/// What is run, between whom.
void add_run_options(Command app, Arguments& a) {
  app.option("collective", a.collective, "One of " + collective_names()).with_default();
  app.option("--root", a.root, "Root of gather(v), scatter(v), bcast and reduce").with_default();
  add_graph_option(app, a.graph);
  app.option("--network", a.network,
             "Network: a specification or a file, see below (default: one switch with links of "
             "2000 MB/s)");
  app.option("--layout", a.layouts,
             "Ranks of each server: 3,1,2 or 24x8 (24 servers of 8 ranks, the default); several "
             "layouts are compared");
  app.option("--ranks", a.ranks, "Number of ranks, instead of a layout");
  app.option("--servers", a.servers, "Number of servers that the ranks are spread over");
  app.option("--placement", a.placement, "How ranks are placed on servers: block or cyclic")
      .with_default();
  app.option("--ports", a.ports,
             "Number of ports of each server, each of them a host of the network; the ranks of a "
             "server are spread over its ports")
      .with_default();
  app.option("--server-order", a.server_order,
             "Hosts of the servers: natural (server 0 is host 0, and so on), random (by --seed), "
             "or a list such as 2,0,1")
      .with_default();
  app.flag("--renumber", a.renumber,
           "Renumber the servers to suit the network, for algorithms that step from server to "
           "server; ring steps from rank to rank and is not affected");
  app.option("--sizes", a.sizes, "Bytes per pair of ranks: 1K,64K or 1K-1M (doubling)")
      .with_default();
  app.option("--algorithm", a.algorithms, "Algorithms, separated by commas, or all").with_default();
  app.option("--mode", a.modes,
             "How ranks go from step to step; modes, separated by commas: barrier (all ranks wait "
             "for each other), sendrecv (each rank sends and receives, as in pseudo code), free "
             "(each rank sends as fast as its port can), paced (as in the engine)")
      .with_default();
  app.option("--pacing", a.pacing, "Pacing (mode paced): free, gate, token, gate_token")
      .with_default();
  app.option("--window", a.window,
             "Number of steps that may be in flight if neither gates nor tokens pace them (mode "
             "paced; 0: no limit)")
      .with_default();
  app.option("--pieces", a.pieces,
             "Number of pieces that blocks are cut into, in streams (modes paced and free) and by "
             "algorithms that cut blocks (0: as in the engine)")
      .with_default();
  app.flag("--acks", a.acks, "Let a bcast last until the root has acknowledgements from all ranks");
  app.flag("--ordered", a.ordered, "Combine data in the order of ranks in reductions");
}

/// The network and the ranks as they are modelled.
void add_model_options(Command app, Arguments& a) {
  app.option("--level", a.level,
             "What is simulated: packet (each packet) or flow (messages share links evenly, and "
             "blocking is estimated: faster, but wrong by up to a quarter if links are "
             "oversubscribed, and by more if nothing is paced)")
      .with_default();
  app.option(
         "--queues", a.queues,
         "Queues of switches: fifo (one per input), voq (virtual output queues), output (ideal)")
      .with_default();
  app.option("--arbiter", a.arbiter, "Arbiters of switches: round-robin, random").with_default();
  app.option("--nic", a.nic,
             "How a server's port chooses the rank whose packet goes next: random, round-robin, "
             "one-at-a-time (whole messages)")
      .with_default();
  app.option("--switching", a.switching, "Switching: cut-through, store-and-forward")
      .with_default();
  app.option("--mtu", a.mtu, "Largest amount of data in a packet").with_default();
  app.option("--header", a.header, "Size of a packet's header, which is added to its data")
      .with_default();
  app.option("--buffer", a.buffer,
             "Number of packets that an input port holds for each virtual lane")
      .with_default();
  app.option("--send-overhead", a.send_overhead,
             "Time that a rank is busy for each message that it sends to another server")
      .with_default();
  app.option("--recv-overhead", a.recv_overhead,
             "Time that a rank is busy for each message that it gets from another server")
      .with_default();
  app.option("--copy-rate", a.copy_rate,
             "Rate at which a rank copies inside its server, such as 5GB/s (default: copies cost "
             "nothing)");
  app.option("--skew", a.skew, "Ranks start late by a random time of up to this").with_default();
  app.option("--jitter", a.jitter,
             "Before each message to another server, a rank pauses for a random time of up to this "
             "fraction of the message's own time, such as 0.2")
      .with_default();
  app.option("--seed", a.seed, "Seed of everything random").with_default();
  app.option("--most-memory", a.most_memory,
             "Memory that a run at flow level may take; runs are refused if they are estimated to "
             "take more")
      .with_default();
  app.option("--most-time", a.most_time,
             "Processor time that all runs at flow level may take together; runs are refused if "
             "they are estimated to take more, and given up when it shows that they would")
      .with_default();
}

}  // namespace

void add_options(Command app, Arguments& a) {
  add_run_options(app, a);
  add_model_options(app, a);
  app.flag("--step-times", a.steps, "Show the time of each step; --plot then draws these times");
  app.flag("--link-load", a.links, "Show the busiest links");
  add_json_option(app, a.json);
  app.option("--plot", a.plot,
             "Draw bandwidths, or with --step-times the time of each step, to this SVG file");
}

}  // namespace ibcoll::tools
