#include "tcp/network_kind.h"

#include <cstring>

#include "engine/bootstrap/entrance.h"
#include "engine/transport/exchange.h"

namespace ibcoll::tcp {
namespace {

constexpr int kSilenceMs = 10'000, kLookMs = 100;
constexpr int kMostMails = 2;  // that the peer's poll has not taken

/// Frames on connections of these peers. kTaken: a mail has been.
constexpr FrameKind kPut{1}, kMail{2}, kTaken{3};

/// What stands before the data of a put.
struct Header {
  RemoteAddress target;
  uint64_t immediate = NetworkTransport::kNoSignal;
};

struct Peer {
  ControlConnection connection;   ///< none to this rank itself
  uint64_t call = 0, number = 0;  ///< of what was posted last
  int mails_out = 0;
  int mails_taken = 0;          ///< that the peer has not been told of
  std::vector<std::byte> mail;  ///< that the last poll has handed out, if it has
  bool has_mail = false;
};

/// Simple, not fast: frames are copies of what is posted, which is complete at once then, and
/// nothing is posted to a peer before the kernel has taken all of the frame before.
class Transport final : public NetworkTransport {
 public:
  Transport(Bootstrap& bootstrap, std::vector<Peer> peers)
      : bootstrap_(bootstrap), peers_(std::move(peers)) {
    counters_.queue_pairs = counters_.connections = peers_.size() - 1;
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
    if (at(peer).connection.unsent()) return false;
    const Header header{target, immediate};
    std::vector<std::byte> frame(sizeof header + bytes);
    std::memcpy(frame.data(), &header, sizeof header);
    if (bytes > 0) std::memcpy(frame.data() + sizeof header, source, bytes);
    post(peer, kPut, posts_for_, std::move(frame));
    counters_.count(bytes);
    return true;
  }
  bool signal(Rank peer, uint32_t immediate) override {
    return put(peer, nullptr, {}, {}, 0, immediate);
  }
  bool mail(Rank peer, std::span<const std::byte> bytes, size_t data_bytes) override {
    if (at(peer).connection.unsent() || at(peer).mails_out == kMostMails) return false;
    ++at(peer).mails_out;
    post(peer, kMail, posts_for_, {bytes.begin(), bytes.end()});
    if (data_bytes != kUncounted) counters_.count(data_bytes);
    return true;
  }

  size_t poll(std::span<Arrival> arrivals) override {
    size_t count = 0;
    for (size_t i = 0; i < peers_.size() && !failure_; ++i) {
      const auto rank = static_cast<Rank>((first_ + i) % peers_.size());
      Peer& peer = at(rank);
      if (!peer.connection.open()) continue;
      peer.connection.flush();
      peer.mails_taken += std::exchange(peer.has_mail, false) ? 1 : 0;
      for (; peer.mails_taken > 0 && !peer.connection.unsent(); --peer.mails_taken)
        post(rank, kTaken, 0, {});
      // One mail of a peer at most: its memory is the peer's.
      while (count < arrivals.size() && !peer.has_mail && take(rank, arrivals[count])) ++count;
    }
    ++first_;
    return count;
  }

  uint64_t posted(Rank) const override { return 0; }
  uint64_t completed(Rank) override { return 0; }
  uint64_t mark() override { return next_number_; }
  std::optional<Rank> held_by(uint64_t call, uint64_t before, RankSpan members) override {
    for (Rank rank = 0; rank < bootstrap_.size(); ++rank) {
      const Peer& last = at(rank);
      const bool is_member = std::count(members.begin(), members.end(), rank) > 0;
      if (last.connection.unsent() &&
          (last.call == call || (last.call == 0 && last.number < before && is_member)))
        return rank;
    }
    return std::nullopt;
  }
  std::optional<Failure> failure() const override { return failure_; }
  const TransportCounters& counters() const override { return counters_; }
  Status close() override {
    for (const Peer& peer : peers_) {
      while (peer.connection.unsent() && !failure_) {
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

  void post(Rank rank, FrameKind kind, uint64_t call, std::vector<std::byte> payload) {
    Peer& peer = at(rank);
    peer.call = call;
    peer.number = next_number_++;
    peer.connection.send(kind, bootstrap_.rank(),
                         std::make_shared<const std::vector<std::byte>>(std::move(payload)));
  }

  /// Whether something for the engine has come of it.
  bool take(Rank rank, Arrival& arrival) {
    Peer& peer = at(rank);
    while (true) {
      Result<std::optional<Frame>> taken = peer.connection.take();
      if (!taken) return lose(rank, taken.error().message);
      if (!*taken) return false;
      Frame& frame = **taken;
      Header header;
      if (frame.kind == kMail) {
        peer.mail = std::move(frame.payload);
        peer.has_mail = true;
        arrival = {Arrival::Kind::kMail, rank, 0, peer.mail};
        return true;
      }
      if (frame.kind == kTaken) {
        --peer.mails_out;
        continue;
      }
      if (!place(frame.payload, header))
        return lose(rank, "it has sent what there is no place for");
      if (header.immediate == NetworkTransport::kNoSignal) continue;
      arrival = {Arrival::Kind::kSignal, rank, static_cast<uint32_t>(header.immediate), {}};
      return true;
    }
  }

  /// False: this rank has not allowed it.
  bool place(std::span<const std::byte> frame, Header& header) {
    if (frame.size() < sizeof header) return false;
    std::memcpy(&header, frame.data(), sizeof header);
    const auto data = frame.subspan(sizeof header);
    const auto [address, key] = header.target;
    if (data.empty()) return true;
    if (key == 0 || key > regions_.size()) return false;
    const std::span<std::byte> region = regions_[key - 1];
    const uint64_t offset = address - reinterpret_cast<uint64_t>(region.data());
    if (offset > region.size() || data.size() > region.size() - offset) return false;
    std::memcpy(region.data() + offset, data.data(), data.size());
    return true;
  }
  bool lose(Rank rank, std::string_view why) {
    failure_ = {
        rank, ErrorCode::kPeerFailed,
        fmt::format("the connection of ranks {} and {} broke: {}", bootstrap_.rank(), rank, why)};
    return false;
  }

  Bootstrap& bootstrap_;
  std::vector<Peer> peers_;
  std::vector<std::span<std::byte>> regions_;  ///< by key - 1
  uint64_t next_number_ = 0;
  size_t first_ = 0;
  std::optional<Failure> failure_;
  TransportCounters counters_;
};

/// How a rank is reached. By the token of rank 0 ranks know each other.
struct Address {
  char text[64] = "127.0.0.1";
  int port = 0;
  JobToken token = {};
};

Result<Address> listen(ControlListener& listener) {
  IBCOLL_ASSIGN(listener, ControlListener::network(kSilenceMs));
  Address mine{.port = listener.port()};
  IBCOLL_ASSIGN(mine.token, random_token());
  if (const auto known = own_addresses(); !known.empty())
    std::memcpy(mine.text, known[0].c_str(), known[0].size() + 1);
  return mine;
}

/// Until one of them is ready, or for a while; fails if the job has.
Status wait(Bootstrap& bootstrap, std::vector<pollfd> files) {
  ::poll(files.data(), files.size(), kLookMs);
  if (const auto failure = bootstrap.failure()) return tl::unexpected(failure->error());
  return {};
}

/// Ranks connect to those before them.
Status connect(Bootstrap& bootstrap, ControlListener& listener, const std::vector<Address>& all,
               std::vector<Peer>& peers) {
  const Rank me = bootstrap.rank();
  for (Rank rank = 0; rank < me; ++rank) {
    const auto& [text, port, token] = all[static_cast<size_t>(rank)];
    IBCOLL_ASSIGN(Attempt attempt,
                  Attempt::begin(text, port, kSilenceMs, all[0].token, {me}, 0, Deadline::max()));
    HandshakeState state{};
    while ((state = attempt.advance()) == HandshakeState::kWaiting)
      IBCOLL_TRY(wait(bootstrap, {attempt.watch()}));
    if (state == HandshakeState::kRefused)
      return fail(ErrorCode::kSystem, "rank {} at {} port {} can't be reached", rank, text, port);
    peers[static_cast<size_t>(rank)].connection = std::move(attempt.handshake().connection());
  }
  Entrance entrance(all[0].token, me, all.size());
  for (size_t left = all.size() - 1 - static_cast<size_t>(me); left > 0;) {
    std::vector<pollfd> watched = {{listener.fd(), POLLIN, 0}};
    entrance.watch(watched);
    IBCOLL_TRY(wait(bootstrap, std::move(watched)));
    IBCOLL_TRY(entrance.open(listener, true));
    for (Entrance::Arrival& arrival : entrance.arrived()) {
      const auto rank = static_cast<size_t>(arrival.handshake.caller().rank);
      peers[rank].connection = arrival.handshake.welcome(0);
      --left;
    }
  }
  return {};
}

Result<std::unique_ptr<NetworkTransport>> open(const NetworkSetup& setup) {
  Bootstrap& bootstrap = setup.bootstrap;
  ControlListener listener;
  IBCOLL_ASSIGN(const std::vector<Address> all, exchange(bootstrap, "tcp", listen(listener)));
  std::vector<Peer> peers(all.size());
  const Status connected = connect(bootstrap, listener, all, peers);
  if (!connected)
    bootstrap.abort({bootstrap.rank(), ErrorCode::kSystem, connected.error().message});
  IBCOLL_TRY(bootstrap.barrier());
  return std::make_unique<Transport>(bootstrap, std::move(peers));
}

}  // namespace

NetworkKind network_kind() { return {.open = open, .costs_cores = true}; }

}  // namespace ibcoll::tcp
