#include "ucx/gate.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "engine/bootstrap/control_socket.h"
#include "ucx/imports.h"

namespace ibcoll::ucx {
namespace {

/// A connection that is made again must not be the one that the kernel still winds up.
constexpr uint16_t kPorts = 4;
/// Of these, groups of kPorts are looked at one after the other. The ranks of a machine look in the
/// same order, so that they get neighbours, which make a short filter.
constexpr uint32_t kFirstPort = 32768, kGroups = 7000;

/// Connections are made by whoever lets UCX move on; of a job's start and of retries alone.
std::mutex gates_mutex;
std::vector<Gate*> gates;
thread_local Gate* watching = nullptr;

Endpoint endpoint_of(const sockaddr* place) {
  Endpoint endpoint;
  if (place->sa_family == AF_INET) {
    const auto* const four = reinterpret_cast<const sockaddr_in*>(place);
    endpoint.address.family = 4;
    std::memcpy(endpoint.address.bytes.data(), &four->sin_addr, 4);
    endpoint.port = ntohs(four->sin_port);
  } else if (place->sa_family == AF_INET6) {
    const auto* const six = reinterpret_cast<const sockaddr_in6*>(place);
    endpoint.address.family = 6;
    std::memcpy(endpoint.address.bytes.data(), &six->sin6_addr, 16);
    endpoint.port = ntohs(six->sin6_port);
  }
  return endpoint;
}

auto order(const Endpoint& endpoint) {
  return std::tie(endpoint.port, endpoint.address.family, endpoint.address.bytes);
}
bool less(const Endpoint& left, const Endpoint& right) { return order(left) < order(right); }

Address parse(const std::string& text) {
  Address address;
  if (inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1)
    address.family = 4;
  else if (inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1)
    address.family = 6;
  return address;
}

/// Has a port that nobody has, but that others of this user's sockets may have from now on. Gives
/// errno's number.
int bind_alone(int socket, int family, uint16_t port) {
  const int on = 1;
  if (family == AF_INET6) setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  sockaddr_storage place{};
  place.ss_family = static_cast<sa_family_t>(family);
  reinterpret_cast<sockaddr_in*>(&place)->sin_port = htons(port);  // as in sockaddr_in6
  const auto length =
      static_cast<socklen_t>(family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  const bool bound = bind(socket, reinterpret_cast<sockaddr*>(&place), length) == 0 &&
                     setsockopt(socket, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0;
  return bound ? 0 : errno;
}

std::vector<Address> addresses_here(const std::vector<std::string>& devices = {}) {
  std::vector<Address> all;
  for (const std::string& text : own_addresses(devices)) all.push_back(parse(text));
  return all;
}

}  // namespace

/// What libucs calls instead of listen().
int listen_as_told(int socket, int backlog) {
  if (watching != nullptr) watching->close_listener(socket);
  const int result = listen(socket, backlog);
  if (result == 0 && watching != nullptr) {
    sockaddr_storage place{};
    socklen_t length = sizeof place;
    if (getsockname(socket, reinterpret_cast<sockaddr*>(&place), &length) == 0)
      watching->listens_at_.push_back(endpoint_of(reinterpret_cast<sockaddr*>(&place)));
    watching->listeners_.push_back(socket);
  }
  return result;
}

/// And instead of connect().
int connect_as_told(int socket, const sockaddr* place, socklen_t length) {
  if (place->sa_family == AF_INET || place->sa_family == AF_INET6) {
    const Endpoint to = endpoint_of(place);
    const std::lock_guard lock(gates_mutex);
    const auto gate = std::find_if(gates.begin(), gates.end(),
                                   [&](const Gate* one) { return one->leads_to_peer(to); });
    if (gate != gates.end()) {
      const uint16_t port = (*gate)->next_port(to);
      const int error = bind_shared(socket, place->sa_family, port);
      if (error != 0) {
        errno = error;
        return -1;
      }
    }
  }
  return connect(socket, place, length);
}

Result<std::unique_ptr<Gate>> Gate::open(const Library& ucp) {
  // A function of the library that makes UCX's connections.
  const void* const in_libucs = reinterpret_cast<const void*>(ucp.status_string);
  std::unique_ptr<Gate> gate(new Gate);
  IBCOLL_TRY(gate->reserve());
  if (!replace_import(in_libucs, "listen", reinterpret_cast<void*>(listen_as_told)) ||
      !replace_import(in_libucs, "connect", reinterpret_cast<void*>(connect_as_told)))
    return fail(ErrorCode::kUnsupported, "this UCX makes its connections in an unknown way");
  const std::lock_guard lock(gates_mutex);
  gates.push_back(gate.get());
  return gate;
}

Gate::~Gate() {
  const std::lock_guard lock(gates_mutex);
  gates.erase(std::remove(gates.begin(), gates.end(), this), gates.end());
}

Gate::Watch::Watch(Gate* gate) { watching = gate; }
Gate::Watch::~Watch() { watching = nullptr; }

/// Finds ports that nobody has, and keeps them. Others of this user could share them.
Status Gate::reserve() {
  const uint32_t start = geteuid() * 2654435761U;
  for (uint32_t attempt = 0; attempt < kGroups; ++attempt) {
    const auto first =
        static_cast<uint16_t>(kFirstPort + (start % kGroups + attempt) % kGroups * kPorts);
    std::vector<UniqueFd> sockets;
    bool free = true;
    for (uint16_t port = first; free && port < first + kPorts; ++port) {
      for (const int family : {AF_INET, AF_INET6}) {
        UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (!socket.valid() && is_shortage(errno)) return fail_errno("cannot create a socket");
        if (!socket.valid()) continue;  // without IPv6 nobody comes from there
        const int error = bind_alone(socket.get(), family, port);
        free = free && (error == 0 || error == EADDRNOTAVAIL);
        sockets.push_back(std::move(socket));
      }
    }
    if (!free) continue;
    first_port_ = first;
    reserved_ = std::move(sockets);
    return {};
  }
  return fail(ErrorCode::kSystem, "no free ports to connect from");
}

void Gate::close_listener(int socket) {
  if (const Status attached = attach_filter(socket, filter_for({})); !attached) refused_ = attached;
}

Status Gate::guard(int listener) {
  IBCOLL_TRY(attach_filter(listener, filter_for({})));
  listeners_.push_back(listener);
  return {};
}

Status Gate::closed() const {
  if (refused_ && listens_at_.empty())
    return fail(ErrorCode::kUnsupported, "it listens in an unknown way");
  if (listens_at_.size() > GatePlace::kListeners)
    return fail(ErrorCode::kUnsupported, "it listens on {} interfaces; UCX_NET_DEVICES chooses",
                listens_at_.size());
  return refused_;
}

GatePlace Gate::place(const std::vector<std::string>& devices) const {
  GatePlace place;
  std::vector<Address> all = addresses_here(devices);
  for (const Address& address : addresses_here())
    if (std::find(all.begin(), all.end(), address) == all.end()) all.push_back(address);
  std::copy_n(all.begin(), std::min(all.size(), place.addresses.size()), place.addresses.begin());
  std::copy_n(listens_at_.begin(), std::min(listens_at_.size(), place.listeners.size()),
              place.listeners.begin());
  place.first_port = first_port_;
  place.ports = kPorts;
  return place;
}

Status Gate::admit(const std::vector<GatePlace>& places, const std::vector<int>& machine_of,
                   int me) {
  const bool open_to_all = std::any_of(places.begin(), places.end(),
                                       [](const GatePlace& place) { return place.ports == 0; });
  if (open_to_all) {
    for (const int listener : listeners_) setsockopt(listener, SOL_SOCKET, SO_DETACH_FILTER, "", 0);
    return {};
  }
  const std::vector<Address> here = addresses_here();
  std::vector<Callers> callers;
  std::vector<Endpoint> peers;
  // Where nothing of UCX's listens by IPv6 nobody comes from there.
  const bool six = std::any_of(places.begin(), places.end(), [](const GatePlace& place) {
    return std::any_of(place.listeners.begin(), place.listeners.end(),
                       [](const Endpoint& one) { return one.address.family == 6; });
  });
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const GatePlace& place = places[rank];
    Callers caller{{}, place.first_port, place.ports};
    const bool same_machine = machine_of[rank] == machine_of[static_cast<size_t>(me)];
    for (const Address& address : place.addresses) {
      // An address that several machines have, such as that of the loopback interface, tells
      // nothing of one on another machine: here anybody may have that rank's port.
      const bool shared =
          !same_machine && std::find(here.begin(), here.end(), address) != here.end();
      if (address.family != 0 && !shared && (six || address.family == 4))
        caller.addresses.push_back(address);
    }
    callers.push_back(std::move(caller));
    for (const Endpoint& listener : place.listeners)
      if (listener.port != 0) peers.push_back(listener);
  }
  const std::vector<sock_filter> filter = filter_for(callers);
  for (const int listener : listeners_) IBCOLL_TRY(attach_filter(listener, filter));
  std::sort(peers.begin(), peers.end(), less);
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  const std::lock_guard lock(gates_mutex);
  peers_ = std::move(peers);
  connections_.assign(peers_.size(), 0);
  return {};
}

bool Gate::leads_to_peer(const Endpoint& endpoint) const {
  return std::binary_search(peers_.begin(), peers_.end(), endpoint, less);
}

uint16_t Gate::next_port(const Endpoint& endpoint) {
  const auto found = std::lower_bound(peers_.begin(), peers_.end(), endpoint, less);
  return static_cast<uint16_t>(first_port_ + connections_[found - peers_.begin()]++ % kPorts);
}

bool all_loopback(const std::vector<std::string>& devices) {
  const std::vector<Address> all = addresses_here(devices);
  constexpr Address kSelf6{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 6};
  return !devices.empty() && std::all_of(all.begin(), all.end(), [&](const Address& address) {
    return address.family == 4 ? address.bytes[0] == 127 : address == kSelf6;
  });
}

}  // namespace ibcoll::ucx
