#pragma once
/// Ranks that use the verbs transport without an engine above it.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "engine/bootstrap/launch.h"
#include "verbs/transport.h"

namespace ibcoll::verbs {

inline constexpr std::chrono::seconds kPatience{60};

inline bool has_device() { return usable_ports({}).has_value(); }

/// All ranks run on this machine.
inline Result<std::unique_ptr<NetworkTransport>> open_here(
    Bootstrap& bootstrap, const Shape& shape, const Result<TransportOptions>& options) {
  const std::vector<int> machine_of(static_cast<size_t>(bootstrap.size()), 0);
  return create_transport(bootstrap, shape, machine_of, options);
}

/// One rank's transport and the shortest way to use it: every call waits, with a limit.
class Node {
 public:
  Node(Bootstrap& bootstrap, const Shape& shape, const TransportOptions& options = {})
      : bootstrap_(bootstrap), me_(bootstrap.rank()) {
    auto transport = open_here(bootstrap, shape, options);
    EXPECT_TRUE(transport.has_value()) << transport.error().message;
    if (transport) transport_ = std::move(*transport);
  }
  bool good() const { return transport_ != nullptr && !::testing::Test::HasFailure(); }
  NetworkTransport& transport() { return *transport_; }
  Rank me() const { return me_; }

  /// Registers memory and tells everybody where it is; gives where everybody's is.
  std::vector<RemoteAddress> share(void* base, size_t bytes, MemoryKey& key) {
    auto registered = transport_->register_memory(base, bytes);
    EXPECT_TRUE(registered.has_value()) << registered.error().message;
    key = registered.value_or(MemoryKey{});
    const RemoteAddress mine{reinterpret_cast<uint64_t>(base), key.remote};
    std::vector<RemoteAddress> all(static_cast<size_t>(bootstrap_.size()));
    EXPECT_TRUE(bootstrap_.allgather(&mine, sizeof mine, all.data()));
    return all;
  }

  /// Repeats `attempt` until it succeeds, keeping what arrives meanwhile.
  bool until(const std::function<bool()>& attempt) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!attempt()) {
      if (transport_->failure() || std::chrono::steady_clock::now() > end) return false;
      poll();
    }
    return true;
  }
  bool put(Rank peer, const void* source, const MemoryKey& key, RemoteAddress target, size_t bytes,
           uint64_t immediate) {
    const bool done =
        until([&] { return transport_->put(peer, source, key, target, bytes, immediate); });
    transport_->flush();
    return done;
  }
  bool signal(Rank peer, uint32_t immediate) {
    const bool done = until([&] { return transport_->signal(peer, immediate); });
    transport_->flush();
    return done;
  }
  bool drain(Rank peer) {
    const uint64_t goal = transport_->posted(peer);
    return until([&] { return transport_->completed(peer) >= goal; });
  }
  void poll() {
    std::array<Arrival, 8> arrivals;
    const size_t count = transport_->poll(arrivals);
    for (size_t i = 0; i < count; ++i)
      seen_.push_back({arrivals[i].kind,
                       arrivals[i].from,
                       arrivals[i].immediate,
                       {arrivals[i].mail.begin(), arrivals[i].mail.end()}});
    if (count == 0) std::this_thread::yield();
  }
  struct Seen {
    Arrival::Kind kind;
    Rank from;
    uint32_t immediate;
    std::vector<std::byte> mail;
  };
  /// The next arrival, in order.
  std::optional<Seen> next() {
    if (!until([&] { return next_ < seen_.size(); })) return std::nullopt;
    return seen_[next_++];
  }
  /// Polls until the transport reports a failure.
  std::optional<Failure> wait_failure(std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!transport_->failure() && std::chrono::steady_clock::now() < end) poll();
    return transport_->failure();
  }
  void close() {
    const Status closed = transport_->close();
    EXPECT_TRUE(closed.has_value()) << closed.error().message;
  }

 private:
  Bootstrap& bootstrap_;
  Rank me_;
  std::unique_ptr<NetworkTransport> transport_;
  std::vector<Seen> seen_;
  size_t next_ = 0;
};

/// Runs `body` on every rank of a job; a failed expectation in a rank fails the test.
inline int run_job(const Shape& shape, const std::function<void(Bootstrap&)>& body) {
  LaunchOptions options;
  options.ranks = shape.ranks();
  options.bind = false;
  options.grace_ns = 20'000'000'000;
  options.on_failure = [](const Failure&) {};
  const auto status = launch_processes(options, [&](Bootstrap& bootstrap) {
    body(bootstrap);
    std::fflush(nullptr);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  return status ? *status : -1;
}

inline Shape layout(std::vector<int> ranks, Placement placement = Placement::kBlock) {
  return *Shape::from_layout(ranks, placement);
}

/// What rank `from` sends to rank `to`: different everywhere.
inline std::byte pattern(Rank from, Rank to, size_t offset) {
  return static_cast<std::byte>(from * 37 + to * 11 + offset * 7 + (offset >> 9));
}

/// Gives up after half a second.
inline TransportOptions hasty() {
  TransportOptions options;
  options.port_down_ns = options.retry.unreachable_ns = 500'000'000;
  return options;
}

/// Memory of its own pages.
class Pages {
 public:
  explicit Pages(size_t bytes)
      : bytes_(bytes),
        base_(static_cast<std::byte*>(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { munmap(base_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* data() const { return base_; }

 private:
  size_t bytes_;
  std::byte* base_;
};

class Verbs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no RDMA device here; ./run softroce brings some";
  }
};

/// Everybody puts blocks of many sizes to everybody on another server; all is compared.
inline void exchange_all(const Shape& shape, const std::vector<size_t>& sizes,
                         const TransportOptions& options = {}) {
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    Node node(bootstrap, shape, options);
    ASSERT_TRUE(node.good());
    const size_t most = *std::max_element(sizes.begin(), sizes.end()) + 1;
    const auto ranks = static_cast<size_t>(shape.ranks());
    const Pages target(ranks * most), source(ranks * most);
    for (size_t peer = 0; peer < ranks; ++peer)
      for (size_t i = 0; i < most; ++i)
        source.data()[peer * most + i] = pattern(node.me(), static_cast<Rank>(peer), i);
    MemoryKey target_key, source_key;
    const auto places = node.share(target.data(), ranks * most, target_key);
    node.share(source.data(), ranks * most, source_key);
    for (const size_t bytes : sizes) {
      std::memset(target.data(), 0xee, ranks * most);
      ASSERT_TRUE(bootstrap.barrier());
      size_t peers = 0;
      for (size_t step = 1; step < ranks; ++step) {
        const auto peer = static_cast<Rank>((static_cast<size_t>(node.me()) + step) % ranks);
        if (shape.same_server(node.me(), peer)) continue;
        ++peers;
        RemoteAddress place = places[static_cast<size_t>(peer)];
        place.address += static_cast<size_t>(node.me()) * most;
        ASSERT_TRUE(node.put(peer, source.data() + static_cast<size_t>(peer) * most, source_key,
                             place, bytes, 0xfff00000u + static_cast<uint32_t>(node.me())));
      }
      for (size_t i = 0; i < peers; ++i) {
        const auto seen = node.next();
        ASSERT_TRUE(seen.has_value()) << node.transport().failure().value_or(Failure{}).what;
        EXPECT_EQ(seen->kind, Arrival::Kind::kSignal);
        EXPECT_EQ(seen->immediate, 0xfff00000u + static_cast<uint32_t>(seen->from));
        const std::byte* block = target.data() + static_cast<size_t>(seen->from) * most;
        size_t wrong = 0;
        for (size_t at = 0; at < bytes; ++at)
          wrong += block[at] != pattern(seen->from, node.me(), at);
        EXPECT_EQ(wrong, 0u) << "of " << bytes << " bytes from rank " << seen->from;
        EXPECT_EQ(block[bytes], std::byte{0xee}) << "written past the end";
      }
      for (Rank peer = 0; peer < shape.ranks(); ++peer) ASSERT_TRUE(node.drain(peer));
    }
    EXPECT_EQ(node.transport().counters().registrations, 2u);
    node.close();
  });
  EXPECT_EQ(status, 0);
}

}  // namespace ibcoll::verbs
