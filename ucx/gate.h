#pragma once
/// Lets nobody but the ranks of a job connect to the ports that UCX listens on. UCX takes every
/// connection, and what comes over it ends the process where it is not what UCX expects. So
/// each rank has source ports of its own, which the kernel gives to no other user's process of its
/// machine, and connects from them alone; a filter before each port that listens knows those of
/// all.

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "ucx/library.h"
#include "ucx/packet_filter.h"

namespace ibcoll::ucx {

/// Where something listens.
struct Endpoint {
  Address address;
  uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};

/// What a rank tells the others of its gate.
struct GatePlace {
  static constexpr size_t kAddresses = 32, kListeners = 64;
  std::array<Address, kAddresses> addresses;   ///< that its connections may come from
  std::array<Endpoint, kListeners> listeners;  ///< that the others connect to
  uint16_t first_port = 0;                     ///< of those that it connects from
  uint16_t ports = 0;                          ///< 0: it connects from any
};

class Gate {
 public:
  static Result<std::unique_ptr<Gate>> open(const Library& ucp);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Ports that this thread begins to listen on by UCX while one lives are closed to everybody.
  class Watch {
   public:
    explicit Watch(Gate* gate);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
  };
  /// Has another socket that listens guarded by the same filter, too.
  Status guard(int listener);
  /// Whether UCX listens, and nobody may connect.
  Status closed() const;

  /// `devices`: the interfaces that peers are reached by, before others.
  GatePlace place(const std::vector<std::string>& devices) const;
  /// Opens the ports to the ranks of the job, whose connections go by their own ports from now on.
  /// Collective: nobody may connect before all have done so.
  Status admit(const std::vector<GatePlace>& places, const std::vector<int>& machine_of, int me);

  /// A port to connect from.
  uint16_t port() const { return first_port_; }

 private:
  friend int connect_as_told(int, const sockaddr*, socklen_t);
  friend int listen_as_told(int, int);
  Gate() = default;
  Status reserve();
  void close_listener(int socket);
  bool leads_to_peer(const Endpoint& endpoint) const;
  /// The port for the next connection to there, so that two in a row differ.
  uint16_t next_port(const Endpoint& endpoint);

  std::vector<UniqueFd> reserved_;
  uint16_t first_port_ = 0;
  std::vector<int> listeners_;  ///< they are UCX's
  std::vector<Endpoint> listens_at_;
  Status refused_;                    ///< by the kernel, of a filter
  std::vector<Endpoint> peers_;       ///< sorted
  std::vector<uint8_t> connections_;  ///< to each of them so far
};

/// Whether all of these interfaces lead to this machine alone.
bool all_loopback(const std::vector<std::string>& devices);

}  // namespace ibcoll::ucx
