#pragma once
/// What a transport between servers tells of itself, so that engine/transport/open.h opens it by
/// its name.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/bell.h"
#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/bootstrap/machine.h"
#include "engine/schedule/shape.h"
#include "engine/transport/transport.h"

namespace ibcoll {

/// What a transport is opened with. The bootstrap and the bells must outlive it.
struct NetworkSetup {
  Bootstrap& bootstrap;
  const Shape& shape;
  /// One a rank of the job, in memory that the ranks of a machine share.
  std::span<Bell> bells;
  const std::vector<ProcessPlace>& places;  ///< as exchange_places() gave them
  const std::vector<int>& machines;         ///< machine_of_ranks(places)
  uint64_t loopback_seed = 0;               ///< not 0: the loopback reorders and delays what it may
};

/// A port of a network adapter of this machine: what ranks would use of it, and its limits.
struct NetworkPort {
  std::string name;  ///< "mlx5_0:1"
  std::string device;
  int port = 1;
  bool usable = false;
  std::string missing;   ///< why an active port is not usable; else empty
  std::string left_out;  ///< why ranks would not use it although it is; else empty
  std::string gid;
  int gid_index = 0;
  std::string gid_type;
  int mtu_bytes = 0;
  uint64_t rate_mbps = 0;  ///< decimal megabits a second
  int numa_node = -1;      ///< -1: not known
  uint16_t pkey_index = 0;
  int max_queue_pairs = 0;
  int max_work_requests = 0;
  int max_completions = 0;
  int max_shared_receives = 0;
  int max_registrations = 0;
  uint64_t max_message_bytes = 0;
};

struct NetworkKind {
  std::string_view name;
  /// Collective over the job; fails on all ranks alike.
  Result<std::unique_ptr<NetworkTransport>> (*open)(const NetworkSetup& setup) = nullptr;
  /// The port of this machine that ranks would use first, or why they could use none. Null: it
  /// needs none.
  Result<std::string> (*usable_port)() = nullptr;
  /// All ports of this machine that it knows. Null: it needs none.
  std::vector<NetworkPort> (*ports)() = nullptr;
};

}  // namespace ibcoll
