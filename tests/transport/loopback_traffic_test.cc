// Random traffic between all pairs over the loopback; both sides know what is sent.

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <span>

#include "tests/transport/loopback_job.h"

namespace ibcoll {
namespace {

using namespace testing_loopback;

class LoopbackTraffic : public Loopback {};
INSTANTIATE_TEST_SUITE_P(, LoopbackTraffic, all_networks(), testing::named);

constexpr size_t kAreaBytes = 12 * 1024;
constexpr uint32_t kMessages = 48;
constexpr size_t kSources = 3;
constexpr size_t kGap = 100;  ///< between the segments of a put

/// The `index`-th message from one rank to another.
struct Message {
  enum Kind { kPlainPut, kSignalledPut, kToken, kMail } kind = kPlainPut;
  size_t offset = 0, bytes = 0;  ///< in the area of message `area`
  uint32_t area = 0;
  uint32_t index = 0;
  bool writes() const { return kind == kPlainPut || kind == kSignalledPut; }
};

/// What is sent over one pair: the same for sender and receiver.
class Stream {
 public:
  Stream(Rank from, Rank to) : random_(static_cast<uint32_t>(from * 1000 + to)) {}

  Message next() {
    Message message;
    message.index = index_;
    // The last one signals, so that everything gets checked.
    message.kind = index_ + 1 == kMessages ? Message::kSignalledPut
                                           : static_cast<Message::Kind>(random_() % 4);
    constexpr std::array<size_t, 6> kLongest = {1, 8, 64, 1000, 4096, kAreaBytes};
    message.bytes = random_() % (kLongest[random_() % kLongest.size()] + 1);
    if (message.kind == Message::kMail)
      message.bytes = 1 + message.bytes % NetworkTransport::kMaxMailBytes;
    message.offset = random_() % (kAreaBytes - message.bytes + 1);
    // Some puts write over the one before.
    message.area = index_ > 0 && random_() % 4 == 0 ? index_ - 1 : index_;
    ++index_;
    return message;
  }

 private:
  std::mt19937 random_;
  uint32_t index_ = 0;
};

/// One end of a pair that sends: few source buffers, spoiled as soon as they may be.
class Sender {
 public:
  Sender(Node& node, Rank to, RemoteAddress target)
      : node_(node), to_(to), target_(target), stream_(node.me(), to) {
    for (Source& source : sources_) {
      source.bytes.resize(kAreaBytes + node.net.max_put_segments() * kGap);
      source.key = node.net.register_memory(source.bytes.data(), source.bytes.size()).value();
    }
    message_ = stream_.next();
  }

  bool done() const { return sent_ == kMessages && idle_sources() == kSources; }

  /// Tries to go on.
  void work() {
    for (Source& source : sources_) {
      if (source.busy && node_.net.completed(to_) >= source.until) {
        source.busy = false;
        std::fill(source.bytes.begin(), source.bytes.end(), std::byte{0xee});
      }
    }
    if (sent_ == kMessages || !post()) return;
    ++sent_;
    if (sent_ < kMessages) message_ = stream_.next();
  }

 private:
  struct Source {
    std::vector<std::byte> bytes;
    MemoryKey key;
    uint64_t until = 0;
    bool busy = false;
  };

  size_t idle_sources() const {
    return static_cast<size_t>(std::count_if(sources_.begin(), sources_.end(),
                                             [](const Source& source) { return !source.busy; }));
  }

  /// Where the message stands in a source. Puts take more and more segments, as far as there are.
  std::vector<PutSegment> segments_in(const Source& source) const {
    const size_t wanted = message_.writes() ? 1 + message_.index % node_.net.max_put_segments() : 1;
    const size_t count = std::clamp<size_t>(message_.bytes, 1, wanted);
    std::vector<PutSegment> segments;
    for (size_t i = 0, begin = 0; i < count; ++i) {
      const size_t end = message_.bytes * (i + 1) / count;
      segments.push_back({source.bytes.data() + begin + i * kGap, end - begin});
      begin = end;
    }
    return segments;
  }

  bool post() {
    if (message_.kind == Message::kToken) return node_.net.signal(to_, message_.index);
    const auto source = std::find_if(sources_.begin(), sources_.end(),
                                     [](const Source& candidate) { return !candidate.busy; });
    if (source == sources_.end()) return false;
    const std::vector<PutSegment> segments = segments_in(*source);
    size_t written = 0;
    for (const PutSegment& segment : segments) {
      std::byte* const place = source->bytes.data() + (segment.source - source->bytes.data());
      for (size_t i = 0; i < segment.bytes; ++i)
        place[i] = content(node_.me(), to_, message_.index, written++);
    }
    if (message_.kind == Message::kMail)
      return node_.net.mail(to_, {source->bytes.data(), message_.bytes});
    const RemoteAddress target{target_.address + message_.area * kAreaBytes + message_.offset,
                               target_.key};
    const uint64_t immediate =
        message_.kind == Message::kSignalledPut ? message_.index : NetworkTransport::kNoSignal;
    if (!(segments.size() > 1
              ? node_.net.put_segments(to_, segments, source->key, target, immediate)
              : node_.net.put(to_, source->bytes.data(), source->key, target, message_.bytes,
                              immediate)))
      return false;
    source->until = node_.net.posted(to_);
    source->busy = true;
    return true;
  }

  Node& node_;
  const Rank to_;
  const RemoteAddress target_;
  Stream stream_;
  Message message_;
  uint32_t sent_ = 0;
  std::array<Source, kSources> sources_;
};

/// The other end: knows what must be in memory after each arrival.
class Receiver {
 public:
  Receiver(Rank from, Rank to, std::span<const std::byte> memory)
      : from_(from),
        to_(to),
        memory_(memory),
        stream_(from, to),
        expected_(memory.size(), kPoison),
        written_(memory.size(), false) {}

  bool done() const { return received_ == kMessages; }

  /// True if the arrival is the one that is due and everything before it is in place.
  bool take(const Arrival& arrival) {
    Message message = advance();
    while (message.kind == Message::kPlainPut) message = advance();
    if (message.kind == Message::kMail) {
      if (arrival.kind != Arrival::Kind::kMail || arrival.mail.size() != message.bytes)
        return false;
      for (size_t i = 0; i < message.bytes; ++i)
        if (arrival.mail[i] != content(from_, to_, message.index, i)) return false;
    } else if (arrival.kind != Arrival::Kind::kSignal || arrival.immediate != message.index) {
      return false;
    }
    return check();
  }

  /// True if nothing else was written. To be called when the sender is done.
  bool untouched_elsewhere() const {
    for (size_t i = 0; i < memory_.size(); ++i)
      if (!written_[i] && memory_[i] != kPoison) return false;
    return true;
  }

 private:
  Message advance() {
    const Message message = next_;
    if (++received_ < kMessages) next_ = stream_.next();
    if (message.writes()) {
      const size_t at = message.area * kAreaBytes + message.offset;
      for (size_t i = 0; i < message.bytes; ++i) {
        expected_[at + i] = content(from_, to_, message.index, i);
        written_[at + i] = true;
      }
      areas_.push_back(message.area);
    }
    return message;
  }

  /// Checks the areas written since the last arrival, but for one that the next message writes
  /// over: its data may be there already.
  bool check() {
    while (!areas_.empty()) {
      if (received_ < kMessages && next_.writes() && next_.area == areas_.front()) return true;
      const size_t at = areas_.front() * kAreaBytes;
      for (size_t i = at; i < at + kAreaBytes; ++i)
        if (written_[i] && memory_[i] != expected_[i]) return false;
      areas_.pop_front();
    }
    return true;
  }

  const Rank from_, to_;
  const std::span<const std::byte> memory_;
  Stream stream_;
  Message next_ = stream_.next();
  uint32_t received_ = 0;
  std::vector<std::byte> expected_;
  std::vector<bool> written_;
  std::deque<uint32_t> areas_;
};

int exchange_random_traffic(Node& node) {
  const auto ranks = static_cast<size_t>(node.size());
  constexpr size_t kPairBytes = kMessages * kAreaBytes;
  Exposed memory = expose(node, ranks * kPairBytes, kPoison);
  std::vector<Sender> senders;
  std::vector<Receiver> receivers;
  for (Rank peer = 0; peer < node.size(); ++peer) {
    RemoteAddress target = memory.peers[static_cast<size_t>(peer)];
    target.address += static_cast<size_t>(node.me()) * kPairBytes;
    senders.emplace_back(node, peer, target);
    receivers.emplace_back(
        peer, node.me(),
        std::span(memory.bytes).subspan(static_cast<size_t>(peer) * kPairBytes, kPairBytes));
  }
  const auto all_done = [](const auto& parts) {
    return std::all_of(parts.begin(), parts.end(), [](const auto& part) { return part.done(); });
  };
  std::array<Arrival, 5> arrivals;
  while (!all_done(senders) || !all_done(receivers)) {
    for (Sender& sender : senders) sender.work();
    const size_t arrived = node.net.poll(arrivals);
    for (size_t i = 0; i < arrived; ++i)
      CHECK_RANK(receivers[static_cast<size_t>(arrivals[i].from)].take(arrivals[i]));
    if (arrived == 0) std::this_thread::yield();
    CHECK_RANK(!node.net.failure());
    CHECK_RANK(!node.bootstrap.failure());
  }
  CHECK_RANK(node.net.close());
  for (const Receiver& receiver : receivers) CHECK_RANK(receiver.untouched_elsewhere());
  const TransportCounters& counters = node.net.counters();
  CHECK_RANK(counters.data_messages + counters.tokens == ranks * kMessages);
  CHECK_RANK(counters.queue_pairs == ranks);
  CHECK_RANK(counters.connections == ranks);
  CHECK_RANK(counters.gathers > 0 && counters.gathers < counters.data_messages);
  return kGood;
}

TEST_P(LoopbackTraffic, DeliversRandomTrafficInOrder) {
  EXPECT_EQ(run(5, 0, exchange_random_traffic), kGood);
}

TEST_P(LoopbackTraffic, KeepsItsPromisesWhateverTheAdversaryDoes) {
  for (const uint64_t seed : {1, 2, 3})
    EXPECT_EQ(run(4, seed, exchange_random_traffic), kGood) << seed;
}

TEST_P(LoopbackTraffic, FullKeepsItsPromisesForManySeeds) {
  for (uint64_t seed = 10; seed < 60; ++seed)
    EXPECT_EQ(run(2 + static_cast<int>(seed % 7), seed, exchange_random_traffic), kGood) << seed;
}

}  // namespace
}  // namespace ibcoll
