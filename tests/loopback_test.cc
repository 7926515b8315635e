#include "engine/transport/loopback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/shared_region.h"

namespace ibcoll {
namespace {

using Placing = LoopbackOptions::Placing;

/// What a rank found out, told to the test by its exit status; texts go to stderr.
enum Outcome { kGood = 0, kWrong = 71 };

#define CHECK_RANK(condition)                                                      \
  do {                                                                             \
    if (!(condition)) {                                                            \
      fmt::print(stderr, "{}:{}: not true: {}\n", __FILE__, __LINE__, #condition); \
      return kWrong;                                                               \
    }                                                                              \
  } while (false)

struct Network {
  const char* name;
  bool threads;
  Placing placing;
};

/// One rank's view in a test.
struct Node {
  Bootstrap& bootstrap;
  NetworkTransport& net;
  Bell& bell;
  Rank me() const { return bootstrap.rank(); }
  int size() const { return bootstrap.size(); }
};

class Loopback : public ::testing::TestWithParam<Network> {
 protected:
  /// Runs `main` on each rank with a transport; kGood if all return kGood.
  int run(int ranks, uint64_t seed, const std::function<int(Node&)>& main) {
    const auto body = [&](Bootstrap& bootstrap) -> int {
      auto region =
          SharedRegion::create(bootstrap, 0, sizeof(Bell) * static_cast<size_t>(ranks), "bells");
      CHECK_RANK(region.has_value());
      const std::span bells(reinterpret_cast<Bell*>(region->data()), static_cast<size_t>(ranks));
      auto net = create_loopback(bootstrap, bells, {GetParam().placing, seed});
      if (!net) fmt::print(stderr, "{}\n", net.error().message);
      CHECK_RANK(net.has_value());
      Node node{bootstrap, **net, bells[static_cast<size_t>(bootstrap.rank())]};
      return main(node);
    };
    LaunchOptions options;
    options.ranks = ranks;
    return GetParam().threads ? launch_threads(ranks, body).value()
                              : launch_processes(options, body).value();
  }
};

INSTANTIATE_TEST_SUITE_P(, Loopback,
                         ::testing::Values(Network{"processes", false, Placing::kDirect},
                                           Network{"processes_bounce", false, Placing::kBounce},
                                           Network{"threads", true, Placing::kDirect},
                                           Network{"threads_bounce", true, Placing::kBounce}),
                         [](const auto& info) { return info.param.name; });

/// A buffer of this rank and where its peers find theirs.
struct Registered {
  std::vector<std::byte> bytes;
  MemoryKey key;
  std::vector<RemoteAddress> peers;
};

Registered expose(Node& node, size_t bytes, std::byte fill) {
  Registered memory{std::vector<std::byte>(bytes, fill), {}, {}};
  memory.key = node.net.register_memory(memory.bytes.data(), bytes).value();
  const RemoteAddress mine{reinterpret_cast<uint64_t>(memory.bytes.data()), memory.key.remote};
  memory.peers.resize(static_cast<size_t>(node.size()));
  if (!node.bootstrap.allgather(&mine, sizeof mine, memory.peers.data())) std::abort();
  return memory;
}

/// Polls until `count` arrivals came.
std::vector<Arrival> await(Node& node, size_t count) {
  std::vector<Arrival> all;
  std::array<Arrival, 4> some;
  while (all.size() < count && !node.bootstrap.failure()) {
    const size_t arrived = node.net.poll(some);
    all.insert(all.end(), some.begin(), some.begin() + static_cast<ptrdiff_t>(arrived));
    if (arrived == 0) std::this_thread::yield();
  }
  return all;
}

// ---- Stress: random traffic between all pairs, both sides know what is sent. ----

constexpr std::byte kPoison{0xa5};
constexpr size_t kAreaBytes = 12 * 1024;
constexpr uint32_t kMessages = 48;
constexpr size_t kSources = 3;

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

std::byte content(Rank from, Rank to, uint32_t index, size_t i) {
  return static_cast<std::byte>(
      (static_cast<size_t>(from) * 31 + static_cast<size_t>(to) * 17 + index * 7 + i * 3) % 251);
}

/// One end of a pair that sends: few source buffers, spoiled as soon as they may be.
class Sender {
 public:
  Sender(Node& node, Rank to, RemoteAddress target)
      : node_(node), to_(to), target_(target), stream_(node.me(), to) {
    for (Source& source : sources_) {
      source.bytes.resize(kAreaBytes);
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

  bool post() {
    if (message_.kind == Message::kToken) return node_.net.signal(to_, message_.index);
    const auto source = std::find_if(sources_.begin(), sources_.end(),
                                     [](const Source& candidate) { return !candidate.busy; });
    if (source == sources_.end()) return false;
    for (size_t i = 0; i < message_.bytes; ++i)
      source->bytes[i] = content(node_.me(), to_, message_.index, i);
    if (message_.kind == Message::kMail)
      return node_.net.mail(to_, {source->bytes.data(), message_.bytes});
    const RemoteAddress target{target_.address + message_.area * kAreaBytes + message_.offset,
                               target_.key};
    const uint64_t immediate =
        message_.kind == Message::kSignalledPut ? message_.index : NetworkTransport::kNoSignal;
    if (!node_.net.put(to_, source->bytes.data(), source->key, target, message_.bytes, immediate))
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
  Registered memory = expose(node, ranks * kPairBytes, kPoison);
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
  return kGood;
}

TEST_P(Loopback, DeliversRandomTrafficInOrder) {
  EXPECT_EQ(run(5, 0, exchange_random_traffic), kGood);
}

TEST_P(Loopback, KeepsItsPromisesWhateverTheAdversaryDoes) {
  for (const uint64_t seed : {1, 2, 3})
    EXPECT_EQ(run(4, seed, exchange_random_traffic), kGood) << seed;
}

TEST_P(Loopback, FullKeepsItsPromisesForManySeeds) {
  for (uint64_t seed = 10; seed < 60; ++seed)
    EXPECT_EQ(run(2 + static_cast<int>(seed % 7), seed, exchange_random_traffic), kGood) << seed;
}

// ---- Single promises ----

TEST_P(Loopback, BlocksLargerThanEveryBufferArrive) {
  EXPECT_EQ(run(2, 0,
                [](Node& node) -> int {
                  constexpr size_t kBytes = (8 << 20) + 3;
                  Registered memory = expose(node, kBytes, kPoison);
                  std::vector<std::byte> source(kBytes);
                  for (size_t i = 0; i < kBytes; ++i) source[i] = content(node.me(), 0, 0, i);
                  const MemoryKey key = node.net.register_memory(source.data(), kBytes).value();
                  const Rank peer = 1 - node.me();
                  const auto target = memory.peers[static_cast<size_t>(peer)];
                  while (!node.net.put(peer, source.data(), key, target, kBytes, 77))
                    await(node, 0);
                  const auto arrivals = await(node, 1);
                  CHECK_RANK(arrivals.size() == 1 && arrivals[0].immediate == 77);
                  for (size_t i = 0; i < kBytes; ++i)
                    CHECK_RANK(memory.bytes[i] == content(peer, 0, 0, i));
                  CHECK_RANK(node.net.close());
                  CHECK_RANK(node.net.counters().data_bytes == kBytes);
                  CHECK_RANK(node.net.counters().data_messages == 1);
                  return kGood;
                }),
            kGood);
}

TEST_P(Loopback, TwoMailsAreOutstandingAtMost) {
  EXPECT_EQ(run(2, 0,
                [](Node& node) -> int {
                  const std::vector<std::byte> mail(NetworkTransport::kMaxMailBytes, kPoison);
                  if (node.me() == 0) {
                    CHECK_RANK(node.net.mail(1, std::span(mail).first(100)));
                    CHECK_RANK(node.net.mail(1, mail));
                    CHECK_RANK(!node.net.mail(1, mail));
                    CHECK_RANK(!node.net.mail(1, {}));
                    CHECK_RANK(node.bootstrap.barrier());
                    while (!node.net.mail(1, mail)) std::this_thread::yield();
                  } else {
                    CHECK_RANK(node.bootstrap.barrier());
                    std::array<Arrival, 1> one;
                    for (const size_t bytes : {size_t{100}, mail.size(), mail.size()}) {
                      while (node.net.poll(one) == 0) std::this_thread::yield();
                      CHECK_RANK(one[0].mail.size() == bytes && one[0].mail.back() == kPoison);
                    }
                  }
                  return node.net.close() ? kGood : kWrong;
                }),
            kGood);
}

TEST_P(Loopback, AReceiverThatDoesNotPollMakesSendersWait) {
  EXPECT_EQ(run(2, 0,
                [](Node& node) -> int {
                  uint32_t posted = 0;
                  if (node.me() == 0)
                    while (node.net.signal(1, posted)) CHECK_RANK(++posted < 10'000);
                  CHECK_RANK(node.bootstrap.allgather(&posted, 0, nullptr));
                  std::array<uint32_t, 2> all{};
                  CHECK_RANK(node.bootstrap.allgather(&posted, sizeof posted, all.data()));
                  if (node.me() == 1) {
                    CHECK_RANK(all[0] >= 16);
                    const auto arrivals = await(node, all[0]);
                    for (uint32_t i = 0; i < all[0]; ++i) CHECK_RANK(arrivals[i].immediate == i);
                  }
                  return node.net.close() ? kGood : kWrong;
                }),
            kGood);
}

TEST_P(Loopback, ASleeperIsWokenByArrivals) {
  for (const uint64_t seed : {0, 5}) {
    const auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(run(2, seed,
                  [](Node& node) -> int {
                    const Rank peer = 1 - node.me();
                    std::array<Arrival, 4> arrivals;
                    for (uint32_t i = 0; i < 50; ++i) {
                      if (node.me() == 0)
                        while (!node.net.signal(peer, i)) node.net.poll({});
                      for (bool arrived = false; !arrived;) {
                        const uint32_t rings = announce_sleep(node.bell);
                        arrived = node.net.poll(arrivals) == 1;
                        if (!arrived) sleep_on(node.bell, rings, 60'000'000'000);
                        end_sleep(node.bell);
                      }
                      CHECK_RANK(arrivals[0].immediate == i);
                      if (node.me() == 1)
                        while (!node.net.signal(peer, i)) node.net.poll({});
                    }
                    return node.net.close() ? kGood : kWrong;
                  }),
              kGood);
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(50));
  }
}

/// Posts one put that must fail; the failure's text.
int expect_failure(Node& node, const std::function<bool(Registered&)>& post,
                   const std::vector<std::string>& parts) {
  Registered memory = expose(node, 4096, kPoison);
  if (node.me() == 0) {
    while (!post(memory)) node.net.poll({});
    while (!node.net.failure()) node.net.poll({});
    const std::string what = node.net.failure()->what;
    for (const std::string& part : parts) {
      if (what.find(part) == std::string::npos) fmt::print(stderr, "{}\n", what);
      CHECK_RANK(what.find(part) != std::string::npos);
    }
    CHECK_RANK(node.net.put(1, memory.bytes.data(), memory.key, memory.peers[1], 1, 1));
    CHECK_RANK(node.net.completed(1) == node.net.posted(1));
    CHECK_RANK(!node.net.close());
  }
  CHECK_RANK(node.bootstrap.barrier());
  for (const std::byte byte : memory.bytes) CHECK_RANK(byte == kPoison);
  return kGood;
}

TEST_P(Loopback, RemoteMemoryThatIsNotExposedIsRefused) {
  for (const uint64_t seed : {0, 9}) {
    const auto put = [&](const std::function<RemoteAddress(RemoteAddress)>& change, size_t bytes) {
      return run(2, seed, [&](Node& node) {
        return expect_failure(
            node,
            [&](Registered& memory) {
              return node.net.put(1, memory.bytes.data(), memory.key, change(memory.peers[1]),
                                  bytes, 1);
            },
            {"remote access error", "rank 0", "rank 1", fmt::format("{} bytes", bytes), "0x"});
      });
    };
    EXPECT_EQ(put(
                  [](RemoteAddress to) {
                    return RemoteAddress{to.address, to.key + 1};
                  },
                  8),
              kGood);
    EXPECT_EQ(put([](RemoteAddress to) { return RemoteAddress{to.address, 0}; }, 8), kGood);
    EXPECT_EQ(put(
                  [](RemoteAddress to) {
                    return RemoteAddress{to.address + 4000, to.key};
                  },
                  97),
              kGood);
    EXPECT_EQ(put(
                  [](RemoteAddress to) {
                    return RemoteAddress{to.address - 1, to.key};
                  },
                  8),
              kGood);
  }
}

TEST_P(Loopback, LocalMemoryThatIsNotRegisteredIsRefused) {
  EXPECT_EQ(run(2, 0,
                [](Node& node) {
                  return expect_failure(node,
                                        [&](Registered& memory) {
                                          return node.net.put(1, memory.bytes.data() + 1,
                                                              memory.key, memory.peers[1], 4096, 1);
                                        },
                                        {"local protection error", "rank 0", "4096 bytes"});
                }),
            kGood);
}

TEST_P(Loopback, AKeyEndsWithItsRegistration) {
  EXPECT_EQ(
      run(2, 0,
          [](Node& node) -> int {
            Registered memory = expose(node, 4096, kPoison);
            if (node.me() == 1) {
              node.net.deregister_memory(memory.key);
              const MemoryKey again = node.net.register_memory(memory.bytes.data(), 4096).value();
              CHECK_RANK(again.remote != memory.key.remote);
            }
            CHECK_RANK(node.bootstrap.barrier());
            if (node.me() == 0) {
              CHECK_RANK(node.net.put(1, memory.bytes.data(), memory.key, memory.peers[1], 8, 1));
              CHECK_RANK(node.net.failure() && node.net.failure()->culprit == 1);
            }
            CHECK_RANK(node.bootstrap.barrier());
            return kGood;
          }),
      kGood);
}

TEST_P(Loopback, TheAdversaryUsesItsFreedom) {
  EXPECT_EQ(run(3, 4,
                [](Node& node) -> int {
                  Registered memory = expose(node, 4096, kPoison);
                  const Rank next = (node.me() + 1) % 3;
                  int refused = 0, late = 0, held = 0, arrived = 0;
                  std::array<Arrival, 8> arrivals;
                  for (int i = 0; i < 60; ++i) {
                    while (!node.net.put(next, memory.bytes.data() + 64, memory.key,
                                         memory.peers[static_cast<size_t>(next)], 1, 1))
                      ++refused;
                    if (node.net.completed(next) < node.net.posted(next)) ++late;
                    while (node.net.completed(next) < node.net.posted(next)) node.net.poll({});
                    CHECK_RANK(node.bootstrap.barrier());  // it has been delivered
                    for (; arrived <= i; ++held)
                      arrived += static_cast<int>(node.net.poll(arrivals));
                  }
                  CHECK_RANK(refused > 0 && late > 0 && held > arrived);
                  return node.net.close() ? kGood : kWrong;
                }),
            kGood);
}

}  // namespace
}  // namespace ibcoll
