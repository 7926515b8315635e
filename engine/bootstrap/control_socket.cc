#include "engine/bootstrap/control_socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "engine/bootstrap/descriptors.h"

namespace ibcoll {
namespace {

constexpr int kSocket = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

sockaddr_un local_address(const std::string& name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t bytes = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), bytes);
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  return address;
}

/// Small frames at once; the end where the other side's machine has been silent for so long,
/// whether something is to be sent to it or not.
void tune(int fd, int silence_ms) {
  const auto set = [fd](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value);
  };
  const int quarter = std::max(silence_ms / 4000, 1);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, quarter);
  set(IPPROTO_TCP, TCP_KEEPINTVL, quarter);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, silence_ms);
}

/// 0: it has none.
int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return ntohs(address.ss_family == AF_INET ? reinterpret_cast<sockaddr_in*>(&address)->sin_port
                                            : reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
}

bool peer_of(int fd, ucred& peer) {
  socklen_t length = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
}

bool same_user(int fd) {
  ucred peer{};
  return peer_of(fd, peer) && peer.uid == geteuid();
}

}  // namespace

Result<ControlListener> ControlListener::local(const std::string& name, bool& taken) {
  UniqueFd socket(::socket(AF_UNIX, kSocket, 0));
  if (!socket.valid()) return fail_opening("cannot create a socket");
  socklen_t length = 0;
  const sockaddr_un address = local_address(name, length);
  taken = bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0;
  ControlListener listener;
  if (taken && errno == EADDRINUSE) return listener;
  if (taken || listen(socket.get(), SOMAXCONN) != 0) return fail_errno("cannot name a socket");
  listener.local_ = true;
  listener.socket_ = ProcessFd(std::move(socket));
  return listener;
}

Result<ControlListener> ControlListener::network(int silence_ms) {
  UniqueFd socket;
  ControlListener listener;
  listener.silence_ms_ = silence_ms;
  // IPv6 sockets take IPv4 connections, too; machines without IPv6 have IPv4 alone.
  socket.reset(::socket(AF_INET6, kSocket, 0));
  sockaddr_storage address{};
  socklen_t length = sizeof(sockaddr_in6);
  address.ss_family = AF_INET6;
  const int both = 0;
  if (!socket.valid() ||
      setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both) != 0 ||
      bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    socket.reset(::socket(AF_INET, kSocket, 0));
    address = {};
    address.ss_family = AF_INET;
    length = sizeof(sockaddr_in);
    if (!socket.valid() || bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0)
      return fail_opening("cannot open a TCP port");
  }
  if (listen(socket.get(), SOMAXCONN) != 0) return fail_errno("cannot listen on a TCP port");
  listener.port_ = port_of(socket.get());
  listener.socket_ = ProcessFd(std::move(socket));
  return listener;
}

ControlListener ControlListener::network_at(UniqueFd socket, int silence_ms) {
  ControlListener listener;
  listener.silence_ms_ = silence_ms;
  listener.port_ = port_of(socket.get());
  listener.socket_ = ProcessFd(std::move(socket));
  return listener;
}

Result<UniqueFd> ControlListener::accept() {
  UniqueFd socket(accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) {
    // These stay until something is done about them; whatever else is wrong is wrong with the one
    // connection.
    if (is_shortage(errno)) return fail_opening("cannot take the connection of another rank");
    return UniqueFd();
  }
  if (local_ && !same_user(socket.get())) return UniqueFd();
  if (!local_) tune(socket.get(), silence_ms_);
  return socket;
}

Result<UniqueFd> connect_local(const std::string& name) {
  UniqueFd socket(::socket(AF_UNIX, kSocket, 0));
  if (!socket.valid()) return fail_opening("cannot create a socket");
  socklen_t length = 0;
  const sockaddr_un address = local_address(name, length);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
    return fail_errno("cannot connect to the first rank of this machine");
  if (!same_user(socket.get()))
    return fail(ErrorCode::kSystem, "a process of another user has this job's socket name");
  return socket;
}

int process_at(int local_socket) {
  ucred peer{};
  return peer_of(local_socket, peer) ? peer.pid : 0;
}

bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

int bind_shared(int socket, int family, uint16_t port) {
  sockaddr_storage place{};
  place.ss_family = static_cast<sa_family_t>(family);
  // Where it stands is the same in both.
  reinterpret_cast<sockaddr_in*>(&place)->sin_port = htons(port);
  const auto length =
      static_cast<socklen_t>(family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  const int on = 1;
  const bool bound = setsockopt(socket, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0 &&
                     bind(socket, reinterpret_cast<sockaddr*>(&place), length) == 0;
  return bound ? 0 : errno;
}

Result<UniqueFd> connect_network(const std::string& address, int port, int silence_ms,
                                 bool* shortage, uint16_t own_port) {
  if (shortage != nullptr) *shortage = false;
  sockaddr_storage place{};
  socklen_t length = 0;
  if (auto* four = reinterpret_cast<sockaddr_in*>(&place);
      inet_pton(AF_INET, address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(static_cast<uint16_t>(port));
    length = sizeof *four;
  } else if (auto* six = reinterpret_cast<sockaddr_in6*>(&place);
             inet_pton(AF_INET6, address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(static_cast<uint16_t>(port));
    length = sizeof *six;
  } else {
    return fail(ErrorCode::kSystem, "\"{}\" is no network address", address);
  }
  UniqueFd socket(::socket(place.ss_family, kSocket, 0));
  if (own_port != 0 && socket.valid()) bind_shared(socket.get(), place.ss_family, own_port);
  const bool connects =
      socket.valid() && (connect(socket.get(), reinterpret_cast<sockaddr*>(&place), length) == 0 ||
                         errno == EINPROGRESS);
  if (!connects && shortage != nullptr) *shortage = is_shortage(errno);
  if (!socket.valid()) return fail_opening("cannot create a socket");
  if (!connects) return fail_errno(fmt::format("{} port {}", address, port));
  tune(socket.get(), silence_ms);
  return socket;
}

int connect_error(int socket) {
  socklen_t size = sizeof(int);
  int error = 0;
  return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

std::string peer_address(int socket) {
  sockaddr_storage place{};
  socklen_t length = sizeof place;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&place), &length) != 0) return "";
  char text[INET6_ADDRSTRLEN] = "";
  if (place.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(&place)->sin_addr, text, sizeof text);
    return text;
  }
  const in6_addr& address = reinterpret_cast<sockaddr_in6*>(&place)->sin6_addr;
  if (IN6_IS_ADDR_LINKLOCAL(&address)) return "";
  if (IN6_IS_ADDR_V4MAPPED(&address))
    inet_ntop(AF_INET, address.s6_addr + 12, text, sizeof text);
  else
    inet_ntop(AF_INET6, &address, text, sizeof text);
  return text;
}

std::vector<std::string> own_addresses(const std::vector<std::string>& interfaces) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<std::string> four, six, loopback;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    if (!interfaces.empty() &&
        std::find(interfaces.begin(), interfaces.end(), at->ifa_name) == interfaces.end())
      continue;
    char text[INET6_ADDRSTRLEN] = "";
    const int family = at->ifa_addr->sa_family;
    if (family == AF_INET) {
      inet_ntop(family, &reinterpret_cast<sockaddr_in*>(at->ifa_addr)->sin_addr, text, sizeof text);
    } else if (family == AF_INET6) {
      const in6_addr& address = reinterpret_cast<sockaddr_in6*>(at->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;  // means nothing on another machine
      inet_ntop(family, &address, text, sizeof text);
    } else {
      continue;
    }
    auto& kind = (at->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : family == AF_INET ? four : six;
    kind.emplace_back(text);
  }
  four.insert(four.end(), six.begin(), six.end());
  four.insert(four.end(), loopback.begin(), loopback.end());
  return four;
}

}  // namespace ibcoll
