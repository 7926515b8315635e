#include "engine/bootstrap/control_link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace ibcoll {
namespace {

constexpr size_t kMostDescriptors = 4;

struct Header {
  uint32_t kind;
  int32_t rank;
  int32_t code;
  uint32_t unused;
  uint64_t bytes;
};

sockaddr_un local_address(const std::string& name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t bytes = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), bytes);
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  return address;
}

/// Small frames at once, and a peer whose host is gone noticed within about two seconds.
void tune(int fd) {
  const auto set = [fd](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 2);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 2000);
}

tl::unexpected<Error> gone(const char* what) {
  if (errno == EAGAIN || errno == EWOULDBLOCK)
    return fail(ErrorCode::kPeerFailed, "{}: the other side is silent", what);
  return fail_errno(what);
}

bool same_user(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

}  // namespace

Status ControlLink::send_all(const void* data, size_t bytes) {
  const auto* at = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket_.get(), at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return gone("control connection");
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return {};
}

Status ControlLink::receive_all(void* data, size_t bytes) {
  auto* at = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t got = recv(socket_.get(), at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return gone("control connection");
    if (got == 0) return fail(ErrorCode::kPeerFailed, "the control connection has ended");
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return {};
}

Status ControlLink::send(FrameKind kind, int32_t rank, std::span<const std::byte> payload,
                         int32_t code) {
  const Header header{static_cast<uint32_t>(kind), rank, code, 0, payload.size()};
  IBCOLL_TRY(send_all(&header, sizeof header));
  return send_all(payload.data(), payload.size());
}

Result<Frame> ControlLink::receive(uint64_t most) {
  Header header{};
  IBCOLL_TRY(receive_all(&header, sizeof header));
  if (header.bytes > most)
    return fail(ErrorCode::kSystem, "a control message of {} bytes: not from this job",
                header.bytes);
  Frame frame{static_cast<FrameKind>(header.kind), header.rank, header.code, {}};
  frame.payload.resize(header.bytes);
  IBCOLL_TRY(receive_all(frame.payload.data(), frame.payload.size()));
  return frame;
}

Status ControlLink::send_descriptors(std::span<const int> descriptors) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  if (sendmsg(socket_.get(), &message, MSG_NOSIGNAL) != 1)
    return gone("cannot pass descriptors to a rank of this machine");
  return {};
}

Status ControlLink::receive_descriptors(std::span<UniqueFd> descriptors) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  if (got < 0) return gone("cannot receive descriptors");
  const cmsghdr* header = got == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(descriptors.size() * sizeof(int)))
    return fail(ErrorCode::kPeerFailed, "the control connection has ended");
  for (size_t i = 0; i < descriptors.size(); ++i) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(header) + i * sizeof(int), sizeof number);
    descriptors[i].reset(number);
  }
  return {};
}

bool ControlLink::quiet() const {
  pollfd end{socket_.get(), POLLIN, 0};
  return ::poll(&end, 1, 0) == 0;
}

void ControlLink::set_limit(int seconds) {
  const timeval limit{seconds, 0};
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

Result<ControlListener> ControlListener::local(const std::string& name, bool& taken) {
  ControlListener listener;
  listener.local_ = true;
  listener.socket_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.socket_.valid()) return fail_errno("cannot create a socket");
  socklen_t length = 0;
  const sockaddr_un address = local_address(name, length);
  taken = bind(listener.fd(), reinterpret_cast<const sockaddr*>(&address), length) != 0;
  if (taken && errno == EADDRINUSE) return listener;
  if (taken || listen(listener.fd(), SOMAXCONN) != 0) return fail_errno("cannot name a socket");
  return listener;
}

Result<ControlListener> ControlListener::network() {
  ControlListener listener;
  // IPv6 sockets take IPv4 connections, too; hosts without IPv6 have IPv4 alone.
  listener.socket_.reset(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address{};
  socklen_t length = sizeof(sockaddr_in6);
  address.ss_family = AF_INET6;
  const int both = 0;
  if (!listener.socket_.valid() ||
      setsockopt(listener.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both) != 0 ||
      bind(listener.fd(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    listener.socket_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    address = {};
    address.ss_family = AF_INET;
    length = sizeof(sockaddr_in);
    if (!listener.socket_.valid() ||
        bind(listener.fd(), reinterpret_cast<sockaddr*>(&address), length) != 0)
      return fail_errno("cannot open a TCP port");
  }
  length = sizeof address;
  if (listen(listener.fd(), SOMAXCONN) != 0 ||
      getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return fail_errno("cannot listen on a TCP port");
  listener.port_ =
      ntohs(address.ss_family == AF_INET ? reinterpret_cast<sockaddr_in*>(&address)->sin_port
                                         : reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  return listener;
}

Result<ControlLink> ControlListener::accept() {
  UniqueFd socket(accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid()) return fail_errno("cannot accept a control connection");
  if (local_ && !same_user(socket.get()))
    return fail(ErrorCode::kSystem, "a process of another user connects to this job");
  if (!local_) tune(socket.get());
  return ControlLink(std::move(socket));
}

Result<ControlLink> connect_local(const std::string& name) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return fail_errno("cannot create a socket");
  socklen_t length = 0;
  const sockaddr_un address = local_address(name, length);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
    return fail_errno("cannot connect to the first rank of this machine");
  if (!same_user(socket.get()))
    return fail(ErrorCode::kSystem, "a process of another user has this job's socket name");
  return ControlLink(std::move(socket));
}

Result<ControlLink> connect_network(const std::string& address, int port, int seconds) {
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
  UniqueFd socket(::socket(place.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return fail_errno("cannot create a socket");
  const auto failed = [&] { return fail_errno(fmt::format("{} port {}", address, port)); };
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&place), length) != 0) {
    if (errno != EINPROGRESS) return failed();
    pollfd ready{socket.get(), POLLOUT, 0};
    if (::poll(&ready, 1, seconds * 1000) != 1) {
      errno = ETIMEDOUT;
      return failed();
    }
    socklen_t size = sizeof(int);
    int error = 0;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error;
    if (error != 0) return failed();
  }
  fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK);
  tune(socket.get());
  return ControlLink(std::move(socket));
}

std::vector<std::string> own_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<std::string> four, six, loopback;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    char text[INET6_ADDRSTRLEN] = "";
    const int family = at->ifa_addr->sa_family;
    if (family == AF_INET) {
      inet_ntop(family, &reinterpret_cast<sockaddr_in*>(at->ifa_addr)->sin_addr, text, sizeof text);
    } else if (family == AF_INET6) {
      const in6_addr& address = reinterpret_cast<sockaddr_in6*>(at->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;  // means nothing on another host
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
