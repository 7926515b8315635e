#include "studies/simulate/collective.h"

#include <chrono>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_set>

#include "engine/schedule/describe.h"
#include "engine/schedule/lane_cursor.h"
#include "studies/simulate/link_load.h"

namespace ibcoll::sim {

namespace {

/// Bytes that a collective makes cross the port of a server, out or in, whichever is more, however
/// cleverly it is done.
struct Demand {
  uint64_t out = 0, in = 0;
};

/// Adds what a rank of a neighbour collective demands. A block that is for several ranks of a
/// server crosses once.
void add_neighbor_demand(const RankProgram& program, const Shape& shape, const BlockBytes& bytes,
                         std::vector<Demand>& demands) {
  if (program.graph == nullptr) return;
  std::set<std::tuple<int, Rank, Rank>> crossed;  // target server, block
  const auto destinations = program.graph->destinations(program.me);
  const int from = shape.server_of(program.me);
  for (uint32_t i = 0; i < destinations.size(); ++i) {
    const int to = shape.server_of(destinations[i]);
    if (from == to) continue;
    const Block block = program.block(Buffer::kSend, program.send_slots(shape) == 1 ? 0 : i);
    if (!crossed.emplace(to, block.origin, block.target).second) continue;
    const uint64_t moved = bytes.of ? bytes.of(block) : bytes.all;
    demands[from].out += moved;
    demands[to].in += moved;
  }
}

Demand demand(Collective collective, const Shape& shape, int server, Rank root,
              const RunOptions& run) {
  const auto bytes = [&](Rank origin, Rank target) {
    return run.bytes_of ? run.bytes_of({origin, target}) : run.block_bytes;
  };
  const bool of_root = server == shape.server_of(root);
  const auto servers = static_cast<uint64_t>(shape.servers());
  Demand sum;
  switch (traits(collective).equal) {
    case Collective::kAlltoall:
      for (const Rank mine : shape.members(server)) {
        for (Rank other = 0; other < shape.ranks(); ++other) {
          if (shape.server_of(other) == server) continue;
          sum.out += bytes(mine, other);
          sum.in += bytes(other, mine);
        }
      }
      return sum;
    case Collective::kAllgather:
      for (Rank other = 0; other < shape.ranks(); ++other) {
        if (shape.server_of(other) != server) sum.in += bytes(other, Block::kEveryone);
      }
      return sum;
    case Collective::kGather:
      for (Rank other = 0; of_root && other < shape.ranks(); ++other) {
        if (shape.server_of(other) != server) sum.in += bytes(other, root);
      }
      return sum;
    case Collective::kScatter:
      for (Rank other = 0; of_root && other < shape.ranks(); ++other) {
        if (shape.server_of(other) != server) sum.out += bytes(root, other);
      }
      return sum;
    case Collective::kBcast:
      if (servers > 1) (of_root ? sum.out : sum.in) = run.block_bytes;
      return sum;
    case Collective::kReduce:
      if (servers > 1) (of_root ? sum.in : sum.out) = run.block_bytes;
      return sum;
    case Collective::kAllreduce:
      // Each server gives and gets data of the part that it combines, and the sums.
      sum.out = sum.in = 2 * run.block_bytes * (servers - 1) / servers;
      return sum;
    case Collective::kReduceScatterBlock:
      for (Rank target = 0; servers > 1 && target < shape.ranks(); ++target) {
        const uint64_t part = bytes(Block::kCombined, target);
        if (shape.server_of(target) == server) {
          sum.in += part * (servers - 1);
        } else {
          sum.out += part;
        }
      }
      return sum;
    case Collective::kScan:
    case Collective::kExscan: {
      // Ranks before those of other servers give, ranks behind them get.
      const auto members = shape.members(server);
      const bool is_first = members.front() == 0 && shape.consecutive(server);
      const bool is_last = members.back() + 1 == shape.ranks() && shape.consecutive(server);
      if (servers > 1) {
        sum.in = is_first ? 0 : run.block_bytes;
        sum.out = is_last ? 0 : run.block_bytes;
      }
      return sum;
    }
    default:  // no data; those of neighbours: add_neighbor_demand()
      return sum;
  }
}

/// What a host's ports move together, in bytes a picosecond.
double port_rate(const Routes& routes, uint32_t host_node, bool out) {
  double rate = 0;
  for (const SimulatedLink& link : routes.links()) {
    if ((out ? link.from : link.to) == host_node) rate += 1 / link.ps_per_byte;
  }
  return rate;
}

Result<std::vector<uint32_t>> hosts_of(const Shape& shape, const Routes& routes,
                                       const std::vector<uint32_t>& given, uint32_t ports) {
  const auto servers = static_cast<uint32_t>(shape.servers());
  if (ports == 0 || servers > routes.hosts() / ports) {
    return fail(ErrorCode::kInvalidArgument, "{} servers{}: the network has {} hosts", servers,
                ports == 1 ? "" : fmt::format(" of {} ports", ports), routes.hosts());
  }
  std::vector<uint32_t> hosts = given;
  if (hosts.empty()) {
    hosts.resize(size_t{servers} * ports);
    std::iota(hosts.begin(), hosts.end(), 0);
  }
  if (hosts.size() != size_t{servers} * ports) {
    return fail(ErrorCode::kInvalidArgument, "{} hosts for {} servers{}", hosts.size(), servers,
                ports == 1 ? "" : fmt::format(" of {} ports", ports));
  }
  std::unordered_set<uint32_t> seen;
  for (const uint32_t host : hosts) {
    if (host >= routes.hosts()) {
      return fail(ErrorCode::kInvalidArgument, "no host {}: the network has {}", host,
                  routes.hosts());
    }
    if (!seen.insert(host).second) {
      return fail(ErrorCode::kInvalidArgument, "host {} stands for two servers", host);
    }
  }
  return hosts;
}

/// Rates of flows need not be computed more often than a small part of a block's time, unless asked
/// for.
int64_t default_rate_interval(const Routes& routes, uint64_t block_bytes) {
  double fastest = INFINITY;
  for (const SimulatedLink& link : routes.links()) fastest = std::min(fastest, link.ps_per_byte);
  return static_cast<int64_t>(static_cast<double>(block_bytes) * fastest / 8 /
                              kPicosecondsPerNanosecond);
}

}  // namespace

Result<CollectiveReport> simulate(const Algorithm& algorithm, const Shape& shape,
                                  const topology::Fabric& fabric,
                                  const CollectiveOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  Routes routes(fabric, options.network.level == Level::kPacket);
  IBCOLL_ASSIGN(const std::vector<uint32_t> hosts,
                hosts_of(shape, routes, options.hosts, options.ports));
  // Virtual lanes depend on all routes there may be.
  if (options.network.level == Level::kPacket) IBCOLL_TRY(add_all_routes(hosts, routes));
  AlgorithmOptions how = options.algorithm;
  if (options.mode != Mode::kPaced) how.pacing = Pacing::kFree, how.window = 0;
  RunOptions run = options.run;
  run.hold = options.mode == Mode::kBarrier       ? Hold::kBarrier
             : options.mode == Mode::kSendReceive ? Hold::kRankStep
                                                  : Hold::kProgram;
  // The first piece of one step stands before the second of the step before it: held step by step,
  // a stream over several steps would wait for itself.
  if (run.hold != Hold::kProgram) run.pieces = 1;
  NetworkOptions net = options.network;
  if (net.rate_interval_ns == 0)
    net.rate_interval_ns = default_rate_interval(routes, run.block_bytes);
  // One program at a time is whole: those of all ranks would take gigabytes.
  const std::vector<uint32_t> host_of_rank = hosts_of_ranks(shape, hosts);
  const BlockBytes block_bytes{run.block_bytes, run.bytes_of};
  Packer packer(block_bytes, run.pieces);
  std::vector<PackedProgram> programs;
  std::vector<Demand> demands(static_cast<size_t>(shape.servers()));
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    const ProgramPtr program = algorithm.build(shape, rank, how);
    if (options.network.level == Level::kFlow) {
      IBCOLL_TRY(add_routes(shape, *program, host_of_rank, routes));
    }
    if (has_graph(algorithm.collective)) add_neighbor_demand(*program, shape, block_bytes, demands);
    programs.push_back(packer.pack(*program));
  }
  IBCOLL_ASSIGN(const auto network, Network::create(routes, net, shape.ranks()));
  ProgramRun program_run(shape, std::move(programs), hosts, routes, *network, run);
  const auto describe_item = [&](Rank rank, Lane lane, uint32_t item) {
    const ProgramPtr program = algorithm.build(shape, rank, how);
    const ProgramCursor items(*program, run.pieces);
    return describe(*program, lane, items[static_cast<int>(lane)].place(item));
  };
  IBCOLL_ASSIGN(const RunTimes times, program_run.run(describe_item));

  CollectiveReport report;
  report.time_us = static_cast<double>(times.end) * 1e-6;
  for (int server = 0; server < shape.servers(); ++server) {
    Demand& bytes = demands[static_cast<size_t>(server)];
    if (!has_graph(algorithm.collective)) {
      bytes = demand(algorithm.collective, shape, server, options.algorithm.root, run);
    }
    if (times.end == 0) continue;
    for (const bool out : {true, false}) {  // bytes a picosecond
      const double rate =
          static_cast<double>(out ? bytes.out : bytes.in) / static_cast<double>(times.end);
      double most = 0;
      for (uint32_t port = 0; port < options.ports; ++port) {
        most += port_rate(routes, hosts[static_cast<size_t>(server) * options.ports + port], out);
      }
      report.bandwidth_MBps = std::max(report.bandwidth_MBps, rate * 1e6);
      report.link_fraction = std::max(report.link_fraction, rate / most);
    }
  }
  report.max_link_utilisation = max_link_utilisation(routes, network->link_bytes(), times.end);
  const auto [first, last] = std::minmax_element(times.rank_end.begin(), times.rank_end.end());
  report.min_rank_us = static_cast<double>(*first) * 1e-6;
  for (const Time end : times.rank_end) {
    report.mean_rank_us += static_cast<double>(end) * 1e-6 / shape.ranks();
  }
  for (const StepTime& step : times.steps) {
    report.step_us.push_back(step.end < 0 ? -1 : static_cast<double>(step.end - step.begin) * 1e-6);
  }
  report.link_bytes = network->link_bytes();
  report.messages = times.messages;
  report.events = network->events();
  report.lanes = routes.lanes();
  report.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

std::string link_name(const topology::Fabric& fabric, uint32_t link) {
  const topology::Link& wire = fabric.link(static_cast<int>(link));
  return fmt::format("{}:{} -> {}:{}", fabric.node(wire.from).name, wire.from_port,
                     fabric.node(wire.to).name, wire.to_port);
}

const char* to_string(Mode mode) {
  switch (mode) {
    case Mode::kBarrier:
      return "barrier";
    case Mode::kSendReceive:
      return "sendrecv";
    case Mode::kFree:
      return "free";
    case Mode::kPaced:
      return "paced";
  }
  return "?";
}

Result<Mode> parse_mode(std::string_view text) {
  for (const Mode mode : {Mode::kBarrier, Mode::kSendReceive, Mode::kFree, Mode::kPaced}) {
    if (text == to_string(mode)) return mode;
  }
  return fail(ErrorCode::kInvalidArgument,
              "unknown mode '{}': one of barrier, sendrecv, free, paced", text);
}

}  // namespace ibcoll::sim
