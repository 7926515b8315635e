#pragma once
/// Where the servers of a plan stand.

#include <numeric>
#include <vector>

#include "engine/schedule/shape.h"

namespace ibcoll::testing {

/// The servers' hosts, not in the order of servers.
inline std::vector<int> hosts_backwards(const Shape& shape) {
  std::vector<int> hosts(shape.servers());
  std::iota(hosts.rbegin(), hosts.rend(), 0);
  return hosts;
}

}  // namespace ibcoll::testing
