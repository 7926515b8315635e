#include "topology/fabric.h"

#include <algorithm>
#include <limits>

namespace ibcoll::topology {

std::vector<int> Fabric::route(int from, int to) const {
  std::vector<int> links;
  visit_route(from, to, [&](int link) { links.push_back(link); });
  return links;
}

int Fabric::hops(int from, int to) const {
  int hops = 0;
  visit_route(from, to, [&](int) { ++hops; });
  return hops;
}

int64_t Fabric::route_latency_ns(int from, int to) const {
  int64_t latency = from == to ? 0 : -switch_latency_ns_;
  visit_route(from, to, [&](int link) { latency += links_[link].latency_ns + switch_latency_ns_; });
  return latency;
}

double Fabric::route_bandwidth(int from, int to) const {
  double bandwidth = std::numeric_limits<double>::infinity();
  visit_route(from, to, [&](int link) { bandwidth = std::min(bandwidth, links_[link].bandwidth); });
  return bandwidth;
}

std::optional<int> Fabric::find(std::string_view name) const {
  for (int node = 0; node < nodes(); ++node) {
    if (nodes_[node].name == name) return node;
  }
  return std::nullopt;
}

Fabric Fabric::with_figures(const std::vector<CableFigures>& figures) const {
  Fabric fabric = *this;
  for (size_t l = 0; l < fabric.links_.size(); ++l) {
    fabric.links_[l].bandwidth = figures[l / 2].bandwidth;
    fabric.links_[l].latency_ns = figures[l / 2].latency_ns;
  }
  return fabric;
}

Result<Fabric> Fabric::with_hosts(const std::vector<int>& order) const {
  std::vector<int> number(nodes(), -1);
  for (size_t host = 0; host < order.size(); ++host) {
    if (order[host] < 0 || order[host] >= hosts_) {
      return fail(ErrorCode::kInvalidArgument, "host {} of {}: there are 0 to {}", order[host],
                  name_, hosts_ - 1);
    }
    if (number[order[host]] >= 0) {
      return fail(ErrorCode::kInvalidArgument, "host {} ({}) stands twice in the order",
                  order[host], nodes_[order[host]].name);
    }
    number[order[host]] = static_cast<int>(host);
  }
  if (order.empty()) return fail(ErrorCode::kInvalidArgument, "{}: an order of no hosts", name_);

  Fabric fabric;
  fabric.name_ = name_;
  fabric.notes_ = notes_;
  fabric.hosts_ = static_cast<int>(order.size());
  fabric.switch_latency_ns_ = switch_latency_ns_;
  for (const int host : order) fabric.nodes_.push_back(nodes_[host]);
  for (int node = hosts_; node < nodes(); ++node) {
    number[node] = static_cast<int>(fabric.nodes_.size());
    fabric.nodes_.push_back(nodes_[node]);
  }
  std::vector<int> link_number(links_.size(), -1);
  for (size_t l = 0; l < links_.size(); ++l) {
    Link link = links_[l];
    link.from = number[link.from];
    link.to = number[link.to];
    if (link.from < 0 || link.to < 0) continue;
    link_number[l] = static_cast<int>(fabric.links_.size());
    fabric.links_.push_back(link);
  }
  const auto add_ports = [&](int node) {
    fabric.first_port_.push_back(fabric.link_of_port_.size());
    for (size_t port = first_port_[node]; port < first_port_[node + 1]; ++port) {
      const int link = link_of_port_[port];
      fabric.link_of_port_.push_back(link < 0 ? -1 : link_number[link]);
    }
  };
  for (const int host : order) add_ports(host);
  for (int node = hosts_; node < nodes(); ++node) add_ports(node);
  fabric.first_port_.push_back(fabric.link_of_port_.size());
  fabric.table_.resize(static_cast<size_t>(switches()) * order.size());
  for (int s = 0; s < switches(); ++s) {
    for (size_t to = 0; to < order.size(); ++to) {
      fabric.table_[s * order.size() + to] = table_[static_cast<size_t>(s) * hosts_ + order[to]];
    }
  }
  return fabric;
}

}  // namespace ibcoll::topology
