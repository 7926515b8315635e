#pragma once
/// Jobs over the loopback: processes and threads, with and without copies on the way.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/shared_region.h"
#include "engine/transport/loopback.h"
#include "tests/named.h"

namespace ibcoll::testing_loopback {

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
      const auto places = exchange_places(bootstrap);
      CHECK_RANK(places.has_value());
      auto net = create_loopback(bootstrap, bells, processes_at(places->here),
                                 LoopbackOptions{GetParam().placing, seed});
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

/// A buffer of this rank and where its peers find theirs.
struct Exposed {
  std::vector<std::byte> bytes;
  MemoryKey key;
  std::vector<RemoteAddress> peers;
};

inline Exposed expose(Node& node, size_t bytes, std::byte fill) {
  Exposed memory{std::vector<std::byte>(bytes, fill), {}, {}};
  memory.key = node.net.register_memory(memory.bytes.data(), bytes).value();
  const RemoteAddress mine{reinterpret_cast<uint64_t>(memory.bytes.data()), memory.key.remote};
  memory.peers.resize(static_cast<size_t>(node.size()));
  if (!node.bootstrap.allgather(&mine, sizeof mine, memory.peers.data())) std::abort();
  return memory;
}

/// What exposed memory holds at first, where it matters.
inline constexpr std::byte kPoison{0xa5};

/// What rank `from` sends to rank `to` as its message `index`: different everywhere.
inline std::byte content(Rank from, Rank to, uint32_t index, size_t i) {
  return static_cast<std::byte>(
      (static_cast<size_t>(from) * 31 + static_cast<size_t>(to) * 17 + index * 7 + i * 3) % 251);
}

/// Polls until `count` arrivals came.
inline std::vector<Arrival> await(Node& node, size_t count) {
  std::vector<Arrival> all;
  std::array<Arrival, 4> some;
  while (all.size() < count && !node.bootstrap.failure()) {
    const size_t arrived = node.net.poll(some);
    all.insert(all.end(), some.begin(), some.begin() + static_cast<ptrdiff_t>(arrived));
    if (arrived == 0) std::this_thread::yield();
  }
  return all;
}

/// Makes the jobs of a suite that derives from Loopback: INSTANTIATE_TEST_SUITE_P(, Suite, kinds,
/// name).
inline auto all_networks() {
  return ::testing::Values(Network{"processes", false, Placing::kDirect},
                           Network{"processes_bounce", false, Placing::kBounce},
                           Network{"threads", true, Placing::kDirect},
                           Network{"threads_bounce", true, Placing::kBounce});
}

}  // namespace ibcoll::testing_loopback
