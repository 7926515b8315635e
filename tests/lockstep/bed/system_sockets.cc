// Functions of the C library that have to do with sockets and descriptors of processes, as
// system_calls.cc has the others.

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/sockios.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/lockstep/bed/machine.h"
#include "tests/lockstep/bed/network.h"
#include "tests/lockstep/bed/shared_word.h"

namespace machine = ibcoll::lockstep::machine;
namespace network = ibcoll::lockstep::network;

namespace {

/// The kernel's, where this is no socket of the bed's.
template <class... Arguments>
long kernel(long number, Arguments... arguments) {
  return ::syscall(number, arguments...);
}

bool is_ours(int fd) { return machine::in_fiber() && network::owns(fd); }

/// What the kernel tells of a process by its descriptor; as in engine/bootstrap/process_end.cc.
struct PidfdInfo {
  uint64_t mask, cgroup;
  uint32_t ids[11];
  int32_t exit_code;
};
constexpr uint64_t kInfoExit = 1 << 3;

}  // namespace

namespace ibcoll::lockstep {

/// One look, as the kernel's poll() without waiting.
int poll_once(pollfd* descriptors, nfds_t count) {
  if (!network::on()) return static_cast<int>(kernel(SYS_poll, descriptors, count, 0));
  std::vector<pollfd> others;
  int found = 0;
  for (nfds_t i = 0; i < count; ++i) {
    pollfd& one = descriptors[i];
    if (one.fd >= 0 && network::owns(one.fd)) {
      one.revents = network::ready(one.fd, one.events);
      found += one.revents != 0;
    } else {
      others.push_back(one);
    }
  }
  if (kernel(SYS_poll, others.data(), static_cast<nfds_t>(others.size()), 0) < 0) return -1;
  auto next = others.begin();
  for (nfds_t i = 0; i < count; ++i) {
    pollfd& one = descriptors[i];
    if (one.fd >= 0 && network::owns(one.fd)) continue;
    one.revents = (next++)->revents;
    found += one.revents != 0;
  }
  return found;
}

}  // namespace ibcoll::lockstep

#pragma GCC visibility push(default)
extern "C" {

int socket(int domain, int type, int protocol) noexcept {
  if (machine::in_fiber() && network::on() && (type & 0xf) == SOCK_STREAM)
    return network::make_socket();
  return static_cast<int>(kernel(SYS_socket, domain, type, protocol));
}

int bind(int fd, const sockaddr* address, socklen_t bytes) noexcept {
  if (is_ours(fd)) return network::bind(fd, address, bytes);
  return static_cast<int>(kernel(SYS_bind, fd, address, bytes));
}

int listen(int fd, int backlog) noexcept {
  if (is_ours(fd)) return network::listen(fd);
  return static_cast<int>(kernel(SYS_listen, fd, backlog));
}

int getsockname(int fd, sockaddr* address, socklen_t* bytes) noexcept {
  if (is_ours(fd)) return network::name(fd, address, bytes);
  return static_cast<int>(kernel(SYS_getsockname, fd, address, bytes));
}

int getpeername(int fd, sockaddr* address, socklen_t* bytes) noexcept {
  if (is_ours(fd)) return network::peer_name(fd, address, bytes);
  return static_cast<int>(kernel(SYS_getpeername, fd, address, bytes));
}

int connect(int fd, const sockaddr* address, socklen_t bytes) {
  if (!is_ours(fd)) return static_cast<int>(kernel(SYS_connect, fd, address, bytes));
  ibcoll::lockstep::step();
  return network::connect(fd, address, bytes);
}

int accept4(int fd, sockaddr* address, socklen_t* bytes, int flags) {
  if (!is_ours(fd)) return static_cast<int>(kernel(SYS_accept4, fd, address, bytes, flags));
  ibcoll::lockstep::step();
  return network::accept(fd);
}

int getsockopt(int fd, int level, int name, void* value, socklen_t* bytes) noexcept {
  if (is_ours(fd)) return network::option(fd, level, name, value, bytes);
  return static_cast<int>(kernel(SYS_getsockopt, fd, level, name, value, bytes));
}

int setsockopt(int fd, int level, int name, const void* value, socklen_t bytes) noexcept {
  if (is_ours(fd)) return 0;
  return static_cast<int>(kernel(SYS_setsockopt, fd, level, name, value, bytes));
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (!is_ours(fd)) return kernel(SYS_sendmsg, fd, message, flags);
  ibcoll::lockstep::show_stores();
  ibcoll::lockstep::step();
  machine::note_change();
  return network::send(fd, *message);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  if (!is_ours(fd)) return kernel(SYS_recvmsg, fd, message, flags);
  ibcoll::lockstep::step();
  return network::receive(fd, *message, (flags & MSG_PEEK) != 0);
}

ssize_t recv(int fd, void* to, size_t bytes, int flags) {
  if (!is_ours(fd))
    return kernel(SYS_recvfrom, fd, to, bytes, flags, static_cast<void*>(nullptr),
                  static_cast<void*>(nullptr));
  iovec data{to, bytes};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  ibcoll::lockstep::step();
  return network::receive(fd, message, (flags & MSG_PEEK) != 0);
}

int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list list;
  va_start(list, request);
  void* const argument = va_arg(list, void*);
  va_end(list);
  if (is_ours(fd) && request == SIOCOUTQ) {
    *static_cast<int*>(argument) = network::under_way(fd);
    return 0;
  }
  if (machine::in_fiber() && request == _IOWR(0xFF, 11, PidfdInfo)) {
    const int process = machine::process_of_descriptor(fd);
    if (process >= 0) {
      auto& info = *static_cast<PidfdInfo*>(argument);
      info.mask = machine::is_dead(process) ? kInfoExit : 0;
      info.exit_code = machine::status_of(process);
      return 0;
    }
  }
  return static_cast<int>(kernel(SYS_ioctl, fd, request, argument));
}

int close(int fd) {
  if (machine::in_fiber()) {
    machine::forget_descriptor(fd);
    if (network::owns(fd)) {
      machine::note_change();
      return network::close(fd);
    }
  }
  return static_cast<int>(kernel(SYS_close, fd));
}

}  // extern "C"
#pragma GCC visibility pop
