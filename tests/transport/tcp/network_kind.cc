#include "tcp/network_kind.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cstring>
#include <deque>

#include "engine/bootstrap/control_socket.h"
#include "engine/transport/exchange.h"

namespace ibcoll::tcp {
namespace {

constexpr int kSilenceMs = 10'000, kLookMs = 100;
constexpr size_t kMostQueued = 64;  // messages to a peer that the kernel has not taken
constexpr int kMostMails = 2;       // that the peer's poll has not taken

/// What stands before the data of every message.
struct Header {
  enum Kind : uint32_t { kPut, kMail, kTaken } kind = kPut;  ///< kTaken: a mail has been
  uint32_t bytes = 0;
  uint64_t immediate = NetworkTransport::kNoSignal;
  RemoteAddress target;
};

struct Message {
  Header header;
  const std::byte* data = nullptr;
  std::vector<std::byte> mail;  ///< its data, for which the caller's memory need not stay
  size_t sent = 0;              ///< header included
  uint64_t call = 0, number = 0;
};

struct Peer {
  UniqueFd socket;
  std::deque<Message> queue;
  uint64_t posted = 0, completed = 0;
  int mails_out = 0, mails_in = 0;  ///< mails_in: those that the last poll has handed out
  Header header;                    ///< of the message that comes in
  size_t received = 0;              ///< of it, header included
  std::vector<std::byte> mail;
};

class Transport final : public NetworkTransport {
 public:
  Transport(Bootstrap& bootstrap, std::vector<Peer> peers)
      : bootstrap_(bootstrap), peers_(std::move(peers)) {
    for (const Peer& peer : peers_) counters_.queue_pairs += peer.socket.valid() ? 1 : 0;
  }
  const char* name() const override { return "tcp"; }

  /// Data is written only where this rank has allowed it.
  Result<MemoryKey> register_memory(void* base, size_t bytes) override {
    regions_.emplace_back(static_cast<std::byte*>(base), bytes);
    ++counters_.registrations;
    return MemoryKey{regions_.size(), regions_.size(), regions_.size()};
  }
  void deregister_memory(const MemoryKey& key) override { regions_[key.remote - 1] = {}; }

  bool put(Rank peer, const void* source, const MemoryKey&, RemoteAddress target, size_t bytes,
           uint64_t immediate) override {
    if (at(peer).queue.size() >= kMostQueued) return false;
    Message message;
    message.header = {Header::kPut, static_cast<uint32_t>(bytes), immediate, target};
    message.data = static_cast<const std::byte*>(source);
    post(peer, std::move(message));
    counters_.count(bytes);
    return true;
  }
  bool signal(Rank peer, uint32_t immediate) override {
    return put(peer, nullptr, {}, {}, 0, immediate);
  }
  bool mail(Rank peer, std::span<const std::byte> bytes, size_t data_bytes) override {
    if (at(peer).mails_out == kMostMails) return false;
    ++at(peer).mails_out;
    Message message;
    message.header = {Header::kMail, static_cast<uint32_t>(bytes.size()), kNoSignal, {}};
    message.mail.assign(bytes.begin(), bytes.end());
    post(peer, std::move(message));
    if (data_bytes != kUncounted) counters_.count(data_bytes);
    return true;
  }

  size_t poll(std::span<Arrival> arrivals) override {
    for (Rank rank = 0; rank < bootstrap_.size(); ++rank) {
      for (Peer& peer = at(rank); peer.mails_in > 0; --peer.mails_in)
        peer.queue.emplace_back().header.kind = Header::kTaken;
    }
    size_t count = 0;
    for (size_t i = 0; i < peers_.size() && !failure_; ++i) {
      const auto rank = static_cast<Rank>((first_ + i) % peers_.size());
      push(rank);
      // One mail of a peer at most: its memory is the peer's.
      while (count < arrivals.size() && at(rank).mails_in == 0 && take(rank, arrivals[count]))
        ++count;
    }
    ++first_;
    return count;
  }

  uint64_t posted(Rank peer) const override { return peers_[static_cast<size_t>(peer)].posted; }
  uint64_t completed(Rank peer) override { return at(peer).completed; }
  uint64_t mark() override { return next_number_; }
  std::optional<Rank> held_by(uint64_t call, uint64_t before,
                              std::span<const Rank> members) override {
    for (Rank rank = 0; rank < bootstrap_.size(); ++rank) {
      const bool is_member = std::count(members.begin(), members.end(), rank) > 0;
      for (const Message& message : at(rank).queue) {
        if (message.call == call || (message.call == 0 && message.number < before && is_member))
          return rank;
      }
    }
    return std::nullopt;
  }
  void withdraw() override {
    for (Peer& peer : peers_) peer.queue.clear();
  }
  std::optional<Failure> failure() const override { return failure_; }
  const TransportCounters& counters() const override { return counters_; }
  Status close() override {
    for (Rank rank = 0; rank < bootstrap_.size(); ++rank) {
      while (!at(rank).queue.empty() && !failure_) {
        Arrival ignored;
        poll({&ignored, 1});
        if (const auto failure = bootstrap_.failure()) return tl::unexpected(failure->error());
      }
    }
    if (failure_) return tl::unexpected(failure_->error());
    return bootstrap_.barrier();
  }

 private:
  Peer& at(Rank rank) { return peers_[static_cast<size_t>(rank)]; }

  void post(Rank rank, Message message) {
    message.call = posts_for_;
    message.number = next_number_++;
    ++at(rank).posted;
    at(rank).queue.push_back(std::move(message));
    push(rank);
  }

  /// Gives the kernel as much as it takes.
  void push(Rank rank) {
    Peer& peer = at(rank);
    while (!peer.queue.empty() && !failure_) {
      Message& message = peer.queue.front();
      const std::byte* const data =
          message.header.kind == Header::kMail ? message.mail.data() : message.data;
      const size_t of_header = std::min(message.sent, sizeof(Header));
      const size_t of_data = message.sent - of_header;
      iovec parts[] = {
          {reinterpret_cast<std::byte*>(&message.header) + of_header, sizeof(Header) - of_header},
          {const_cast<std::byte*>(data) + of_data, message.header.bytes - of_data}};
      msghdr all{};
      all.msg_iov = parts;
      all.msg_iovlen = 2;
      const ssize_t sent = sendmsg(peer.socket.get(), &all, MSG_NOSIGNAL);
      if (sent < 0) return lose(rank);
      message.sent += static_cast<size_t>(sent);
      if (message.sent < sizeof(Header) + message.header.bytes) return;
      if (message.header.kind != Header::kTaken) ++peer.completed;
      peer.queue.pop_front();
    }
  }

  /// Whether something for the engine has come of it.
  bool take(Rank rank, Arrival& arrival) {
    Peer& peer = at(rank);
    while (peer.socket.valid()) {
      const bool in_header = peer.received < sizeof(Header);
      const size_t length = in_header ? sizeof(Header) : peer.header.bytes;
      const size_t have = in_header ? peer.received : peer.received - sizeof(Header);
      if (have < length) {
        std::byte* const target = in_header ? reinterpret_cast<std::byte*>(&peer.header)
                                  : peer.header.kind == Header::kMail ? peer.mail.data()
                                                                      : place_of(peer.header);
        if (target == nullptr) return refuse(rank);
        const ssize_t got = recv(peer.socket.get(), target + have, length - have, 0);
        if (got <= 0) {
          if (got == 0) errno = ECONNRESET;
          lose(rank);
          return false;
        }
        peer.received += static_cast<size_t>(got);
        if (peer.received == sizeof(Header) && peer.header.kind == Header::kMail) {
          if (peer.header.bytes > kMaxMailBytes) return refuse(rank);
          peer.mail.resize(peer.header.bytes);
        }
        continue;
      }
      peer.received = 0;
      if (peer.header.kind == Header::kTaken) {
        --peer.mails_out;
      } else if (peer.header.kind == Header::kMail) {
        ++peer.mails_in;
        arrival = {Arrival::Kind::kMail, rank, 0, peer.mail};
        return true;
      } else if (peer.header.immediate != kNoSignal) {
        const auto immediate = static_cast<uint32_t>(peer.header.immediate);
        arrival = {Arrival::Kind::kSignal, rank, immediate, {}};
        return true;
      }
    }
    return false;
  }

  /// Null: this rank has not allowed it.
  std::byte* place_of(const Header& header) {
    const RemoteAddress& to = header.target;
    if (to.key == 0 || to.key > regions_.size()) return nullptr;
    const std::span<std::byte> region = regions_[to.key - 1];
    const uint64_t offset = to.address - reinterpret_cast<uint64_t>(region.data());
    const bool fits = offset <= region.size() && header.bytes <= region.size() - offset;
    return fits ? region.data() + offset : nullptr;
  }
  bool refuse(Rank rank) {
    failure_ = {
        rank, ErrorCode::kSystem,
        fmt::format("rank {} has sent what rank {} has no place for", rank, bootstrap_.rank())};
    return false;
  }
  /// After a call that gave nothing: there may be nothing to be had yet.
  void lose(Rank rank) {
    if (errno == EAGAIN || errno == EINTR || failure_) return;
    failure_ = {rank, ErrorCode::kPeerFailed,
                fmt::format("the connection of ranks {} and {} broke: {}", bootstrap_.rank(), rank,
                            std::strerror(errno))};
  }

  Bootstrap& bootstrap_;
  std::vector<Peer> peers_;
  std::vector<std::span<std::byte>> regions_;  ///< by key - 1
  uint64_t next_number_ = 0;
  size_t first_ = 0;
  std::optional<Failure> failure_;
  TransportCounters counters_;
};

/// How a rank is reached, and what whoever connects to it must know.
struct Address {
  char text[64] = "127.0.0.1";
  int port = 0;
  uint64_t secret = 0;
};
struct Hello {
  uint64_t secret = 0;
  Rank rank = -1;
};

/// Waits until something can be read, or written, or the job has failed.
Status await(Bootstrap& bootstrap, int socket, short events) {
  pollfd file{socket, events, 0};
  while (poll(&file, 1, kLookMs) <= 0) {
    if (const auto failure = bootstrap.failure()) return tl::unexpected(failure->error());
  }
  return {};
}

Status connect_to(Bootstrap& bootstrap, const Address& to, Peer& peer) {
  IBCOLL_ASSIGN(peer.socket, connect_network(to.text, to.port, kSilenceMs));
  IBCOLL_TRY(await(bootstrap, peer.socket.get(), POLLOUT));
  const Hello hello{to.secret, bootstrap.rank()};
  if (connect_error(peer.socket.get()) == 0 &&
      send(peer.socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello)
    return {};
  return fail_errno(fmt::format("{} port {}", to.text, to.port));
}

/// The next connection, if it is that of a rank.
Status accept_one(Bootstrap& bootstrap, ControlListener& listener, uint64_t secret,
                  std::vector<Peer>& peers) {
  IBCOLL_TRY(await(bootstrap, listener.fd(), POLLIN));
  IBCOLL_ASSIGN(UniqueFd socket, listener.accept());
  if (!socket.valid()) return {};
  pollfd file{socket.get(), POLLIN, 0};
  Hello hello;
  if (poll(&file, 1, kSilenceMs) == 1 &&
      recv(socket.get(), &hello, sizeof hello, 0) == sizeof hello && hello.secret == secret &&
      hello.rank > bootstrap.rank() && hello.rank < bootstrap.size())
    peers[static_cast<size_t>(hello.rank)].socket = std::move(socket);
  return {};
}

/// Ranks connect to those before them.
Result<std::vector<Peer>> connect_all(Bootstrap& bootstrap, ControlListener& listener,
                                      const std::vector<Address>& all) {
  const auto me = static_cast<size_t>(bootstrap.rank());
  std::vector<Peer> peers(all.size());
  for (size_t rank = 0; rank < me; ++rank)
    IBCOLL_TRY(connect_to(bootstrap, all[rank], peers[rank]));
  for (size_t rank = me + 1; rank < all.size(); ++rank) {
    while (!peers[rank].socket.valid())
      IBCOLL_TRY(accept_one(bootstrap, listener, all[me].secret, peers));
  }
  return peers;
}

Result<std::unique_ptr<NetworkTransport>> open(const NetworkSetup& setup) {
  Result<ControlListener> listener = ControlListener::network(kSilenceMs);
  Result<Address> mine = Address{};
  if (!listener) {
    mine = tl::unexpected(listener.error());
  } else {
    mine->port = listener->port();
    getrandom(&mine->secret, sizeof mine->secret, 0);
    const std::vector<std::string> addresses = own_addresses();
    if (!setup.on_one_machine() && !addresses.empty())
      std::memcpy(mine->text, addresses[0].c_str(), addresses[0].size() + 1);
  }
  IBCOLL_ASSIGN(const std::vector<Address> all, exchange(setup.bootstrap, "tcp", mine));
  Result<std::vector<Peer>> peers = connect_all(setup.bootstrap, *listener, all);
  if (!peers)
    setup.bootstrap.abort({setup.bootstrap.rank(), ErrorCode::kSystem, peers.error().message});
  IBCOLL_TRY(setup.bootstrap.barrier());
  return std::make_unique<Transport>(setup.bootstrap, std::move(*peers));
}

}  // namespace

NetworkKind network_kind() { return {.name = "tcp", .open = open, .costs_cores = true}; }

}  // namespace ibcoll::tcp
