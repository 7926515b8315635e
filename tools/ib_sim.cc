/// ib_sim: how long collectives take on a network that need not exist.

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "engine/algorithms/registry.h"
#include "engine/base/json_lines.h"
#include "engine/base/output.h"
#include "engine/base/units.h"
#include "engine/measure/traffic.h"
#include "engine/planner/contention_free/plan_store.h"
#include "engine/planner/server_order.h"
#include "engine/schedule/layout.h"
#include "engine/simulate/report.h"
#include "engine/tuner/choose.h"
#include "tools/frame/frame.h"
#include "topology/distort.h"
#include "topology/mapping/random.h"
#include "topology/spec.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::sim;

constexpr int64_t kMaxBlockBytes = int64_t{1} << 40;
constexpr int kMostRanks = 8192;  // memory grows with their square
constexpr size_t kBusiestLinks = 12;
constexpr double kMostPackets = 1e9;  // an hour or so

/// The command line as it was typed.
struct Arguments {
  std::string collective = "alltoall", network, placement = "block", algorithms = "all";
  std::vector<std::string> layouts;
  std::optional<int64_t> ranks, servers;
  std::string sizes = "1M", modes = "paced", pacing = "gate_token", server_order = "natural";
  std::string level = "packet", queues = "fifo", arbiter = "round-robin", nic = "random";
  std::string mtu = "2K", header = "0", switching = "cut-through", copy_rate;
  std::string send_overhead = "0ns", recv_overhead = "0ns", skew = "0ns", json, plot;
  int64_t window = 1, buffer = 16, pieces = 0, seed = 1, root = 0;
  double jitter = 0;
  bool steps = false, links = false, renumber = false;
};

/// What it means.
struct Request {
  Collective collective = Collective::kAlltoall;
  std::vector<const Algorithm*> algorithms;
  std::vector<Shape> shapes;
  std::vector<std::vector<uint32_t>> hosts;  // of each shape's servers
  std::vector<Mode> modes;
  std::vector<int64_t> sizes;
  CollectiveOptions options;
  topology::Fabric fabric;
};

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
  if (a.pieces < 0 || a.pieces > 64) {
    return fail(ErrorCode::kInvalidArgument, "--pieces {}: must be 1 to 64, or 0: as the engine",
                a.pieces);
  }
  run.pieces = static_cast<uint32_t>(a.pieces);
  IBCOLL_ASSIGN(options.algorithm.pacing, parse_pacing(a.pacing));
  if (a.window < 0 || a.window > kMaxLayoutRanks) {
    return fail(ErrorCode::kInvalidArgument, "--window {}: must be 0 (no limit) to {}", a.window,
                kMaxLayoutRanks);
  }
  options.algorithm.window = static_cast<uint32_t>(a.window);
  options.algorithm.root = static_cast<Rank>(a.root);
  return {};
}

Status choose_algorithms(const std::string& names, Request& request) {
  if (names == "all") {
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.collective == request.collective) request.algorithms.push_back(&algorithm);
    }
    return {};
  }
  for (const std::string_view name : split(names, ',')) {
    IBCOLL_ASSIGN(const Algorithm* algorithm, find_algorithm(request.collective, name));
    request.algorithms.push_back(algorithm);
  }
  return {};
}

/// Packet by packet every packet between servers takes time and, under way, memory: refuses what
/// would take days.
Status check_packets(const Request& request, const std::string& sizes) {
  if (request.options.network.level != Level::kPacket) return {};
  for (const Shape& shape : request.shapes) {
    double messages = shape.ranks();
    if (!has_root(request.collective)) {
      messages *= messages;
      for (int server = 0; server < shape.servers(); ++server) {
        const double ranks = shape.server_size(server);
        messages -= ranks * ranks;
      }
    }
    for (const int64_t size : request.sizes) {
      const double packets =
          messages * std::ceil(static_cast<double>(size) /
                               static_cast<double>(request.options.network.mtu_bytes));
      if (packets <= kMostPackets) continue;
      return fail(ErrorCode::kInvalidArgument,
                  "--sizes {}: blocks of {} are {:.2g} packets of {} bytes between servers, of "
                  "which up to {:.2g} are simulated: take smaller blocks, a larger --mtu, or "
                  "--level flow",
                  sizes, format_size(size), packets, request.options.network.mtu_bytes,
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

Result<Request> understand(const Arguments& a) {
  Request request;
  IBCOLL_ASSIGN(request.collective, parse_collective(a.collective));
  IBCOLL_TRY(choose_algorithms(a.algorithms, request));
  IBCOLL_ASSIGN(const Placement placement, parse_placement(a.placement));
  for (const std::string& layout : a.layouts) {
    IBCOLL_ASSIGN(Shape shape, shape_from_options(layout, a.ranks, a.servers, placement));
    request.shapes.push_back(std::move(shape));
  }
  if (a.layouts.empty()) {
    const int64_t servers = a.servers.value_or(a.ranks ? 1 : 24);
    IBCOLL_ASSIGN(Shape shape,
                  shape_from_options("", a.ranks.value_or(servers * 8), servers, placement));
    request.shapes.push_back(std::move(shape));
  }
  int servers = 0;
  for (const Shape& shape : request.shapes) {
    if (shape.ranks() > kMostRanks) {
      return fail(ErrorCode::kInvalidArgument, "{} ranks are more than the limit of {}",
                  shape.ranks(), kMostRanks);
    }
    servers = std::max(servers, shape.servers());
  }
  for (const std::string_view mode : split(a.modes, ',')) {
    IBCOLL_ASSIGN(request.modes.emplace_back(), parse_mode(mode));
  }
  IBCOLL_ASSIGN(request.sizes, parse_sizes(a.sizes));
  for (const int64_t size : request.sizes) {
    if (size > kMaxBlockBytes) {
      return fail(ErrorCode::kInvalidArgument, "size {} is over the limit of {} bytes a pair", size,
                  format_size(kMaxBlockBytes));
    }
  }
  if (request.collective == Collective::kBarrier) request.sizes = {0};
  for (const Shape& shape : request.shapes) {
    if (a.root >= 0 && a.root < shape.ranks()) continue;
    return fail(ErrorCode::kInvalidArgument, "--root {}: must be 0 to {}", a.root,
                shape.ranks() - 1);
  }
  IBCOLL_TRY(read_model(a, request.options));
  IBCOLL_TRY(check_packets(request, a.sizes));
  const std::string network =
      a.network.empty() ? fmt::format("single-switch:{}", std::max(servers, 2)) : a.network;
  IBCOLL_ASSIGN(request.fabric, topology::open_fabric(network));
  if (servers > request.fabric.hosts()) {
    return fail(ErrorCode::kInvalidArgument, "{} servers: the network '{}' has {} hosts", servers,
                network, request.fabric.hosts());
  }
  IBCOLL_ASSIGN(const auto order,
                server_order(a.server_order, request.fabric.hosts(), request.options.run.seed));
  if (static_cast<int>(order.size()) < servers) {
    return fail(ErrorCode::kInvalidArgument, "--server-order names {} hosts for {} servers",
                order.size(), servers);
  }
  for (Shape& shape : request.shapes) {
    request.hosts.emplace_back(order.begin(), order.begin() + shape.servers());
    if (a.renumber) IBCOLL_TRY(renumber(request.fabric, shape, request.hosts.back()));
  }
  return request;
}

/// Shows how far a run is on a terminal.
class Progress {
 public:
  Progress(std::string what, size_t run, size_t runs)
      : what_(fmt::format("{}/{} {}", run, runs, std::move(what))) {
    show(0);
  }
  ~Progress() {
    if (terminal_) fmt::print(stderr, "\r\033[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(double part) {
    const int percent = static_cast<int>(100 * part);
    if (terminal_ && percent != shown_) fmt::print(stderr, "\r\033[K{}: {} %", what_, percent);
    shown_ = percent;
  }

 private:
  const std::string what_;
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  int shown_ = -1;
};

Result<SimRow> simulate_one(const Request& request, contention_free::PlanStore& plans,
                            const Algorithm& algorithm, size_t which, Mode mode, int64_t size,
                            size_t run, size_t runs) {
  const Shape& shape = request.shapes[which];
  SimRow row{&algorithm, shape, request.options, {}};
  row.options.mode = mode;
  row.options.run.block_bytes = static_cast<uint64_t>(size);
  row.options.hosts = request.hosts[which];
  if (algorithm.name == "contention_free") {
    const std::vector<int> hosts(row.options.hosts.begin(), row.options.hosts.end());
    IBCOLL_ASSIGN(row.options.algorithm.plan,
                  plans.find(request.collective, shape, hosts, row.options.algorithm.root,
                             is_unequal(request.collective) ? -1 : size));
  }
  const int64_t equal_bytes = is_unequal(request.collective) ? -1 : size;
  if (row.options.run.pieces == 0) {
    row.options.run.pieces = algorithm.name == "contention_free"
                                 ? choose_pieces(equal_bytes, row.options.algorithm.plan.get())
                                 : choose(request.collective, shape, equal_bytes).pieces;
  }
  const measure::Traffic traffic(request.collective, shape.ranks(), size,
                                 request.options.algorithm.root);
  if (is_unequal(request.collective)) {
    row.options.run.bytes_of = [&traffic](const Block& block) {
      return static_cast<uint64_t>(traffic.bytes(block.origin, std::max(block.target, 0)));
    };
  }
  Progress progress(fmt::format("{} {} {}", row.label(true), shape.describe(), format_size(size)),
                    run, runs);
  row.options.run.progress = [&progress](uint64_t done, uint64_t all) {
    progress.show(static_cast<double>(done) / static_cast<double>(all));
  };
  auto report = simulate(algorithm, shape, request.fabric, row.options);
  if (!report) {
    return fail(report.error().code, "{}, {}: {}", row.label(true), shape.describe(),
                report.error().message);
  }
  row.report = *std::move(report);
  row.options.run.bytes_of = {};
  row.options.run.progress = {};
  return row;
}

/// As wide as the runs' names will be.
SummaryLines summary_lines(const Request& request) {
  size_t label = std::string_view("algorithm").size(), layout = std::string_view("layout").size();
  for (const Shape& shape : request.shapes) {
    layout = std::max(layout, shape.describe().size());
    for (const Algorithm* algorithm : request.algorithms) {
      for (const Mode mode : request.modes) {
        SimRow row{algorithm, shape, request.options, {}};
        row.options.mode = mode;
        label = std::max(label, row.label(false).size());
      }
    }
  }
  return {label, layout};
}

Status run(const Arguments& a) {
  IBCOLL_ASSIGN(const Request request, understand(a));
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(a.json));
  if (!a.plot.empty()) IBCOLL_TRY(write_file(a.plot, ""));  // fails now rather than at the end
  const bool text = !json.to_stdout();
  IBCOLL_ASSIGN(topology::Fabric believed, topology::believe(request.fabric, std::nullopt));
  contention_free::PlanStore plans(std::move(believed));
  const SummaryLines lines = summary_lines(request);
  std::string tables;
  std::vector<SimRow> rows;
  const size_t runs = request.shapes.size() * request.sizes.size() * request.algorithms.size() *
                      request.modes.size();
  for (size_t shape = 0; shape < request.shapes.size(); ++shape) {
    for (const int64_t size : request.sizes) {
      const size_t first = rows.size();
      for (const Algorithm* algorithm : request.algorithms) {
        for (const Mode mode : request.modes) {
          IBCOLL_ASSIGN(SimRow row, simulate_one(request, plans, *algorithm, shape, mode, size,
                                                 rows.size() + 1, runs));
          json.write(to_json(row, request.fabric, a.steps, a.links));
          if (text && rows.empty()) {
            print("{} on {}\n\n{}", to_string(request.collective), request.fabric.name(),
                  lines.head());
          }
          if (text) print_text(lines.line(row));
          IBCOLL_TRY(
              flush_output());  // who waits sees how far it is; nobody reads: no need to go on
          rows.push_back(std::move(row));
        }
      }
      const std::vector<SimRow> together(rows.begin() + static_cast<ptrdiff_t>(first), rows.end());
      if (a.steps) tables += "\n" + step_table(together);
      if (!a.links) continue;
      for (const SimRow& row : together) {
        tables += fmt::format("\n{}, busiest links:\n{}", row.label(true),
                              link_table(row, request.fabric, kBusiestLinks));
      }
    }
  }
  if (text) {
    if (request.options.network.level == Level::kFlow)
      print("Flows are an estimate: differences under a quarter mean little (--help).\n");
    print_text(tables);
  }
  if (!a.plot.empty()) {
    const Plot plot =
        a.steps ? step_plot(rows, request.fabric) : bandwidth_plot(rows, request.fabric);
    IBCOLL_TRY(plot.write(a.plot));
  }
  return json.close();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Simulates collectives on a network: how long they take, step by step, and which links are "
      "busy.\nIt runs the programs the engine runs, packet by packet or as flows.");
  Arguments a;
  app.add_option("collective", a.collective, "One of " + collective_names())->capture_default_str();
  app.add_option("--root", a.root, "Of gather, scatter, bcast and reduce")->capture_default_str();
  app.add_option("--network", a.network,
                 "A file or a description, see below (default: one switch of 2000 MB/s links)");
  app.add_option("--layout", a.layouts,
                 "Ranks of the servers: 24x8 or 3,1,2 (default 24x8); several are compared");
  app.add_option("--ranks", a.ranks, "Number of ranks, instead of a layout");
  app.add_option("--servers", a.servers, "Spread them over so many servers");
  app.add_option("--placement", a.placement, "How ranks are dealt to servers: block, cyclic")
      ->capture_default_str();
  app.add_option("--server-order", a.server_order,
                 "Which host is which server: natural, random (by --seed) or a list")
      ->capture_default_str();
  app.add_flag("--renumber", a.renumber,
               "Number the servers as suits the network before ranks walk them; ring goes by ranks "
               "and stays as it is");
  app.add_option("--sizes", a.sizes, "Bytes a pair of ranks: 1K,64K or 1K-1M")
      ->capture_default_str();
  app.add_option("--algorithm", a.algorithms, "Names with commas, or all")->capture_default_str();
  app.add_option(
         "--mode", a.modes,
         "barrier (between steps), sendrecv (a step, as pseudo code has it), free, paced (as "
         "the engine does)")
      ->capture_default_str();
  app.add_option("--pacing", a.pacing, "Of mode paced: free, gate, token, gate_token")
      ->capture_default_str();
  app.add_option("--window", a.window, "Of mode paced: steps in flight where steps are free")
      ->capture_default_str();
  app.add_option(
         "--pieces", a.pieces,
         "Cut blocks of streams into so many pieces (modes paced and free; 0: as the engine)")
      ->capture_default_str();
  app.add_option("--level", a.level,
                 "packet, or flow: links shared evenly, blocking estimated; fast, but up to a "
                 "quarter off where links are oversubscribed, more where nothing is paced")
      ->capture_default_str();
  app.add_option("--queues", a.queues,
                 "Of switches: fifo (one an input), voq (virtual output queues), output (ideal)")
      ->capture_default_str();
  app.add_option("--arbiter", a.arbiter, "Of switches: round-robin, random")->capture_default_str();
  app.add_option("--nic", a.nic, "Whose packet goes next: random, round-robin, one-at-a-time")
      ->capture_default_str();
  app.add_option("--switching", a.switching, "cut-through, store-and-forward")
      ->capture_default_str();
  app.add_option("--mtu", a.mtu, "Data of a packet at most")->capture_default_str();
  app.add_option("--header", a.header, "Header of a packet, on top of its data")
      ->capture_default_str();
  app.add_option("--buffer", a.buffer, "Packets an input port holds, each virtual lane")
      ->capture_default_str();
  app.add_option("--send-overhead", a.send_overhead, "Of a rank, each message to another server")
      ->capture_default_str();
  app.add_option("--recv-overhead", a.recv_overhead, "Of a rank, each message from another server")
      ->capture_default_str();
  app.add_option("--copy-rate", a.copy_rate,
                 "Of a rank inside its server, 5GB/s (default: copies cost nothing)");
  app.add_option("--skew", a.skew, "Ranks start late by a random time up to this")
      ->capture_default_str();
  app.add_option("--jitter", a.jitter,
                 "Before each message a rank pauses for a random time up to this part of the "
                 "message's own time, 0.2")
      ->capture_default_str();
  app.add_option("--seed", a.seed, "Of everything random")->capture_default_str();
  app.add_flag("--step-times", a.steps, "Show (and plot) the time of each step");
  app.add_flag("--link-load", a.links, "Show the busiest links");
  app.add_option("--json", a.json, "Write one object a line to this file (- : stdout)");
  app.add_option("--plot", a.plot, "Write a picture to this file (SVG)");
  app.footer(
      "Networks:\n" + topology::spec_help() +
      "\nExamples:\n"
      "  ib_sim alltoall --layout 24x8 --algorithm ring,two_level_ring --mode barrier\n"
      "  ib_sim alltoall --layout 8x8 --algorithm ring --mode barrier --step-times --plot s.svg\n"
      "  ib_sim alltoall --network single-switch:24,bandwidth=2000MB/s,latency=200ns "
      "--layout 24x8 --sizes 10K-1M --plot sizes.svg\n"
      "  ib_sim alltoall --network fat-tree:8,3 --layout 128x8 --level flow --link-load\n"
      "  ib_sim allgather --network torus:4x4x4 --layout 64x2 --sizes 64K --json -");
  return tools::run_tool(app, argc, argv, [&] { return run(a); });
}
