#pragma once
/// The sockets that ranks find each other by: of one machine and of the network.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "engine/bootstrap/process_fd.h"

namespace ibcoll {

/// A socket that others connect to. Nothing here waits.
class ControlListener {
 public:
  /// By an abstract name, which is in no file system. `taken`: somebody has it already.
  static Result<ControlListener> local(const std::string& name, bool& taken);
  /// By TCP, on any free port of all interfaces. Connections bear `silence_ms`; see
  /// connect_network().
  static Result<ControlListener> network(int silence_ms);
  /// Such a socket of another process, which that has passed on.
  static ControlListener network_at(UniqueFd socket, int silence_ms);

  int fd() const { return socket_.get(); }
  bool open() const { return socket_.valid(); }
  int port() const { return port_; }
  /// The next connection; invalid where there is none, or one of another user's process. An error
  /// where no connection can be taken any more.
  Result<UniqueFd> accept();

 private:
  ProcessFd socket_;
  int port_ = 0;
  int silence_ms_ = 0;
  bool local_ = false;
};

/// Connects to a process of this user on this machine.
Result<UniqueFd> connect_local(const std::string& name);
/// The process at the other end of a local connection.
int process_at(int local_socket);

/// Begins to connect; the socket becomes writable once that has succeeded or failed. A connection
/// ends when the other side's machine has been silent for `silence_ms`. `shortage`, where it is
/// given: whether it failed for want of something on this machine, which says nothing of the other.
/// It comes from `own_port`, unless that is 0.
Result<UniqueFd> connect_network(const std::string& address, int port, int silence_ms,
                                 bool* shortage = nullptr, uint16_t own_port = 0);
/// Has a socket connect from this port, which other sockets of this user may have, too. Gives
/// errno's number.
int bind_shared(int socket, int family, uint16_t port);
/// Whether an errno says that this process or machine has no descriptors or memory left.
bool is_shortage(int error);
/// How connecting went, of a socket that is writable: 0 or errno's number.
int connect_error(int socket);
/// The address that a connection between machines leads to, as text; empty where it means nothing
/// to other machines.
std::string peer_address(int socket);

/// The addresses peers may reach this machine at, those of real interfaces first, as text.
/// `interfaces`: only of these; none: of all.
std::vector<std::string> own_addresses(const std::vector<std::string>& interfaces = {});

}  // namespace ibcoll
