#pragma once
/// What ib_sim is asked for.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/base/result.h"
#include "engine/schedule/shape.h"
#include "studies/simulate/collective.h"
#include "tools/frame/command_line.h"
#include "topology/fabric.h"

namespace ibcoll::tools {

/// The command line as it was typed.
struct Arguments {
  std::string collective = "alltoall", network, placement = "block", algorithms = "all";
  std::vector<std::string> layouts;
  std::optional<int64_t> ranks, servers;
  std::string sizes = "1M", modes = "paced", pacing = "gate_token", server_order = "natural", graph;
  std::string level = "packet", queues = "fifo", arbiter = "round-robin", nic = "random";
  std::string mtu = "2K", header = "0", switching = "cut-through", copy_rate;
  std::string send_overhead = "0ns", recv_overhead = "0ns", skew = "0ns", json, plot;
  int64_t ports = 1, window = 1, buffer = 16, pieces = 0, seed = 1, root = 0;
  double jitter = 0;
  std::string most_memory = "2G", most_time = "2min";
  bool steps = false, links = false, renumber = false, acks = false, ordered = false;
};

/// What it means.
struct Settings {
  Collective collective = Collective::kAlltoall;
  std::vector<const Algorithm*> algorithms;
  std::vector<Shape> shapes;
  std::vector<std::shared_ptr<const Graph>> graphs;  // of each shape, where there are
  std::vector<std::vector<uint32_t>> hosts;          // of each shape's servers, port by port
  std::vector<sim::Mode> modes;
  std::vector<int64_t> sizes;
  sim::CollectiveOptions options;
  topology::Fabric fabric;
  uint64_t most_bytes = 0;  // that a run at flow level may take
  double most_seconds = 0;  // processor time of all runs at flow level
};

void add_options(Command app, Arguments& a);

/// Checks the arguments; opens the network.
Result<Settings> understand(const Arguments& a);

}  // namespace ibcoll::tools
