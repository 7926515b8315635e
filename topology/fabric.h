#pragma once
/// The fabric: hosts, switches, directed links with bandwidth and latency, and one route for every
/// ordered pair of hosts. Planner, simulator, mapper and verifier all read this graph.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll::topology {

/// A host (a server's port into the fabric) or a switch.
struct Node {
  std::string name;
  uint64_t guid = 0;  ///< 0 where unknown
  uint16_t lid = 0;   ///< 0 where unknown
  bool is_switch = false;
};

/// One direction of one cable. Bundled cables are links of their own: on InfiniBand a flow uses one
/// of them.
struct Link {
  int from = 0, to = 0;                 ///< nodes
  uint16_t from_port = 0, to_port = 0;  ///< port numbers at both ends, counted from 1
  double bandwidth = 0;                 ///< bytes a second
  int64_t latency_ns = 0;               ///< from the last gate of `from` to the first of `to`
};

/// What is said of a cable, both ways.
struct CableFigures {
  double bandwidth = 0;    ///< bytes a second
  int64_t latency_ns = 0;  ///< of the wire
};

/// An immutable network. Nodes are numbered with the hosts first, in the order in which they count
/// as servers: host h is node h, switch s is node hosts() + s. Every cable is full duplex and gives
/// two links: link l's other direction is l ^ 1. A host has one cable; a server with several ports
/// in the fabric is several hosts. Routes are those of InfiniBand's forwarding tables: at each
/// switch the destination alone says the next link.
class Fabric {
 public:
  /// The tables' largest size: switches times hosts.
  static constexpr int64_t kMaxTableEntries = int64_t{1} << 28;
  /// The highest port number.
  static constexpr int kMaxPort = 65535;

  const std::string& name() const { return name_; }
  int hosts() const { return hosts_; }
  int switches() const { return nodes() - hosts_; }
  int nodes() const { return static_cast<int>(nodes_.size()); }
  int links() const { return static_cast<int>(links_.size()); }
  const Node& node(int node) const { return nodes_[node]; }
  const Link& link(int link) const { return links_[link]; }
  bool is_host(int node) const { return node < hosts_; }
  /// The other direction of the same cable.
  static int reverse(int link) { return link ^ 1; }

  /// The highest port number of a node that has a cable.
  int ports(int node) const {
    return static_cast<int>(first_port_[node + 1] - first_port_[node]) - 1;
  }
  /// The link that leaves a node by a port (1 .. ports()), or -1. The link that enters there is its
  /// reverse.
  int link_at(int node, int port) const { return link_of_port_[first_port_[node] + port]; }
  /// The link by which host h sends; by its reverse it receives.
  int host_link(int host) const { return link_at(host, ports(host)); }
  /// The switch that host h is at.
  int switch_of(int host) const { return links_[host_link(host)].to; }

  /// The link that a packet for host `to` takes from `node` (a switch on the route, or any host
  /// but `to`).
  int next_link(int node, int to) const {
    if (node < hosts_) return host_link(node);
    return link_at(node, table_[static_cast<size_t>(node - hosts_) * hosts_ + to]);
  }
  /// Calls `visit(link)` for every link of the route between two hosts, in order. A host's route to
  /// itself has none.
  template <class Visit>
  void visit_route(int from, int to, Visit&& visit) const {
    for (int node = from; node != to;) {
      const int link = next_link(node, to);
      visit(link);
      node = links_[link].to;
    }
  }
  /// The links of the route, in order.
  std::vector<int> route(int from, int to) const;
  /// Number of links of the route.
  int hops(int from, int to) const;

  /// How long a packet takes to pass a switch, besides waiting and the latency of links.
  int64_t switch_latency_ns() const { return switch_latency_ns_; }
  /// Latency of a route: its links and the switches between them, without serialisation.
  int64_t route_latency_ns(int from, int to) const;
  /// The smallest bandwidth on a route, in bytes a second; infinite from a host to itself.
  double route_bandwidth(int from, int to) const;

  /// The node of that name, if there is one (the first, should there be several).
  std::optional<int> find(std::string_view name) const;
  /// What a reader has to say of the fabric, a line each: several routes a pair, ports left out.
  const std::vector<std::string>& notes() const { return notes_; }
  /// The same fabric with its hosts renumbered: host h of the result is host `order[h]` of this
  /// one. Refuses an order that is not a list of different hosts; hosts that it leaves out are
  /// dropped.
  Result<Fabric> with_hosts(const std::vector<int>& order) const;
  /// The same fabric with other figures, one for each cable: cable c is links 2 c and 2 c + 1.
  Fabric with_figures(const std::vector<CableFigures>& figures) const;

 private:
  friend class FabricBuilder;

  std::string name_;
  std::vector<std::string> notes_;
  int hosts_ = 0;
  int64_t switch_latency_ns_ = 0;
  std::vector<Node> nodes_;
  std::vector<Link> links_;
  std::vector<size_t> first_port_;  ///< node -> where its port 0 stands in link_of_port_
  std::vector<int> link_of_port_;   ///< the link that leaves by a port, or -1
  std::vector<uint16_t> table_;     ///< switch * hosts + destination -> port, 0 for none
};

}  // namespace ibcoll::topology
