#pragma once
/// RDMA devices and their ports: which there are, which one a rank uses, and how peers address it.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "verbs/handles.h"

namespace ibcoll::verbs {

/// What the user may say about devices.
struct DeviceOptions {
  /// Ports to use, as "mlx5_0" (its first active port) or "mlx5_0:2"; empty: every active port.
  std::vector<std::string> devices;
  int gid_index = -1;            ///< -1: chosen, see PortInfo::gid_index
  std::optional<uint16_t> pkey;  ///< of a partition, with or without bit 15; none: the first
  int service_level = -1;        ///< 0 to 15; -1: see PortInfo
  int traffic_class = -1;        ///< 0 to 255 (RoCE: DSCP in the upper six bits); -1: the port's
  int mtu_bytes = 0;             ///< of packets at most; 0: what the port takes
};

/// One port and what of its limits matters here.
struct PortInfo {
  std::string device;
  int port = 1;
  bool active = false;    ///< in that state, and with what DeviceOptions ask for
  std::string missing;    ///< why a port in that state is not; else empty
  bool ethernet = false;  ///< RoCE: addressed by GID; else by LID
  bool global = false;    ///< its packets need a global route header, also inside the subnet
  uint16_t lid = 0;
  int gid_index = 0;  ///< of the first of ranked_gids() that works; InfiniBand: 0
  ibv_gid gid{};
  std::string gid_text;
  std::string gid_type;     ///< "IB", "RoCE v1" or "RoCE v2"
  uint16_t pkey_index = 0;  ///< of a partition that the port is a full member of
  uint16_t pkey = 0xffff;   ///< as it travels: big-endian
  int service_level = -1;   ///< -1: InfiniBand: as the subnet manager says, see Paths; RoCE: 0
  int traffic_class = 0;
  ibv_mtu mtu = IBV_MTU_1024;
  uint64_t rate_mbps = 0;  ///< decimal megabits a second
  uint64_t max_message_bytes = 0;
  int numa_node = -1;  ///< -1: not known
  int max_queue_pairs = 0;
  int max_work_requests = 0;  ///< of one queue pair, sends or receives
  int max_segments = 1;       ///< of one work request
  int max_completion_queues = 0;
  int max_completions = 0;  ///< of one completion queue
  int max_shared_queues = 0;
  int max_shared_receives = 0;  ///< of one shared receive queue
  int max_registrations = 0;
  uint64_t max_registration_bytes = 0;  ///< of one of them

  /// "mlx5_0:1".
  std::string name() const;
  /// "InfiniBand" or "RoCE".
  const char* link_layer() const { return ethernet ? "RoCE" : "InfiniBand"; }
};

class Paths;

/// All ports of all devices, active or not, in natural order of names.
std::vector<PortInfo> list_ports(const DeviceOptions& options);

/// The ports `options` allows that are active, in the order given there. The error says what was
/// looked for and what is there.
Result<std::vector<PortInfo>> usable_ports(const DeviceOptions& options);

/// An open device with a protection domain.
class Device {
 public:
  /// `place`: among the ranks of this machine, which share the device's completion vectors.
  static Result<Device> open(const PortInfo& port, int place = 0);

  ibv_context* context() const { return context_.get(); }
  ibv_pd* domain() const { return domain_.get(); }
  const PortInfo& port() const { return port_; }
  /// How InfiniBand packets reach other ports.
  Paths& paths() const { return *paths_; }
  /// Which of the device's interrupts tells of this rank's completions: each is served by one core.
  int completion_vector() const;

 private:
  PortInfo port_;
  int place_ = 0;
  std::shared_ptr<Paths> paths_;
  ContextHandle context_;
  DomainHandle domain_;
};

}  // namespace ibcoll::verbs
