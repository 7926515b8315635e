#pragma once
/// Stream sockets of the bed, between ranks on machines: what is sent arrives when the seed says
/// so, in pieces, and connections between machines break. Numbers of descriptors are the kernel's.

#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <vector>

namespace ibcoll::lockstep {

/// What happens to all connections between a machine and the others.
struct Outage {
  int machine = 0;
  int64_t from_ns = 0, until_ns = 0;  ///< after begin_outages()
  bool resets = false;  ///< connections break at `from_ns`; else nothing passes until `until_ns`
};

struct NetworkConditions {
  uint64_t seed = 1;
  std::vector<int> machine_of;           ///< by process
  int64_t longest_latency_ns = 100'000;  ///< between machines
  /// How long a connection bears a network on which nothing passes.
  int64_t patience_ns = 1'000'000'000;
  /// Bytes that may be under way on a connection; pieces are as long at most.
  size_t room = 65536;
  std::vector<Outage> outages;
};

namespace network {

/// From now on sockets of fibers are the bed's.
void begin(const NetworkConditions& conditions);
void end();
bool on();
/// Outages happen so much after this; before, none does.
void begin_outages();
/// The process is gone: so are its sockets.
void process_ended(int process);

// As the functions of the C library; errno says why they fail. `owns`: whether it is one of these.
bool owns(int fd);
int make_socket();
int bind(int fd, const sockaddr* address, socklen_t bytes);
int listen(int fd);
int name(int fd, sockaddr* address, socklen_t* bytes);
int peer_name(int fd, sockaddr* address, socklen_t* bytes);
int connect(int fd, const sockaddr* address, socklen_t bytes);
int accept(int fd);
int option(int fd, int level, int name, void* value, socklen_t* bytes);
ssize_t send(int fd, const msghdr& message);
ssize_t receive(int fd, msghdr& message, bool peek);
/// Bytes that have not come to the other machine.
int under_way(int fd);
short ready(int fd, short events);
int close(int fd);

}  // namespace network
}  // namespace ibcoll::lockstep
