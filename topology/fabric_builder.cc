#include "topology/fabric_builder.h"

#include <algorithm>
#include <cmath>

namespace ibcoll::topology {

int FabricBuilder::add_host(std::string name, uint64_t guid, uint16_t lid) {
  fabric_.nodes_.push_back({std::move(name), guid, lid, false});
  where_.emplace_back();
  port_link_.emplace_back();
  ++fabric_.hosts_;
  return nodes() - 1;
}

int FabricBuilder::add_switch(std::string name, uint64_t guid, uint16_t lid) {
  const int node = add_host(std::move(name), guid, lid);
  --fabric_.hosts_;
  fabric_.nodes_[node].is_switch = true;
  return node;
}

void FabricBuilder::note(std::string line) { fabric_.notes_.push_back(std::move(line)); }

std::string FabricBuilder::describe(int node) const {
  return label(routing_ ? number_[node] : node);
}

std::string FabricBuilder::label(int node) const {
  return fmt::format("{} '{}'{}{}{}", fabric_.nodes_[node].is_switch ? "switch" : "host",
                     fabric_.nodes_[node].name, where_[node].empty() ? "" : " (", where_[node],
                     where_[node].empty() ? "" : ")");
}

bool FabricBuilder::port_taken(int node, int port) const {
  const auto& ports = port_link_[node];
  return port >= 0 && static_cast<size_t>(port) < ports.size() && ports[port] >= 0;
}

Status FabricBuilder::connect(int a, int port_a, int b, int port_b, const Cable& cable) {
  if (a == b) return fail(ErrorCode::kInvalidArgument, "a cable from {} to itself", describe(a));
  if (!fabric_.nodes_[a].is_switch && !fabric_.nodes_[b].is_switch) {
    return fail(ErrorCode::kInvalidArgument, "a cable from {} to {}: one end must be a switch",
                describe(a), describe(b));
  }
  for (const auto& [node, port] : {std::pair(a, port_a), std::pair(b, port_b)}) {
    if (port < 1 || port > Fabric::kMaxPort) {
      return fail(ErrorCode::kInvalidArgument, "port {} of {}: ports are 1 to {}", port,
                  describe(node), Fabric::kMaxPort);
    }
    if (port_taken(node, port)) {
      return fail(ErrorCode::kInvalidArgument, "port {} of {} has two cables", port,
                  describe(node));
    }
    if (!fabric_.nodes_[node].is_switch && !port_link_[node].empty()) {
      return fail(ErrorCode::kInvalidArgument, "{} has two cables: a host has one", describe(node));
    }
  }
  if (!std::isfinite(cable.bandwidth) || cable.bandwidth < 1 || cable.latency_ns < 0) {
    return fail(ErrorCode::kInvalidArgument,
                "the cable from {} to {} has {} bytes/s and {} ns: at least 1 and 0", describe(a),
                describe(b), cable.bandwidth, cable.latency_ns);
  }
  for (const auto& [from, from_port, to, to_port] :
       {std::tuple(a, port_a, b, port_b), std::tuple(b, port_b, a, port_a)}) {
    auto& ports = port_link_[from];
    if (ports.size() <= static_cast<size_t>(from_port)) ports.resize(from_port + 1, -1);
    ports[from_port] = fabric_.links();
    fabric_.links_.push_back({from, to, static_cast<uint16_t>(from_port),
                              static_cast<uint16_t>(to_port), cable.bandwidth, cable.latency_ns});
  }
  return {};
}

Status FabricBuilder::connect(int a, int b, const Cable& cable) {
  const auto free_port = [&](int node) {
    int port = 1;
    if (!port_link_[node].empty()) port = static_cast<int>(port_link_[node].size());
    return port;
  };
  return connect(a, free_port(a), b, free_port(b), cable);
}

void FabricBuilder::renumber() {
  int next_host = 0, next_switch = fabric_.hosts_;
  std::vector<Node> nodes(fabric_.nodes_.size());
  std::vector<std::string> where(where_.size());
  std::vector<std::vector<int>> port_link(port_link_.size());
  number_.resize(nodes.size());
  for (size_t old = 0; old < nodes.size(); ++old) {
    const int node = fabric_.nodes_[old].is_switch ? next_switch++ : next_host++;
    number_[old] = node;
    nodes[node] = std::move(fabric_.nodes_[old]);
    where[node] = std::move(where_[old]);
    port_link[node] = std::move(port_link_[old]);
  }
  fabric_.nodes_ = std::move(nodes);
  where_ = std::move(where);
  port_link_ = std::move(port_link);
  for (Link& link : fabric_.links_) {
    link.from = number_[link.from];
    link.to = number_[link.to];
  }
}

Status FabricBuilder::begin_routes() {
  const int64_t entries = int64_t{fabric_.switches()} * fabric_.hosts();
  if (fabric_.hosts() == 0) {
    return fail(ErrorCode::kInvalidArgument, "{} has no hosts", fabric_.name_);
  }
  if (entries > Fabric::kMaxTableEntries) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: {} switches and {} hosts make {} routing entries, more than {}", fabric_.name_,
                fabric_.switches(), fabric_.hosts(), entries, Fabric::kMaxTableEntries);
  }
  renumber();
  for (int node = 0; node < nodes(); ++node) {
    if (port_link_[node].empty()) {
      if (node < fabric_.hosts_) {
        return fail(ErrorCode::kInvalidArgument, "{} has no cable", label(node));
      }
      port_link_[node].push_back(-1);
    }
    fabric_.first_port_.push_back(fabric_.link_of_port_.size());
    fabric_.link_of_port_.insert(fabric_.link_of_port_.end(), port_link_[node].begin(),
                                 port_link_[node].end());
  }
  fabric_.first_port_.push_back(fabric_.link_of_port_.size());
  fabric_.table_.assign(static_cast<size_t>(entries), 0);
  routing_ = true;
  return {};
}

void FabricBuilder::set_port(int node, int to, int port) {
  fabric_
      .table_[static_cast<size_t>(number_[node] - fabric_.hosts_) * fabric_.hosts_ + number_[to]] =
      static_cast<uint16_t>(port);
}

Status FabricBuilder::route_shortest() {
  constexpr int kFar = 1 << 30;
  const int hosts = fabric_.hosts_;
  std::vector<int> distance(nodes()), queue;
  for (int to = 0; to < hosts; ++to) {
    std::fill(distance.begin(), distance.end(), kFar);
    const int edge = fabric_.switch_of(to);
    distance[edge] = 0;
    queue.assign(1, edge);
    for (size_t head = 0; head < queue.size(); ++head) {
      for (const int link : port_link_[queue[head]]) {
        if (link < 0) continue;
        const int next = fabric_.links_[link].to;
        if (next < hosts || distance[next] != kFar) continue;
        distance[next] = distance[queue[head]] + 1;
        queue.push_back(next);
      }
    }
    for (const int node : queue) {
      uint16_t* const entry = &fabric_.table_[static_cast<size_t>(node - hosts) * hosts + to];
      if (node == edge) {
        *entry = fabric_.links_[fabric_.host_link(to)].to_port;
        continue;
      }
      const auto nearer = [&](int link) {
        return link >= 0 && fabric_.links_[link].to >= hosts &&
               distance[fabric_.links_[link].to] == distance[node] - 1;
      };
      const auto& ports = port_link_[node];
      int turn = to % static_cast<int>(std::count_if(ports.begin(), ports.end(), nearer));
      for (size_t port = 0; port < ports.size(); ++port) {
        if (nearer(ports[port]) && turn-- == 0) *entry = static_cast<uint16_t>(port);
      }
    }
  }
  return {};
}

Status FabricBuilder::check_routes_to(int host, std::vector<int>& state, int& round) const {
  // Every node seen in a walk gets the walk's number; a node of an older walk of this destination
  // is known to arrive.
  const int first = ++round;
  state[host] = first;
  for (int from = 0; from < fabric_.hosts_; ++from) {
    if (from == host) continue;
    const int walk = ++round;
    for (int node = from; state[node] < first;) {
      state[node] = walk;
      if (node >= fabric_.hosts_) {
        const int port =
            fabric_.table_[static_cast<size_t>(node - fabric_.hosts_) * fabric_.hosts_ + host];
        if (port == 0) {
          return fail(ErrorCode::kInvalidArgument, "{} can't reach {}: {} has no route to it",
                      label(from), label(host), label(node));
        }
        if (!port_taken(node, port)) {
          return fail(ErrorCode::kInvalidArgument,
                      "{} can't reach {}: {} sends by port {}, which has no cable", label(from),
                      label(host), label(node), port);
        }
      } else if (node != from) {
        return fail(ErrorCode::kInvalidArgument, "the route from {} to {} ends at {}", label(from),
                    label(host), label(node));
      }
      const int next = fabric_.links_[fabric_.next_link(node, host)].to;
      if (state[next] == walk) {
        return fail(ErrorCode::kInvalidArgument, "the route from {} to {} runs in a loop: {} to {}",
                    label(from), label(host), label(node), label(next));
      }
      if (next < fabric_.hosts_ && next != host) {
        return fail(ErrorCode::kInvalidArgument, "the route from {} to {} ends at {}", label(from),
                    label(host), label(next));
      }
      node = next;
    }
  }
  return {};
}

Result<Fabric> FabricBuilder::finish() {
  if (!routing_) IBCOLL_TRY(begin_routes());
  std::vector<int> state(nodes(), 0);
  int round = 0;
  for (int host = 0; host < fabric_.hosts_; ++host) {
    // Walk numbers must not run over: a destination uses one a host.
    if (round > (1 << 30)) {
      std::fill(state.begin(), state.end(), 0);
      round = 0;
    }
    IBCOLL_TRY(check_routes_to(host, state, round));
  }
  return std::move(fabric_);
}

}  // namespace ibcoll::topology
