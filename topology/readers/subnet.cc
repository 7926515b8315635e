#include "topology/readers/subnet.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "topology/fabric_builder.h"

namespace ibcoll::topology {
namespace {

constexpr int kDropPort = 255;  ///< of a forwarding table: packets are dropped
constexpr int kMaxUnicastLid = 0xbfff;
constexpr int kMaxLmc = 7;

/// Names with numbers in the order of the numbers: h2 before h10.
bool natural_less(std::string_view a, std::string_view b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const auto run = [&](std::string_view text, size_t& at) {
      while (at < text.size() && text[at] == '0') ++at;
      const size_t begin = at;
      while (at < text.size() && digit(text[at])) ++at;
      return text.substr(begin, at - begin);
    };
    const std::string_view x = run(a, i), y = run(b, j);
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
  }
  if ((i < a.size()) != (j < b.size())) return j < b.size();
  return a < b;
}

/// " (file:line)" or nothing.
std::string in(const std::string& where) {
  return where.empty() ? std::string() : fmt::format(" ({})", where);
}

template <class... Args>
tl::unexpected<Error> fail_at(const std::string& where, fmt::format_string<Args...> format,
                              Args&&... args) {
  return fail(ErrorCode::kInvalidArgument, "{}{}{}", where, where.empty() ? "" : ": ",
              fmt::format(format, std::forward<Args>(args)...));
}

class Converter {
 public:
  Converter(Subnet subnet, const ReadOptions& options)
      : subnet_(std::move(subnet)), options_(options), builder_(subnet_.name) {}

  Result<Fabric> convert() {
    IBCOLL_TRY(index_nodes());
    IBCOLL_TRY(check_cables());
    IBCOLL_TRY(add_nodes());
    IBCOLL_TRY(add_cables());
    builder_.set_switch_latency(options_.switch_latency_ns.value_or(0));
    for (const std::string& note : subnet_.notes) builder_.note(note);
    const Status begun = builder_.begin_routes();
    if (!begun) return fail_at(subnet_.name, "{}", begun.error().message);
    if (subnet_.tables_name.empty()) {
      builder_.note(
          "no forwarding tables: routes of fewest hops, which the subnet manager's need not be");
      IBCOLL_TRY(builder_.route_shortest());
    } else {
      IBCOLL_TRY(fill_tables());
    }
    auto fabric = builder_.finish();
    if (fabric) return fabric;
    return fail_at(subnet_.tables_name.empty() ? subnet_.name : subnet_.tables_name, "{}",
                   fabric.error().message);
  }

 private:
  Status index_nodes() {
    for (const SubnetNode& node : subnet_.nodes) {
      const auto [known, added] = nodes_.emplace(node.guid, &node);
      if (!added) {
        return fail_at(node.where, "GUID 0x{:016x} of '{}' is also that of '{}'{}", node.guid,
                       node.name, known->second->name, in(known->second->where));
      }
      std::set<int> numbers;
      for (const SubnetPort& port : node.ports) {
        if (!numbers.insert(port.number).second) {
          return fail_at(port.where, "port {} of '{}' stands twice", port.number, node.name);
        }
      }
    }
    return {};
  }

  /// Every cable must be told from both ends: a file that was cut off lacks some.
  Status check_cables() {
    for (const SubnetNode& node : subnet_.nodes) {
      for (const SubnetPort& port : node.ports) {
        const auto peer = nodes_.find(port.peer);
        if (peer == nodes_.end()) {
          return fail_at(port.where,
                         "port {} of '{}' is connected to GUID 0x{:016x}, which is not described "
                         "(is the file cut off?)",
                         port.number, node.name, port.peer);
        }
        const auto& ports = peer->second->ports;
        const auto back = std::find_if(ports.begin(), ports.end(), [&](const SubnetPort& other) {
          return other.number == port.peer_port;
        });
        if (back == ports.end() || back->peer != node.guid || back->peer_port != port.number) {
          return fail_at(port.where,
                         "port {} of '{}' is connected to port {} of '{}'{}, which does not say so",
                         port.number, node.name, port.peer_port, peer->second->name,
                         in(peer->second->where));
        }
      }
    }
    return {};
  }

  Status claim_lids(int lid, int lmc, int node, bool is_switch, const std::string& where) {
    if (lid == 0) return {};
    if (lmc < 0 || lmc > kMaxLmc || lid < 0 || lid + (1 << lmc) - 1 > kMaxUnicastLid) {
      return fail_at(where, "LID {} with LMC {} of {}: LIDs are 1 to {}, an LMC 0 to {}", lid, lmc,
                     builder_.describe(node), kMaxUnicastLid, kMaxLmc);
    }
    for (int l = lid; l < lid + (1 << lmc); ++l) {
      const auto [known, added] = lids_.emplace(l, Owner{node, l - lid, is_switch});
      if (!added) {
        return fail_at(where, "LID {} of {} is also that of {}", l, builder_.describe(node),
                       builder_.describe(known->second.node));
      }
    }
    return {};
  }

  Status add_nodes() {
    struct Host {
      std::string name;
      const SubnetNode* node;
      const SubnetPort* port;
    };
    std::vector<Host> hosts;
    for (const SubnetNode& node : subnet_.nodes) {
      if (node.is_switch) continue;
      if (node.ports.empty()) builder_.note(fmt::format("'{}' has no cable: left out", node.name));
      for (const SubnetPort& port : node.ports) {
        hosts.push_back(
            {node.ports.size() == 1 ? node.name : fmt::format("{} port {}", node.name, port.number),
             &node, &port});
      }
      several_ports_ += node.ports.size() > 1;
    }
    if (several_ports_ > 0) {
      builder_.note(
          fmt::format("{} hosts have several ports: each is a host here", several_ports_));
    }
    std::stable_sort(hosts.begin(), hosts.end(),
                     [](const Host& a, const Host& b) { return natural_less(a.name, b.name); });
    for (const Host& host : hosts) {
      const int number =
          builder_.add_host(host.name, host.port->guid != 0 ? host.port->guid : host.node->guid,
                            static_cast<uint16_t>(host.port->lid));
      builder_.at(number, host.port->where);
      IBCOLL_TRY(claim_lids(host.port->lid, host.port->lmc, number, false, host.port->where));
      if (host.port->lid == 0 && !subnet_.tables_name.empty()) {
        return fail_at(host.port->where, "'{}' has LID 0: the subnet manager had not run",
                       host.name);
      }
      most_lmc_ = std::max(most_lmc_, host.port->lmc);
      hosts_[{host.node->guid, host.port->number}] = number;
    }
    for (const SubnetNode& node : subnet_.nodes) {
      if (!node.is_switch) continue;
      const int number = builder_.add_switch(node.name, node.guid, static_cast<uint16_t>(node.lid));
      builder_.at(number, node.where);
      IBCOLL_TRY(claim_lids(node.lid, 0, number, true, node.where));
      switches_[node.guid] = number;
    }
    return {};
  }

  int number_of(uint64_t guid, int port) const {
    const auto found = switches_.find(guid);
    return found != switches_.end() ? found->second : hosts_.at({guid, port});
  }

  Status add_cables() {
    for (const SubnetNode& node : subnet_.nodes) {
      for (const SubnetPort& port : node.ports) {
        if (std::pair(node.guid, port.number) > std::pair(port.peer, port.peer_port)) continue;
        Cable cable{port.bandwidth, options_.latency_ns};
        const bool trunk = node.is_switch && nodes_.at(port.peer)->is_switch;
        if (cable.bandwidth == 0) {
          cable.bandwidth =
              trunk && !options_.trunks.empty() ? options_.trunks[0] : options_.bandwidth;
        }
        const Status joined =
            builder_.connect(number_of(node.guid, port.number), port.number,
                             number_of(port.peer, port.peer_port), port.peer_port, cable);
        if (!joined) return fail_at(port.where, "{}", joined.error().message);
      }
    }
    return {};
  }

  Status fill_tables() {
    std::set<uint64_t> seen;
    int64_t others = 0;
    for (const SubnetTable& table : subnet_.tables) {
      const auto found = switches_.find(table.guid);
      if (found == switches_.end()) {
        return fail_at(table.where, "a table of switch GUID 0x{:016x}, which the fabric lacks",
                       table.guid);
      }
      const int node = found->second;
      if (!seen.insert(table.guid).second) {
        return fail_at(table.where, "a second table of {}", builder_.describe(node));
      }
      builder_.at(node, table.where);  // from here on what is wrong are routes
      std::map<int, int> base_port;    // of hosts
      for (const SubnetTable::Entry& entry : table.entries) {
        const std::string where = entry.line > 0
                                      ? fmt::format("{}:{}", subnet_.tables_name, entry.line)
                                      : subnet_.tables_name;
        const auto owner = lids_.find(entry.lid);
        if (owner == lids_.end()) {
          return fail_at(where, "LID {} (0x{:04x}) is not in the fabric", entry.lid, entry.lid);
        }
        if (entry.port == kDropPort) continue;
        if (owner->second.is_switch) continue;
        if (owner->second.offset > 0) {
          const auto base = base_port.find(owner->second.node);
          others += base != base_port.end() && base->second != entry.port;
          continue;
        }
        if (entry.port == 0) {
          return fail_at(where, "{} sends packets for {} to itself (port 0)",
                         builder_.describe(node), builder_.describe(owner->second.node));
        }
        base_port[owner->second.node] = entry.port;
        builder_.set_port(node, owner->second.node, entry.port);
      }
    }
    for (const auto& [guid, node] : switches_) {
      if (seen.count(guid) == 0) {
        return fail_at(subnet_.tables_name, "no table of {} (is the file cut off?)",
                       builder_.describe(node));
      }
    }
    if (most_lmc_ > 0) {
      builder_.note(
          fmt::format("LMC {}: up to {} routes a pair, {} entries of them differ; those of the "
                      "base LIDs are taken",
                      most_lmc_, 1 << most_lmc_, others));
    }
    return {};
  }

  struct Owner {
    int node;
    int offset;  ///< from the base LID
    bool is_switch;
  };
  Subnet subnet_;
  const ReadOptions& options_;
  FabricBuilder builder_;
  std::unordered_map<uint64_t, const SubnetNode*> nodes_;
  std::map<std::pair<uint64_t, int>, int> hosts_;  ///< GUID and port
  std::unordered_map<uint64_t, int> switches_;
  std::unordered_map<int, Owner> lids_;
  int several_ports_ = 0, most_lmc_ = 0;
};

}  // namespace

Result<Fabric> to_fabric(Subnet subnet, const ReadOptions& options) {
  return Converter(std::move(subnet), options).convert();
}

}  // namespace ibcoll::topology
