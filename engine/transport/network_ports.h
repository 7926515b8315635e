#pragma once
/// The ports of this machine that the transports between servers know, for people.

#include <cstdint>
#include <string>
#include <vector>

namespace ibcoll {

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
  int traffic_class = 0;
  int max_queue_pairs = 0;
  int max_work_requests = 0;
  int max_completions = 0;
  int max_shared_receives = 0;
  int max_registrations = 0;
  uint64_t max_message_bytes = 0;
};

}  // namespace ibcoll
