#include "tests/lockstep/bed/network.h"

#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tests/lockstep/bed/machine.h"
#include "tests/lockstep/random.h"

namespace ibcoll::lockstep::network {
namespace {

constexpr int kFirstPort = 40'000;
constexpr size_t kShortest = 1024;

struct Piece {
  int64_t arrives_ns;
  std::vector<std::byte> bytes;
  size_t taken = 0;
  std::vector<int> descriptors;
};

/// One side of a connection, or a socket that is none yet.
struct End {
  int process = 0, peer_process = -1;
  bool between_machines = false, listens = false;
  std::string name;
  std::weak_ptr<End> peer;
  std::deque<Piece> inbox;
  int64_t born_ns = 0;     ///< when it was connected, or will be
  int64_t last_ns = 0;     ///< the latest piece on its way here arrives then
  int64_t closed_ns = -1;  ///< the other side has closed it: known here then
  bool reset_by_peer = false;
  int refused = 0;  ///< errno's number of a connection that did not come about
  bool open = true;
  std::deque<std::shared_ptr<End>> callers;
};

struct State {
  NetworkConditions conditions;
  std::vector<Outage> outages;  ///< by the clock
  Random random;
  std::map<int, std::shared_ptr<End>> ends;
  std::map<int, int> holders;  ///< of each of their descriptors: whose it is
  int next_port = kFirstPort;
};

std::optional<State> g_state;

State& state() { return *g_state; }
End& end_of(int fd) { return *state().ends.at(fd); }
int64_t now() { return machine::true_ns(); }

int fails(int error) {
  errno = error;
  return -1;
}

int machine_of(int process) { return state().conditions.machine_of[static_cast<size_t>(process)]; }

bool concerns(const Outage& outage, const End& end) {
  return end.between_machines && end.peer_process >= 0 &&
         (machine_of(end.process) == outage.machine ||
          machine_of(end.peer_process) == outage.machine);
}

/// Why a connection can't be used any more; 0: it can.
int broken(const End& end) {
  for (const Outage& outage : state().outages) {
    if (!concerns(outage, end) || outage.from_ns > now()) continue;
    if (outage.resets && end.born_ns < outage.from_ns) return ECONNRESET;
    const int64_t given_up = outage.from_ns + state().conditions.patience_ns;
    if (!outage.resets && outage.until_ns > given_up && now() > given_up &&
        end.born_ns < outage.from_ns)
      return ETIMEDOUT;
  }
  return 0;
}

/// When what leaves now arrives.
int64_t arrival(const End& to, int64_t leaves_ns) {
  State& self = state();
  int64_t arrives = leaves_ns + 1 + static_cast<int64_t>(self.random.below(2000));
  if (to.between_machines) {
    const auto longest = static_cast<uint64_t>(self.conditions.longest_latency_ns);
    arrives +=
        static_cast<int64_t>(self.random.below(self.random.one_in(8) ? longest : longest / 16 + 1));
  }
  for (const Outage& outage : self.outages) {
    if (!outage.resets && concerns(outage, to) && arrives >= outage.from_ns &&
        arrives < outage.until_ns)
      arrives = outage.until_ns + static_cast<int64_t>(self.random.below(1'000'000));
  }
  return arrives;
}

int add(std::shared_ptr<End> end) {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return fd;
  state().holders[fd] = end->process;
  state().ends[fd] = std::move(end);
  return fd;
}

/// What a process that gets a descriptor has of it.
int pass_on(int given, int process) {
  const int passed = dup(given);
  const auto end = state().ends.find(given);
  if (passed < 0 || end == state().ends.end()) return passed;
  state().ends[passed] = end->second;
  state().holders[passed] = process;
  return passed;
}

std::string name_of(const sockaddr* address, socklen_t bytes) {
  if (address->sa_family == AF_UNIX) {
    const auto* const local = reinterpret_cast<const sockaddr_un*>(address);
    return "local " + std::string(local->sun_path, bytes - offsetof(sockaddr_un, sun_path));
  }
  const uint16_t port = address->sa_family == AF_INET
                            ? reinterpret_cast<const sockaddr_in*>(address)->sin_port
                            : reinterpret_cast<const sockaddr_in6*>(address)->sin6_port;
  return "port " + std::to_string(ntohs(port));
}

std::shared_ptr<End> find_named(const std::string& name) {
  for (const auto& [fd, end] : state().ends) {
    if (end->open && end->name == name) return end;
  }
  return nullptr;
}

void shut(const std::shared_ptr<End>& end) {
  if (!end->open) return;
  end->open = false;
  const bool unread = !end->inbox.empty();
  for (const std::shared_ptr<End>& caller : end->callers) shut(caller);
  if (const auto peer = end->peer.lock(); peer && peer->closed_ns < 0) {
    peer->closed_ns = std::max(peer->last_ns, arrival(*peer, now()));
    peer->reset_by_peer = unread;
  }
}

/// Whether the connection has come about by now; its error if it has not and will not.
bool connected(End& end) {
  if (end.refused != 0 || !end.between_machines || end.peer_process >= 0) return true;
  return false;
}

}  // namespace

void begin(const NetworkConditions& conditions) {
  g_state.emplace(State{conditions, {}, Random(drawn({conditions.seed, 99})), {}, {}, kFirstPort});
}
void begin_outages() {
  for (Outage outage : state().conditions.outages) {
    outage.from_ns += now();
    outage.until_ns += now();
    state().outages.push_back(outage);
  }
}
void end() { g_state.reset(); }
bool on() { return g_state.has_value(); }

void process_ended(int process) {
  if (!on()) return;
  std::vector<int> all;
  for (const auto& [fd, holder] : state().holders) {
    if (holder == process) all.push_back(fd);
  }
  for (const int fd : all) close(fd);
}

bool owns(int fd) { return on() && state().ends.count(fd) != 0; }

int make_socket() {
  auto end = std::make_shared<End>();
  end->process = machine::current_process();
  return add(std::move(end));
}

int bind(int fd, const sockaddr* address, socklen_t bytes) {
  End& end = end_of(fd);
  if (address->sa_family == AF_UNIX) {
    std::string name = name_of(address, bytes);
    if (find_named(name) != nullptr) return fails(EADDRINUSE);
    end.name = std::move(name);
  } else {
    end.name = "port " + std::to_string(state().next_port++);
  }
  return 0;
}

int listen(int fd) {
  end_of(fd).listens = true;
  return 0;
}

int name(int fd, sockaddr* address, socklen_t* bytes) {
  const std::string& name = end_of(fd).name;
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<uint16_t>(std::atoi(name.c_str() + name.find(' ') + 1)));
  std::memcpy(address, &six, std::min<size_t>(*bytes, sizeof six));
  *bytes = sizeof six;
  return 0;
}

/// All machines have one address; ports are the bed's, not theirs.
int peer_name(int fd, sockaddr* address, socklen_t* bytes) {
  if (end_of(fd).peer_process < 0) return fails(ENOTCONN);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  std::memcpy(address, &six, std::min<size_t>(*bytes, sizeof six));
  *bytes = sizeof six;
  return 0;
}

int connect(int fd, const sockaddr* address, socklen_t bytes) {
  const std::shared_ptr<End> mine = state().ends.at(fd);
  const bool local = address->sa_family == AF_UNIX;
  const std::shared_ptr<End> listener = find_named(name_of(address, bytes));
  if (listener == nullptr || !listener->listens) {
    if (local) return fails(ECONNREFUSED);
    mine->between_machines = true;
    mine->refused = ECONNREFUSED;
    mine->born_ns = now() + 50'000;
    return fails(EINPROGRESS);
  }
  const auto theirs = std::make_shared<End>();
  theirs->process = mine->peer_process = listener->process;
  theirs->peer_process = mine->process;
  theirs->between_machines = mine->between_machines = !local;
  theirs->peer = mine;
  mine->peer = theirs;
  mine->born_ns = theirs->born_ns = local ? now() : arrival(*theirs, now());
  listener->callers.push_back(theirs);
  return local ? 0 : fails(EINPROGRESS);
}

int accept(int fd) {
  End& listener = end_of(fd);
  for (auto at = listener.callers.begin(); at != listener.callers.end(); ++at) {
    if ((*at)->born_ns > now()) continue;
    const std::shared_ptr<End> end = *at;
    listener.callers.erase(at);
    end->process = machine::current_process();  // one of those that hold the listener
    if (const auto peer = end->peer.lock()) peer->peer_process = end->process;
    return add(end);
  }
  return fails(EAGAIN);
}

int option(int fd, int level, int name, void* value, socklen_t* bytes) {
  End& end = end_of(fd);
  if (level != SOL_SOCKET) return 0;
  if (name == SO_PEERCRED) {
    const ucred peer{machine::kFirstPid + end.peer_process, geteuid(), getegid()};
    std::memcpy(value, &peer, sizeof peer);
    *bytes = sizeof peer;
  } else if (name == SO_ERROR) {
    const int error = end.refused != 0 ? end.refused : broken(end);
    std::memcpy(value, &error, sizeof error);
    *bytes = sizeof error;
  }
  return 0;
}

ssize_t send(int fd, const msghdr& message) {
  State& self = state();
  End& end = end_of(fd);
  if (const int error = broken(end); error != 0) return fails(error);
  const auto peer = end.peer.lock();
  if (!peer || !peer->open) {
    // It is known once the other side's end has come here.
    if (end.closed_ns >= 0 && end.closed_ns <= now())
      return fails(end.reset_by_peer ? ECONNRESET : EPIPE);
  }
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < message.msg_iovlen; ++i) {
    const auto* const from = static_cast<const std::byte*>(message.msg_iov[i].iov_base);
    bytes.insert(bytes.end(), from, from + message.msg_iov[i].iov_len);
  }
  size_t most = self.conditions.room;
  if (peer) {
    size_t used = 0;
    for (const Piece& piece : peer->inbox) used += piece.bytes.size() - piece.taken;
    if (used >= most) return fails(EAGAIN);
    most -= used;
  }
  if (bytes.size() > most) bytes.resize(most);
  // As sockets do: what is short goes as a whole while there is room.
  if (bytes.size() > kShortest && self.random.one_in(2))
    bytes.resize(kShortest + self.random.below(bytes.size() - kShortest));
  const auto sent = static_cast<ssize_t>(bytes.size());
  if (!peer || !peer->open) return sent;
  Piece piece{std::max(peer->last_ns, arrival(*peer, now())), std::move(bytes), 0, {}};
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(const_cast<msghdr*>(&message), header)) {
    if (header->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int given = -1;
      std::memcpy(&given, CMSG_DATA(header) + at, sizeof given);
      piece.descriptors.push_back(pass_on(given, peer->process));
    }
  }
  peer->last_ns = piece.arrives_ns;
  peer->inbox.push_back(std::move(piece));
  return sent;
}

ssize_t receive(int fd, msghdr& message, bool peek) {
  End& end = end_of(fd);
  std::byte* to = static_cast<std::byte*>(message.msg_iov[0].iov_base);
  size_t room = message.msg_iov[0].iov_len;
  const int error = broken(end);
  if (end.inbox.empty() || end.inbox.front().arrives_ns > now() || error != 0) {
    message.msg_controllen = 0;
    if (error != 0) return fails(error);
    if (end.closed_ns >= 0 && end.closed_ns <= now()) {
      if (!end.reset_by_peer) return 0;
      return fails(ECONNRESET);
    }
    return fails(EAGAIN);
  }
  Piece& piece = end.inbox.front();
  size_t bytes = std::min(room, piece.bytes.size() - piece.taken);
  if (bytes > 1 && state().random.one_in(4)) bytes = 1 + state().random.below(bytes);
  std::memcpy(to, piece.bytes.data() + piece.taken, bytes);
  size_t control = 0;
  if (!piece.descriptors.empty() && message.msg_control != nullptr) {
    const size_t length = piece.descriptors.size() * sizeof(int);
    auto* const header = static_cast<cmsghdr*>(message.msg_control);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(length);
    std::memcpy(CMSG_DATA(header), piece.descriptors.data(), length);
    control = CMSG_SPACE(length);
    piece.descriptors.clear();
  }
  message.msg_controllen = control;
  if (!peek) {
    piece.taken += bytes;
    if (piece.taken == piece.bytes.size()) end.inbox.pop_front();
  }
  return static_cast<ssize_t>(bytes);
}

int under_way(int fd) {
  const auto peer = end_of(fd).peer.lock();
  if (!peer) return 0;
  size_t bytes = 0;
  for (const Piece& piece : peer->inbox) {
    if (piece.arrives_ns > now()) bytes += piece.bytes.size();
  }
  return static_cast<int>(bytes);
}

short ready(int fd, short events) {
  End& end = end_of(fd);
  short found = 0;
  if (end.listens) {
    const bool waits = std::any_of(end.callers.begin(), end.callers.end(),
                                   [](const auto& caller) { return caller->born_ns <= now(); });
    return static_cast<short>(waits ? events & POLLIN : 0);
  }
  if (end.born_ns > now()) return 0;  // not connected yet
  if (!connected(end)) return 0;
  if (end.refused != 0 || broken(end) != 0)
    return static_cast<short>((events & (POLLIN | POLLOUT)) | POLLERR);
  const bool comes = !end.inbox.empty() && end.inbox.front().arrives_ns <= now();
  const bool closed = end.closed_ns >= 0 && end.closed_ns <= now();
  if (comes || closed) found |= POLLIN;
  size_t used = 0;
  if (const auto peer = end.peer.lock()) {
    for (const Piece& piece : peer->inbox) used += piece.bytes.size() - piece.taken;
  }
  if (used < state().conditions.room) found |= POLLOUT;
  return static_cast<short>(found & events);
}

int close(int fd) {
  const std::shared_ptr<End> end = state().ends.at(fd);
  state().ends.erase(fd);
  state().holders.erase(fd);
  const auto is_it = [&](const auto& other) { return other.second == end; };
  if (std::none_of(state().ends.begin(), state().ends.end(), is_it)) shut(end);
  return static_cast<int>(::syscall(SYS_close, fd));
}

}  // namespace ibcoll::lockstep::network
