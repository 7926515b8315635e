#include "engine/transport/loopback.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/config.h"
#include "engine/base/pages.h"
#include "engine/transport/connection_slots.h"
#include "engine/transport/loopback_placer.h"
#include "engine/transport/loopback_queue.h"
#include "engine/transport/loopback_wire.h"

namespace ibcoll {
namespace {

using loopback::Entry;
using loopback::Kind;
using loopback::Placer;
using loopback::Post;
using loopback::Segments;
using loopback::SendQueue;
using loopback::Wire;

/// What one poll takes of a peer before it looks at the next.
constexpr uint32_t kEntriesPerPeer = 16;

/// How an adversarial network hands out what has arrived.
class Delivery {
 public:
  Delivery(uint64_t seed, Rank me) : seed_(seed), random_(~seed + static_cast<uint64_t>(me)) {}

  /// How much this poll hands out: everything, or little, or nothing for some polls and then much
  /// at once.
  size_t begin_poll(size_t room) {
    if (seed_ == 0) return room;
    if (silent_polls_ > 0) {
      --silent_polls_;
      return 0;
    }
    if (random_() % 8 == 0) silent_polls_ = random_() % 12;
    return random_() % 4 == 0 ? room : std::min<size_t>(room, 1 + random_() % 3);
  }
  bool skips_peer() { return seed_ != 0 && random_() % 3 == 0; }
  size_t first_word(size_t words) { return (seed_ == 0 ? turn_++ : random_()) % words; }
  int first_bit() { return static_cast<int>((seed_ == 0 ? turn_ : random_()) % 64); }
  uint32_t entries_of_peer() {
    return seed_ == 0 ? kEntriesPerPeer : static_cast<uint32_t>(1 + random_() % 3);
  }

 private:
  const uint64_t seed_;
  std::mt19937_64 random_;
  uint64_t silent_polls_ = 0;
  size_t turn_ = 0;
};

class Loopback final : public NetworkTransport, ConnectionSlots::Network {
 public:
  /// `connections`: how many it may have at a time; 0: any number. `fewest`: on any rank.
  Loopback(Bootstrap& bootstrap, Wire wire, Placer placer, bool bounce, uint64_t seed,
           uint32_t connections, uint32_t fewest)
      : bootstrap_(bootstrap),
        wire_(std::move(wire)),
        placer_(std::move(placer)),
        delivery_(seed, bootstrap.rank()),
        posted_(static_cast<size_t>(bootstrap.size())),
        ready_((posted_.size() + 63) / 64),
        bounce_(bounce),
        max_connections_(fewest) {
    handed_out_.reserve(posted_.size() * Wire::kMails);
    if (bounce || seed != 0)
      queue_ = std::make_unique<SendQueue>(wire_, bounce ? nullptr : &placer_, failures_, seed);
    ConnectionSlots::Network& network = *this;
    if (connections != 0) slots_.emplace(wire_.me(), wire_.ranks(), connections, network);
  }

  /// Where processes write into each other's memory, as they do unless the kernel forbids that.
  static NetworkMemory memory(const NetworkLoad& load) {
    NetworkMemory memory;
    memory.queue_pairs = load.open(load.outside);
    memory.max_connections = static_cast<uint32_t>(load.limit(load.outside));
    memory.items = {
        // Half of what it shares with each. Ranks send it mails as it sends them.
        {.part = MemoryPart::kQueuePairs,
         .what = "pairs of the software network",
         .bytes = load.connections * Wire::couple_bytes() / 2 +
                  load.mailed * Wire::long_mail_bytes(load.longest_mail)},
        {.part = MemoryPart::kQueuePairs,
         .what = "registrations with the software network",
         .bytes = load.connections == 0 ? 0 : page_bytes()},
        table_of_ranks("peers of the software network", load.ranks,
                       Wire::bytes_each_rank() + sizeof(Posted) + Wire::kMails * sizeof(Rank),
                       "indexed by rank: any may send"),
        table_of_ranks("processes of the software network", load.ranks, Placer::bytes_each_rank(),
                       "a put goes by the process number of its target"),
    };
    return memory;
  }

  const char* name() const override { return bounce_ ? "loopback (bounce)" : "loopback"; }

  Result<MemoryKey> register_memory(void* base, size_t bytes) override {
    IBCOLL_ASSIGN(const uint64_t key, wire_.register_range(base, bytes));
    ++counters_.registrations;
    return MemoryKey{key, key, 0};
  }
  void deregister_memory(const MemoryKey& key) override { wire_.deregister(key.local); }

  bool put(Rank peer, const void* source, const MemoryKey& source_key, RemoteAddress target,
           size_t bytes, uint64_t immediate) override {
    const PutSegment segment{static_cast<const std::byte*>(source), bytes};
    return put_all(peer, {&segment, bytes == 0 ? size_t{0} : 1}, source_key, target, immediate);
  }
  size_t max_put_segments() const override { return loopback::kMaxSegments; }
  bool put_segments(Rank peer, Segments segments, const MemoryKey& source_key, RemoteAddress target,
                    uint64_t immediate) override {
    if (segments.empty() || segments.size() > loopback::kMaxSegments) {
      failures_.set({wire_.me(), ErrorCode::kInternal,
                     fmt::format("rank {} puts {} segments to rank {}: from 1 to {} are taken",
                                 wire_.me(), segments.size(), peer, loopback::kMaxSegments)});
      segments = {};
    }
    if (!put_all(peer, segments, source_key, target, immediate)) return false;
    if (segments.size() > 1) ++counters_.gathers;
    return true;
  }

  bool signal(Rank peer, uint32_t immediate) override {
    return put(peer, nullptr, {}, {}, 0, immediate);
  }

  bool mail(Rank peer, std::span<const std::byte> bytes, size_t data_bytes) override {
    if (bytes.size() > kMaxMailBytes) {
      failures_.set({wire_.me(), ErrorCode::kInternal,
                     fmt::format("rank {} sends rank {} a mail of {} bytes: at most {} fit",
                                 wire_.me(), peer, bytes.size(), kMaxMailBytes)});
    }
    const bool broken = drops(peer);
    if (!broken && (!may_send(peer) || refused_for_no_reason(Room::kMail))) return false;
    if (!broken && !(queue_ ? queue_->post_mail(peer, bytes) : deliver_mail(peer, bytes)))
      return false;
    count(peer, data_bytes, broken);
    return true;
  }

  size_t poll(std::span<Arrival> arrivals) override {
    for (const Rank peer : handed_out_) wire_.release_mail(peer);
    handed_out_.clear();
    if (queue_) queue_->progress();
    has_suspects_ = failures_.has_suspects();
    const size_t arrived = receive(arrivals);
    const bool again = slots_ && advance_connections();
    // What is still to do must not wait until a peer rings.
    const bool more = std::any_of(ready_.begin(), ready_.end(), [](uint64_t w) { return w != 0; });
    if (more || again) ring(wire_.bell(wire_.me()));
    return arrived;
  }

  uint64_t posted(Rank peer) const override { return posted_[index(peer)].posted; }
  uint64_t completed(Rank peer) override {
    if (queue_ && failures_.present()) queue_->abandon();
    if (!queue_ || drops(peer)) return posted_[index(peer)].posted;
    queue_->progress();
    return queue_->completed(peer);
  }

  void withdraw() override {
    if (queue_) queue_->abandon();
  }
  bool wake_on_arrival(Bell&) override { return true; }  // whoever delivers rings the bell
  bool needs_polls() const override { return slots_.has_value(); }
  uint32_t max_connections() const override { return max_connections_; }
  bool survives_deaths() const override { return true; }
  void lose(Rank peer) override {
    posted_[index(peer)].lost = true;
    part(peer);
  }
  void part(Rank peer) override {
    Posted& state = posted_[index(peer)];
    const bool known = std::exchange(state.parted, true);
    if (queue_ && !known) queue_->lose(peer);
    failures_.forget(peer);  // nothing is put to it any more
    has_suspects_ = failures_.has_suspects();
    if (known) return;
    if (slots_) {
      slots_->lose(peer);
      counters_.connections = slots_->taken();
    } else if (state.connected) {
      --counters_.connections;
    }
  }
  std::optional<Failure> failure() const override {
    if (has_suspects_) [[unlikely]] {
      if (auto due = failures_.due(bootstrap_)) return due;
    }
    return failures_.get();
  }
  const TransportCounters& counters() const override { return counters_; }
  std::vector<NamedCounter> details() const override {
    if (!slots_) return {};
    return {{"connections_closed", slots_->closed()}};
  }

  void drain(int64_t longest_ns) override {
    const int64_t until = now_ns() + longest_ns;
    std::array<Arrival, 16> unwanted;
    while (queue_ && queue_->busy() && now_ns() < until) {
      poll(unwanted);
      sched_yield();
    }
  }

  Status close() override {
    IBCOLL_TRY(wait([this] { return !queue_ || !queue_->busy(); }));
    wire_.finished().fetch_add(1, std::memory_order_acq_rel);
    for (Rank peer = 0; peer < bootstrap_.size(); ++peer) ring(wire_.bell(peer));
    // Peers may still need this rank to take what they send.
    IBCOLL_TRY(wait([this] {
      return wire_.finished().load(std::memory_order_acquire) >=
             static_cast<uint32_t>(bootstrap_.size());
    }));
    queue_.reset();
    return bootstrap_.barrier();
  }

 private:
  struct Posted {
    uint64_t posted = 0;
    bool used = false;       ///< something that counts was sent to the peer
    bool connected = false;  ///< anything was sent to it, or came from it
    bool lost = false;       ///< it has died
    bool parted = false;     ///< so it has, or it has left: nothing is sent to it
  };

  static size_t index(Rank rank) { return static_cast<size_t>(rank); }

  void wake() override { ring(wire_.bell(wire_.me())); }
  bool has_arrived(Rank peer) override { return completed(peer) == posted(peer); }
  bool tell(Rank peer, ConnectionSlots::Word word) override {
    Post post;
    post.delivers = true;
    post.entry = {Kind::kWord, static_cast<uint32_t>(word)};
    if (!(queue_ ? queue_->post(peer, post) : place_and_deliver(peer, post))) return false;
    ++posted_[index(peer)].posted;
    return true;
  }
  /// Like a queue pair in its error state: takes everything, does nothing.
  bool drops(Rank peer) const {
    return failures_.present() || posted_[index(peer)].parted ||
           (failures_.has_suspects() && failures_.suspects(peer));
  }
  bool may_send(Rank peer) { return !slots_ || slots_->may_send(peer); }
  bool advance_connections() {
    if (failures_.present()) return false;
    const bool again = slots_->advance();
    counters_.connections = slots_->taken();
    return again;
  }
  void take_word(Rank peer, uint32_t word) {
    if (posted_[index(peer)].parted) return;
    if (slots_ && slots_->heard(peer, static_cast<ConnectionSlots::Word>(word))) return;
    make_no_sense(peer);
  }
  void make_no_sense(Rank peer) {
    failures_.set(
        {wire_.me(), ErrorCode::kInternal,
         fmt::format("rank {} got something of rank {} without a connection", wire_.me(), peer)});
  }

  bool put_all(Rank peer, Segments segments, const MemoryKey& source_key, RemoteAddress target,
               uint64_t immediate) {
    Post post;
    post.delivers = immediate != kNoSignal;
    post.entry = {Kind::kSignal, static_cast<uint32_t>(immediate)};
    post.target = target;
    for (const PutSegment& segment : segments) {
      post.segments[post.segment_count++] = segment;
      post.bytes += segment.bytes;
      check_source(segment, source_key);
    }
    const bool broken = drops(peer);
    if (!broken &&
        (!may_send(peer) || refused_for_no_reason(post.bytes == 0 ? Room::kSignal : Room::kPut)))
      return false;
    if (!broken && !(queue_ ? queue_->post(peer, post) : place_and_deliver(peer, post)))
      return false;
    count(peer, post.bytes, broken);
    return true;
  }

  void check_source(const PutSegment& segment, const MemoryKey& key) {
    const auto address = reinterpret_cast<uint64_t>(segment.source);
    if (wire_.accessible(wire_.me(), key.local, address, segment.bytes)) return;
    failures_.set({wire_.me(), ErrorCode::kSystem,
                   fmt::format("local protection error: rank {} put {} bytes from {:#x} with key "
                               "{:#x}: no registration covers them",
                               wire_.me(), segment.bytes, address, key.local)});
  }

  void count(Rank peer, size_t bytes, bool broken) {
    Posted& state = posted_[index(peer)];
    ++state.posted;
    if (!slots_)
      connect(state);
    else if (!broken)
      slots_->sent(peer);
    if (broken || bytes == kUncounted) return;
    if (!state.used) ++counters_.queue_pairs;
    state.used = true;
    counters_.count(bytes);
  }

  void connect(Posted& state) {
    if (state.connected || state.parted) [[likely]]
      return;
    state.connected = true;
    ++counters_.connections;
  }

  bool place_and_deliver(Rank peer, const Post& post) {
    if (post.delivers && !wire_.has_room(peer)) return false;
    if (post.bytes > 0 && !place(peer, post)) return true;
    return !post.delivers || wire_.push(peer, post.entry);
  }

  bool place(Rank peer, const Post& post) {
    const RemoteAddress& target = post.target;
    std::optional<Error> error;
    if (wire_.accessible(peer, target.key, target.address, post.bytes))
      error = placer_.place(peer, target.address, post.source(), 0, post.bytes);
    else
      error = Error{ErrorCode::kSystem, "no registration covers them"};
    if (error)
      failures_.note_of_peer(
          loopback::remote_access_error(wire_.me(), peer, target, post.bytes, *error));
    return !error;
  }

  bool deliver_mail(Rank peer, std::span<const std::byte> bytes) {
    if (!wire_.has_room(peer) || !wire_.has_room_for_mail(peer)) return false;
    return wire_.push(peer, wire_.write_mail(peer, bytes));
  }

  size_t receive(std::span<Arrival> arrivals) {
    wire_.collect_pending(ready_);
    const size_t room = delivery_.begin_poll(arrivals.size());
    size_t arrived = 0;
    const size_t first_word = delivery_.first_word(ready_.size());
    for (size_t i = 0; i < ready_.size() && arrived < room; ++i) {
      const size_t word = (first_word + i) % ready_.size();
      const int turn = delivery_.first_bit();
      for (uint64_t bits = std::rotr(ready_[word], turn); bits != 0 && arrived < room;) {
        const int bit = std::countr_zero(bits);
        bits &= bits - 1;
        const int sender = (bit + turn) % 64;
        if (delivery_.skips_peer()) continue;
        if (take_from(static_cast<Rank>(word * 64) + sender, arrivals.first(room), arrived))
          ready_[word] &= ~(uint64_t{1} << sender);
      }
    }
    return arrived;
  }

  /// True if there is nothing left of that peer.
  bool take_from(Rank peer, std::span<Arrival> arrivals, size_t& arrived) {
    bool empty = false;
    if (posted_[index(peer)].lost) [[unlikely]]
      return true;
    if (!slots_) connect(posted_[index(peer)]);
    for (uint32_t left = delivery_.entries_of_peer(); left > 0 && arrived < arrivals.size();
         --left) {
      const std::optional<Entry> entry = wire_.pop(peer);
      if (!entry) {
        empty = true;
        break;
      }
      if (entry->kind == Kind::kWord) {
        take_word(peer, entry->value);
        continue;
      }
      if (slots_ && !posted_[index(peer)].parted && !slots_->received(peer)) make_no_sense(peer);
      if (entry->kind == Kind::kData) {
        wire_.end_data(peer, place_arrived(wire_.data_of(peer)));
        continue;
      }
      Arrival& arrival = arrivals[arrived++];
      arrival = {};
      arrival.from = peer;
      if (entry->kind == Kind::kSignal) {
        arrival.immediate = entry->value;
      } else {
        arrival.kind = Arrival::Kind::kMail;
        arrival.mail = wire_.mail_of(peer, *entry);
        handed_out_.push_back(peer);
      }
    }
    wire_.end_pops(peer);
    return empty;
  }

  bool place_arrived(const loopback::DataSlot& slot) {
    if (!wire_.accessible(wire_.me(), slot.key, slot.address, slot.bytes)) return false;
    std::copy_n(slot.data, slot.bytes, reinterpret_cast<std::byte*>(slot.address));
    return true;
  }

  template <class Condition>
  Status wait(Condition condition) {
    std::array<Arrival, 16> unwanted;
    const uint32_t ends = bootstrap_.ends_noted();
    for (int round = 0; !condition(); ++round) {
      poll(unwanted);
      if (bootstrap_.ends_noted() != ends)
        return fail(ErrorCode::kPeerFailed, "a rank has died while all were to leave");
      for (const auto& failure : {failures_.get(), bootstrap_.failure()})
        if (failure) return tl::unexpected<Error>(failure->error());
      if (round < 1000)
        sched_yield();
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {};
  }

  Bootstrap& bootstrap_;
  Wire wire_;
  Placer placer_;
  loopback::Failures failures_;
  Delivery delivery_;
  std::vector<Posted> posted_;
  std::vector<uint64_t> ready_;   ///< senders known to have sent something
  std::vector<Rank> handed_out_;  ///< senders of the mails that the last poll handed out
  TransportCounters counters_;
  const bool bounce_;
  const uint32_t max_connections_;
  std::optional<ConnectionSlots> slots_;  ///< none: as many connections as are used
  std::unique_ptr<SendQueue> queue_;      ///< last: its thread uses what is above
};

}  // namespace

Result<LoopbackOptions> loopback_options_from_environment(uint64_t seed) {
  using Placing = LoopbackOptions::Placing;
  IBCOLL_ASSIGN(const std::string placing, config_choice("IBCOLL_LOOPBACK_PLACING"));
  return LoopbackOptions{placing == "direct"   ? Placing::kDirect
                         : placing == "bounce" ? Placing::kBounce
                                               : Placing::kAuto,
                         seed};
}

Result<std::unique_ptr<NetworkTransport>> create_loopback(Bootstrap& bootstrap,
                                                          std::span<Bell> bells,
                                                          std::span<const WatchedProcess> processes,
                                                          const Result<LoopbackOptions>& wanted) {
  using Placing = LoopbackOptions::Placing;
  if (bells.size() != static_cast<size_t>(bootstrap.size())) {
    return fail(ErrorCode::kInvalidArgument, "{} bells for {} ranks", bells.size(),
                bootstrap.size());
  }
  IBCOLL_ASSIGN(Placer placer, Placer::create(bootstrap, processes));
  struct Told {
    bool unreadable, works, direct, bounce;
    uint32_t connections;
  };
  const LoopbackOptions options = wanted.value_or(LoopbackOptions{});
  const Told mine{
      !wanted, placer.works(), options.placing == Placing::kDirect,
      options.placing == Placing::kBounce || (options.placing == Placing::kAuto && !placer.works()),
      options.connections};
  std::vector<Told> all(bells.size());
  IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, all.data()));
  if (!wanted) return tl::unexpected<Error>(wanted.error());
  // All ranks place data in the same way: as the most restricted one can.
  bool bounce = false, direct = false;
  uint32_t fewest = 0;
  for (const Told& told : all) {
    bounce |= told.bounce;
    direct |= told.direct;
    fewest = least_limit(fewest, told.connections);
  }
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].unreadable)
      return fail(ErrorCode::kInvalidArgument, "rank {} can't read its IBCOLL_LOOPBACK_PLACING",
                  rank);
    if (direct && !all[rank].works) {
      return fail(ErrorCode::kUnsupported, "rank {} may not write into its peers' memory{}{}", rank,
                  placer.works() ? "" : ": ", placer.why_not());
    }
  }
  IBCOLL_ASSIGN(Wire wire, Wire::create(bootstrap, bells, bounce));
  const uint32_t connections =
      fewest != 0 && options.connections == 0 ? UINT32_MAX : options.connections;
  return std::make_unique<Loopback>(bootstrap, std::move(wire), std::move(placer), bounce,
                                    options.seed, connections, fewest);
}

namespace {

Result<std::unique_ptr<NetworkTransport>> open_loopback(const NetworkSetup& setup) {
  if (!setup.on_one_machine()) {
    return fail(ErrorCode::kUnsupported,
                "the loopback joins emulated servers of one machine; these ranks run on several");
  }
  Result<LoopbackOptions> options = loopback_options_from_environment(setup.loopback_seed);
  if (options) options->connections = setup.most_connections();
  return create_loopback(setup.bootstrap, setup.bells, setup.processes, options);
}

}  // namespace

NetworkKind loopback_kind() {
  return {.name = "loopback",
          .open = open_loopback,
          .memory = [](const NetworkLoad& load) -> Result<NetworkMemory> {
            return Loopback::memory(load);
          },
          .on_one_machine = true};
}

}  // namespace ibcoll
