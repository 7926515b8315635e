#include "engine/core/fabric_order.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "engine/base/units.h"
#include "engine/core/share.h"
#include "engine/planner/server_order.h"
#include "topology/host_names.h"
#include "topology/readers/readers.h"

namespace ibcoll {
namespace {

using HostName = std::array<char, 65>;  // Linux has names of up to 64 characters

/// Collective: the name of every rank's machine.
Result<std::vector<HostName>> exchange_host_names(Bootstrap& bootstrap) {
  HostName mine{};
  if (gethostname(mine.data(), mine.size() - 1) != 0) return fail_errno("no host name");
  std::vector<HostName> names(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, names.data()));
  return names;
}

/// The fabric's host of each server.
Result<std::vector<int>> hosts_of_servers(const topology::Fabric& fabric,
                                          const FabricSetting& setting, bool emulated,
                                          const std::vector<HostName>& machines,
                                          const Shape& shape) {
  std::vector<std::string> names;
  if (!setting.hosts.empty()) {
    IBCOLL_TRY(topology::expand_host_list(setting.hosts, names));
    if (names.size() != static_cast<size_t>(shape.servers())) {
      return fail(ErrorCode::kInvalidArgument, "IBCOLL_FABRIC_HOSTS names {} hosts for {} servers",
                  names.size(), shape.servers());
    }
    return topology::find_hosts(fabric, names);
  }
  if (emulated) {
    if (fabric.hosts() < shape.servers()) {
      return fail(ErrorCode::kInvalidArgument, "{} emulated servers on a network of {} hosts",
                  shape.servers(), fabric.hosts());
    }
    std::vector<int> hosts(shape.servers());
    std::iota(hosts.begin(), hosts.end(), 0);
    return hosts;
  }
  for (int server = 0; server < shape.servers(); ++server) {
    names.emplace_back(machines[shape.members(server).front()].data());
  }
  auto hosts = topology::find_hosts(fabric, names);
  if (hosts) return hosts;
  return fail(ErrorCode::kInvalidArgument,
              "{}: IBCOLL_FABRIC_HOSTS can say what the servers' hosts are called there",
              hosts.error().message);
}

/// The hosts of IBCOLL_FABRIC_PERMITTED, a pair after the other.
Result<std::vector<int>> permitted_hosts(const topology::Fabric& fabric, const std::string& pairs) {
  std::vector<std::string> names;
  for (const std::string_view pair : split(pairs, ',')) {
    const auto ends = split(pair, ':');
    if (ends.size() != 2) {
      return fail(ErrorCode::kInvalidArgument,
                  "IBCOLL_FABRIC_PERMITTED: '{}' is not a pair of hosts like a:b", pair);
    }
    names.insert(names.end(), ends.begin(), ends.end());
  }
  return topology::find_hosts(fabric, names);
}

/// The order, and all of the result that rank 0 knows.
Result<std::vector<int>> find_order(const FabricSetting& setting, bool emulated,
                                    const std::vector<HostName>& machines, const Shape& shape,
                                    FabricOrder& result) {
  IBCOLL_ASSIGN(result.network, setting.open(setting.fabric));
  const topology::Fabric& fabric = *result.network;
  IBCOLL_ASSIGN(const std::vector<int> hosts,
                hosts_of_servers(fabric, setting, emulated, machines, shape));
  ServerOrder best = fabric_server_order(fabric, shape, hosts);
  result.fabric = fabric.name();
  result.before = best.before;
  result.after = best.after;
  for (int i = 0; i < shape.servers(); ++i) {
    result.hosts[i] = hosts[best.order[i]];
    if (best.order[i] != i) ++result.moved;
  }
  return std::move(best.order);
}

/// Collective: rank 0's network for everybody. Descriptions and files the others open themselves.
Status share_network(Bootstrap& bootstrap, const FabricSetting& setting, FabricOrder& result) {
  const bool live = setting.fabric.substr(0, setting.fabric.find_first_of(":,")) == "live";
  std::string text;
  if (live) {
    if (bootstrap.rank() == 0) text = topology::write_json(*result.network);
    IBCOLL_TRY(share(bootstrap, text));
  }
  if (bootstrap.rank() == 0) return {};
  IBCOLL_ASSIGN(result.network, live ? topology::read_json(text, "the network found by rank 0")
                                     : setting.open(setting.fabric));
  return {};
}

}  // namespace

std::string FabricOrder::describe() const {
  if (fabric.empty()) return {};
  if (moved == 0) return fmt::format("{}: servers are in order", fabric);
  return fmt::format("{}: {} server{} renumbered, a walk takes {:.2f} of what it took", fabric,
                     moved, moved == 1 ? "" : "s", after / before);
}

Result<FabricOrder> order_servers(Bootstrap& bootstrap, const FabricSetting& setting, bool emulated,
                                  Shape& shape) {
  FabricOrder result;
  if (setting.fabric.empty()) return result;
  IBCOLL_ASSIGN(const std::vector<HostName> machines, exchange_host_names(bootstrap));
  std::vector<int> order(static_cast<size_t>(shape.servers()));
  result.hosts.resize(order.size());
  Status known_order;
  if (bootstrap.rank() == 0) {
    auto found = find_order(setting, emulated, machines, shape, result);
    if (found) {
      order = std::move(*found);
    } else {
      known_order =
          fail(found.error().code, "IBCOLL_FABRIC={}: {}", setting.fabric, found.error().message);
    }
  }
  IBCOLL_TRY(share(bootstrap, known_order));
  IBCOLL_TRY(share_network(bootstrap, setting, result));
  std::string permitted = setting.permitted;
  IBCOLL_TRY(share(bootstrap, permitted));
  IBCOLL_ASSIGN(result.permitted, permitted_hosts(*result.network, permitted));
  IBCOLL_TRY(share(bootstrap, order));
  IBCOLL_TRY(share(bootstrap, result.hosts));
  IBCOLL_ASSIGN(shape, renumber_servers(shape, order));
  return result;
}

}  // namespace ibcoll
