#include "studies/task_graph/run/package_channel.h"

#include <sched.h>

#include <array>
#include <set>

#include "studies/task_graph/run/exchange_addresses.h"

namespace ibcoll::task_graph {

namespace {

/// Where each message lies among those this rank sends, or receives.
struct ChannelPlaces {
  std::vector<int64_t> offset;  ///< by message; in results
  int64_t total = 0;
};

ChannelPlaces places(const TaskSchedule& schedule, ProcessorId PackedMessage::*end,
                     ProcessorId rank) {
  ChannelPlaces result;
  result.offset.resize(schedule.messages.size(), 0);
  for (size_t id = 0; id < schedule.messages.size(); ++id) {
    if (schedule.messages[id].*end != rank) continue;
    result.offset[id] = result.total;
    result.total += schedule.messages[id].count;
  }
  return result;
}

/// Memory for the results that go out and come in.
class Boxes {
 public:
  Boxes(const TaskSchedule& schedule, ProcessorId rank)
      : schedule_(schedule),
        out_(places(schedule, &PackedMessage::from, rank)),
        in_(places(schedule, &PackedMessage::to, rank)),
        memory_(static_cast<size_t>(out_.total + in_.total) + 1) {}
  std::span<double> outgoing(MessageId id) {
    return {memory_.data() + out_.offset[id], static_cast<size_t>(schedule_.messages[id].count)};
  }
  std::span<double> incoming(MessageId id) {
    return {memory_.data() + out_.total + in_.offset[id],
            static_cast<size_t>(schedule_.messages[id].count)};
  }
  double* inbox() { return memory_.data() + out_.total; }
  std::vector<double>& memory() { return memory_; }

 private:
  const TaskSchedule& schedule_;
  ChannelPlaces out_, in_;
  std::vector<double> memory_;
};

class NetworkChannel final : public PackageChannel {
 public:
  NetworkChannel(Bootstrap& bootstrap, NetworkTransport& network, const TaskSchedule& schedule)
      : bootstrap_(bootstrap),
        network_(network),
        schedule_(schedule),
        boxes_(schedule, bootstrap.rank()),
        arrived_(schedule.messages.size(), false) {}

  ~NetworkChannel() override {
    for (size_t rank = 0; rank < peers_.size(); ++rank) {
      if (static_cast<Rank>(rank) != bootstrap_.rank())
        network_.release_key(static_cast<Rank>(rank), peers_[rank].key);
    }
    if (registered_) network_.deregister_memory(key_);
  }

  Status open() {
    IBCOLL_ASSIGN(key_, network_.register_memory(boxes_.memory().data(),
                                                 boxes_.memory().size() * sizeof(double)));
    registered_ = true;
    IBCOLL_ASSIGN(peers_, exchange_addresses(bootstrap_, network_, boxes_.inbox(), key_));
    // Where each message goes in its receiver's inbox: every rank counts alike.
    std::vector<int64_t> used(peers_.size(), 0);
    for (const PackedMessage& message : schedule_.messages) {
      target_.push_back(static_cast<uint64_t>(used[message.to]) * sizeof(double));
      used[message.to] += message.count;
    }
    return greet();
  }

  std::span<double> outgoing(MessageId message) override { return boxes_.outgoing(message); }

  bool send(MessageId id) override {
    const PackedMessage& message = schedule_.messages[id];
    const RemoteAddress& peer = peers_[message.to];
    const bool posted = network_.put(
        message.to, boxes_.outgoing(id).data(), key_, {peer.address + target_[id], peer.key},
        static_cast<size_t>(message.count) * sizeof(double), static_cast<uint64_t>(id));
    if (posted)
      network_.flush();
    else
      progress();
    return posted;
  }

  std::span<const double> receive(MessageId id) override {
    if (!arrived_[id]) progress();
    if (!arrived_[id]) return {};
    return boxes_.incoming(id);
  }

  Status reset() override {
    // Everything received was polled before, so only completions of own puts can be open.
    const Rank me = bootstrap_.rank();
    for (const PackedMessage& message : schedule_.messages) {
      if (message.from != me) continue;
      while (network_.completed(message.to) < network_.posted(message.to)) {
        IBCOLL_TRY(health());
        progress();
      }
    }
    std::fill(arrived_.begin(), arrived_.end(), false);
    return bootstrap_.barrier();
  }

  Status health() const override {
    for (const auto& failure : {network_.failure(), bootstrap_.failure()}) {
      if (failure) return fail(failure->code, "{}", failure->what);
    }
    return {};
  }

 private:
  /// Exchanges a signal with everyone that messages go to or come from. Networks connect on the
  /// first post, and both ends must poll for that: later on a rank may compute for long, or wait
  /// for something else, before it polls.
  Status greet() {
    const Rank me = bootstrap_.rank();
    std::set<Rank> left;
    for (const PackedMessage& message : schedule_.messages) {
      if (message.from == me) left.insert(message.to);
      if (message.to == me) left.insert(message.from);
    }
    const size_t peers = left.size();
    while (!left.empty() || greetings_ < peers) {
      std::erase_if(left, [&](Rank peer) {
        return network_.signal(peer, static_cast<uint32_t>(schedule_.messages.size()));
      });
      network_.flush();
      progress();
      IBCOLL_TRY(health());
      sched_yield();
    }
    return {};
  }

  void progress() {
    std::array<Arrival, 16> arrivals;
    const size_t count = network_.poll(arrivals);
    for (size_t i = 0; i < count; ++i) {
      if (arrivals[i].kind != Arrival::Kind::kSignal) continue;
      if (arrivals[i].immediate < arrived_.size())
        arrived_[arrivals[i].immediate] = true;
      else
        ++greetings_;
    }
  }

  Bootstrap& bootstrap_;
  NetworkTransport& network_;
  const TaskSchedule& schedule_;
  Boxes boxes_;
  MemoryKey key_;
  bool registered_ = false;
  std::vector<RemoteAddress> peers_;
  std::vector<uint64_t> target_;  ///< by message: bytes into the receiver's inbox
  std::vector<bool> arrived_;
  size_t greetings_ = 0;
};

class LocalChannel final : public PackageChannel {
 public:
  LocalChannel(Bootstrap& bootstrap, LocalTransport& transport, const TaskSchedule& schedule)
      : bootstrap_(bootstrap),
        transport_(transport),
        schedule_(schedule),
        boxes_(schedule, bootstrap.rank()),
        received_(schedule.messages.size(), 0),
        state_(schedule.messages.size(), Pull::kNotYet) {
    for (size_t id = 0; id < schedule.messages.size(); ++id) {
      if (schedule.messages[id].to == bootstrap.rank())
        incoming_.push_back(static_cast<MessageId>(id));
    }
  }

  std::span<double> outgoing(MessageId message) override { return boxes_.outgoing(message); }

  bool send(MessageId id) override {
    const PackedMessage& message = schedule_.messages[id];
    uint32_t ticket = 0;
    const Offer offer =
        transport_.offer(message.to, key(id), boxes_.outgoing(id).data(), bytes(id), ticket);
    if (offer == Offer::kPending) pending_.emplace_back(message.to, ticket);
    if (offer == Offer::kNoMemory) broken_ = true;
    if (offer == Offer::kNoRoom) take_what_is_there();
    return offer == Offer::kDone || offer == Offer::kPending;
  }

  std::span<const double> receive(MessageId id) override {
    if (state_[id] != Pull::kDone) {
      transport_.poll();
      state_[id] = transport_.pull(schedule_.messages[id].from, key(id), boxes_.incoming(id).data(),
                                   bytes(id), false, received_[id]);
      if (state_[id] == Pull::kMismatch || state_[id] == Pull::kFailed) broken_ = true;
      if (state_[id] != Pull::kDone) return {};
    }
    return boxes_.incoming(id);
  }

  Status reset() override {
    for (const auto& [peer, ticket] : pending_) {
      while (!transport_.completed(peer, ticket)) {
        IBCOLL_TRY(health());
        transport_.poll();
      }
    }
    pending_.clear();
    std::fill(received_.begin(), received_.end(), 0);
    std::fill(state_.begin(), state_.end(), Pull::kNotYet);
    ++run_;
    return bootstrap_.barrier();
  }

  Status health() const override {
    if (broken_) return fail(ErrorCode::kPeerFailed, "{}", transport_.trouble());
    if (const auto failure = bootstrap_.failure()) return fail(failure->code, "{}", failure->what);
    return {};
  }

 private:
  MessageKey key(MessageId id) const {
    constexpr uint64_t kGroup = 0x5350504300000000;  // "SPPC": not a communicator's
    return {.group = kGroup + run_, .sequence = static_cast<uint32_t>(id)};
  }
  /// Takes messages before their turn, so that peers whose rings to here are full get on: two ranks
  /// that only send would wait for each other.
  void take_what_is_there() {
    transport_.poll();
    for (MessageId id : incoming_) {
      if (state_[id] != Pull::kDone) receive(id);
    }
  }
  size_t bytes(MessageId id) const {
    return static_cast<size_t>(schedule_.messages[id].count) * sizeof(double);
  }

  Bootstrap& bootstrap_;
  LocalTransport& transport_;
  const TaskSchedule& schedule_;
  Boxes boxes_;
  std::vector<MessageId> incoming_;
  std::vector<size_t> received_;  ///< by message: bytes so far, kept for pull()
  std::vector<Pull> state_;
  std::vector<std::pair<Rank, uint32_t>> pending_;
  uint64_t run_ = 0;
  bool broken_ = false;
};

}  // namespace

Result<std::unique_ptr<PackageChannel>> create_network_channel(Bootstrap& bootstrap,
                                                               NetworkTransport& network,
                                                               const TaskSchedule& schedule) {
  auto channel = std::make_unique<NetworkChannel>(bootstrap, network, schedule);
  IBCOLL_TRY(channel->open());
  return channel;
}

Result<std::unique_ptr<PackageChannel>> create_local_channel(Bootstrap& bootstrap,
                                                             LocalTransport& transport,
                                                             const TaskSchedule& schedule) {
  IBCOLL_TRY(bootstrap.barrier());
  return std::make_unique<LocalChannel>(bootstrap, transport, schedule);
}

}  // namespace ibcoll::task_graph
