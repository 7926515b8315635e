#pragma once
/// How generators and readers put a Fabric together.

#include <string>
#include <vector>

#include "topology/fabric.h"

namespace ibcoll::topology {

/// What a cable carries, in both directions.
struct Cable {
  double bandwidth = 0;  ///< bytes a second and direction
  int64_t latency_ns = 0;
};

/// Collects nodes, cables and forwarding tables; finish() checks them and gives the fabric. Nodes
/// are named by the number that add_host and add_switch return; hosts get their final numbers in
/// the order of add_host. Errors name nodes, and where they stand in a file if at() told it.
class FabricBuilder {
 public:
  explicit FabricBuilder(std::string name) { fabric_.name_ = std::move(name); }

  int add_host(std::string name, uint64_t guid = 0, uint16_t lid = 0);
  int add_switch(std::string name, uint64_t guid = 0, uint16_t lid = 0);
  /// Says where a node was described ("net.topo:12"); errors repeat it.
  void at(int node, std::string where) {
    where_[routing_ ? number_[node] : node] = std::move(where);
  }
  /// Joins two ports. Refuses a port that is taken, out of 1 .. Fabric::kMaxPort, a second cable of
  /// a host, a cable between hosts, a bandwidth or latency that can't be.
  Status connect(int a, int port_a, int b, int port_b, const Cable& cable);
  /// The same with the next free ports.
  Status connect(int a, int b, const Cable& cable);
  void set_switch_latency(int64_t latency_ns) { fabric_.switch_latency_ns_ = latency_ns; }
  void note(std::string line);

  /// Ends nodes and cables: from here on tables are filled. Fails when they would be too large.
  Status begin_routes();
  /// At switch `node`, packets for host `to` leave by `port` (0: none; the host is never sent
  /// there). begin_routes() comes first.
  void set_port(int node, int to, int port);
  /// Fills all tables with routes of fewest hops. Among equals, cables and neighbours are taken in
  /// turn by the number of the destination.
  Status route_shortest();

  /// Checks that every host has its cable and reaches every other without passing a switch twice,
  /// and gives the fabric. The first pair that fails is named with the reason.
  Result<Fabric> finish();

  int nodes() const { return static_cast<int>(fabric_.nodes_.size()); }
  /// Name and place of a node as errors give it: "switch 'leaf 3' (net.topo:12)".
  std::string describe(int node) const;

 private:
  bool port_taken(int node, int port) const;
  std::string label(int node) const;
  Status check_routes_to(int host, std::vector<int>& state, int& round) const;
  /// Hosts first: numbers of the fabric by numbers of the builder.
  void renumber();

  Fabric fabric_;
  std::vector<std::string> where_;
  std::vector<std::vector<int>> port_link_;  ///< node, port -> link, or -1
  std::vector<int> number_;                  ///< builder's node -> fabric's node
  bool routing_ = false;
};

}  // namespace ibcoll::topology
