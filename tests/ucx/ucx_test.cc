// The UCX transport between ranks on this machine, over TCP on the loopback interface.

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <thread>

#include "engine/bootstrap/launch.h"
#include "studies/task_graph/run/exchange_addresses.h"
#include "tests/command.h"
#include "tests/launched.h"
#include "tests/places.h"
#include "tests/ucx/ucx_lo.h"
#include "tests/ucx/ucx_shim.h"

namespace ibcoll::ucx {
namespace {

using testing::all_by_puts;
using testing::all_by_rendezvous;
using testing::all_in_parts;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::pattern;
using testing::UcxShim;
using Ucx = testing::UcxOnLo;
using Clock = std::chrono::steady_clock;

Result<std::unique_ptr<NetworkTransport>> open_here(Bootstrap& bootstrap,
                                                    const Result<TransportOptions>& options) {
  return create_transport(bootstrap, std::vector<int>(static_cast<size_t>(bootstrap.size()), 0),
                          options);
}

/// Runs `body` on every rank of a job; a failed expectation in a rank fails the test.
void run_ranks(int ranks, const std::function<void(Bootstrap&)>& body) {
  LaunchOptions options = quiet(ranks);
  options.bind = false;
  const auto status = launch_processes(options, [&](Bootstrap& bootstrap) {
    body(bootstrap);
    std::fflush(nullptr);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(status.value_or(-1), 0);
}

/// Repeats `attempt`, keeping what arrives meanwhile; false after a minute or a failure.
class Patience {
 public:
  explicit Patience(NetworkTransport& network) : network_(network) {}
  bool until(const std::function<bool()>& attempt) {
    const auto end = Clock::now() + std::chrono::minutes(1);
    while (!attempt()) {
      if (network_.failure() || Clock::now() > end) return false;
      poll();
    }
    network_.flush();
    return true;
  }
  void poll() {
    std::array<Arrival, 4> arrivals;
    const size_t count = network_.poll(arrivals);
    for (size_t i = 0; i < count; ++i) {
      const bool mail = arrivals[i].kind == Arrival::Kind::kMail;
      seen.push_back(mail ? static_cast<uint32_t>(arrivals[i].mail[0]) : arrivals[i].immediate);
    }
    if (count == 0) std::this_thread::yield();
  }
  bool wait_for(size_t arrivals) {
    return until([&] { return seen.size() >= arrivals; });
  }
  std::vector<uint32_t> seen;  ///< immediates, and the first bytes of mails

 private:
  NetworkTransport& network_;
};

/// Two ranks put to each other in turn with signals, mails and puts that say nothing; each arrival
/// has to find all that was sent before it.
void exchange_in_order(const TransportOptions& options, uint64_t seed) {
  run_ranks(2, [&](Bootstrap& bootstrap) {
    if (seed != 0) UcxShim::reorder(seed + static_cast<uint64_t>(bootstrap.rank()));
    auto network = open_here(bootstrap, options);
    ASSERT_TRUE(network) << network.error().message;
    constexpr size_t kRounds = 150, kMost = 3000;
    const Rank me = bootstrap.rank(), peer = 1 - me;
    std::vector<std::byte> source(kRounds * kMost), target(kRounds * kMost);
    for (size_t i = 0; i < source.size(); ++i) source[i] = pattern(me, peer, i, 0);
    const MemoryKey from = (*network)->register_memory(source.data(), source.size()).value();
    const MemoryKey to = (*network)->register_memory(target.data(), target.size()).value();
    const auto places =
        task_graph::exchange_addresses(bootstrap, **network, target.data(), to).value();
    const auto length = [](size_t round) { return 1 + round * 977 % (kMost - 1); };
    Patience patience(**network);
    for (size_t round = 0; round < kRounds; ++round) {
      const size_t at = round * kMost, half = length(round) / 2, rest = length(round) - half;
      RemoteAddress place = places[static_cast<size_t>(peer)];
      place.address += at;
      const std::array segments{PutSegment{source.data() + at, half},
                                PutSegment{source.data() + at + half, rest}};
      const bool gathers = round % 3 == 0 && half > 0;
      ASSERT_TRUE(patience.until([&] {
        return gathers ? (*network)->put_segments(peer, segments, from, place,
                                                  NetworkTransport::kNoSignal)
                       : (*network)->put(peer, source.data() + at, from, place, half + rest,
                                         round % 2 == 0 ? round : NetworkTransport::kNoSignal);
      }));
      if (!gathers && round % 2 == 0) continue;
      const auto mail = static_cast<std::byte>(round);
      ASSERT_TRUE(patience.until([&] {
        return round % 5 == 0 ? (*network)->mail(peer, {&mail, 1})
                              : (*network)->signal(peer, static_cast<uint32_t>(round));
      }));
    }
    // Each round has said so once.
    ASSERT_TRUE(patience.wait_for(kRounds)) << (*network)->failure().value_or(Failure{}).what;
    for (size_t round = 0; round < kRounds; ++round) EXPECT_EQ(patience.seen[round], round);
    size_t wrong = 0;
    for (size_t round = 0; round < kRounds; ++round) {
      for (size_t i = 0; i < kMost; ++i) {
        const size_t at = round * kMost + i;
        const bool written = i < length(round);
        wrong += target[at] != (written ? pattern(peer, me, at, 0) : std::byte{0});
      }
    }
    EXPECT_EQ(wrong, 0u);
    const uint64_t posted = (*network)->posted(peer);
    EXPECT_TRUE(patience.until([&] { return (*network)->completed(peer) == posted; }));
    EXPECT_TRUE((*network)->close());
  });
}

TEST_F(Ucx, MessagesPutsAndMailsStayInOrder) { exchange_in_order({}, 0); }
TEST_F(Ucx, PartsStayInOrder) { exchange_in_order(all_in_parts(), 0); }
TEST_F(Ucx, RendezvousStaysInOrder) { exchange_in_order(all_by_rendezvous(), 0); }
TEST_F(Ucx, PutsStayInOrder) { exchange_in_order(all_by_puts(), 0); }
TEST_F(Ucx, OrderStaysWhateverUcpDoes) {
  for (uint64_t seed = 10; seed < 16; seed += 2) {
    exchange_in_order({}, seed);
    exchange_in_order(all_in_parts(), seed);
    exchange_in_order(all_by_rendezvous(), seed);
    exchange_in_order(all_by_puts(), seed);
  }
}

/// What a rank has sent arrives although it never polls again, be it the first thing it ever sent.
TEST_F(Ucx, WhatHasLeftNeedsTheRankNoMore) {
  InSharedMemory<std::atomic<bool>> arrived;
  run_ranks(2, [&](Bootstrap& bootstrap) {
    auto network = open_here(bootstrap, TransportOptions{});
    ASSERT_TRUE(network) << network.error().message;
    std::vector<std::byte> memory(8 << 20);
    const MemoryKey key = (*network)->register_memory(memory.data(), memory.size()).value();
    const auto places =
        task_graph::exchange_addresses(bootstrap, **network, memory.data(), key).value();
    Patience patience(**network);
    if (bootstrap.rank() == 0) {
      (*network)->post_for(1);
      for (uint32_t i = 0; i < 8; ++i) {
        RemoteAddress place = places[1];
        place.address += i << 20;
        ASSERT_TRUE(patience.until(
            [&] { return (*network)->put(1, memory.data(), key, place, 400'000, i); }));
      }
      ASSERT_TRUE(patience.until([&] { return (*network)->signal(1, 8); }));
      ASSERT_TRUE(patience.until([&] { return !(*network)->held_by(1, 0, {}); }));
      wait_until([&] { return arrived->load(); });
    } else {
      ASSERT_TRUE(patience.wait_for(9));
      *arrived = true;
    }
    EXPECT_TRUE((*network)->close());
  });
}

/// While a peer stays away what other calls have sent it holds up none, and what was sent for none
/// only those that the peer is a member of.
TEST_F(Ucx, ACallIsHeldByWhatItHasPostedAlone) {
  InSharedMemory<std::atomic<bool>> connected, checked;
  run_ranks(2, [&](Bootstrap& bootstrap) {
    auto network = open_here(bootstrap, TransportOptions{});
    ASSERT_TRUE(network) << network.error().message;
    std::vector<std::byte> memory(8 << 20);
    const MemoryKey key = (*network)->register_memory(memory.data(), memory.size()).value();
    const auto places =
        task_graph::exchange_addresses(bootstrap, **network, memory.data(), key).value();
    Patience patience(**network);
    const Rank peer = 1 - bootstrap.rank();
    ASSERT_TRUE(patience.until([&] { return (*network)->signal(peer, 0); }));
    ASSERT_TRUE(patience.wait_for(1));
    if (bootstrap.rank() == 0) {
      ASSERT_TRUE(patience.until([&] { return !(*network)->held_by(0, 0, {}); }));
      *connected = true;
      const auto post_long_for = [&](uint64_t call) {
        (*network)->post_for(call);
        ASSERT_TRUE(patience.until(
            [&] { return (*network)->put(1, memory.data(), key, places[1], memory.size(), 2); }));
      };
      const uint64_t before = (*network)->mark();
      (*network)->post_for(1);
      ASSERT_TRUE(patience.until([&] { return (*network)->signal(1, 1); }));
      post_long_for(2);
      post_long_for(0);
      const uint64_t after = (*network)->mark();
      const std::vector<Rank> with = {1}, without = {0};
      EXPECT_TRUE(patience.until([&] { return !(*network)->held_by(1, before, with); }));
      EXPECT_TRUE(patience.until([&] { return !(*network)->held_by(1, after, without); }));
      EXPECT_EQ((*network)->held_by(1, after, with), 1);
      EXPECT_EQ((*network)->held_by(2, before, without), 1);
      *checked = true;
      EXPECT_TRUE(patience.until([&] { return !(*network)->held_by(2, after, with); }));
    } else {
      ASSERT_TRUE(patience.until([&] { return connected->load(); }));
      wait_until([&] { return checked->load(); });
      ASSERT_TRUE(patience.wait_for(4));
    }
    EXPECT_TRUE((*network)->close());
  });
}

TEST_F(Ucx, AWriteToMemoryThatIsNotRegisteredIsRefused) {
  run_ranks(2, [&](Bootstrap& bootstrap) {
    auto network = open_here(bootstrap, TransportOptions{});
    ASSERT_TRUE(network) << network.error().message;
    std::vector<std::byte> memory(4096, std::byte{7});
    const MemoryKey key = (*network)->register_memory(memory.data(), 2048).value();
    auto places = task_graph::exchange_addresses(bootstrap, **network, memory.data(), key).value();
    Patience patience(**network);
    if (bootstrap.rank() == 0) {
      const std::vector<std::byte> source(2049);
      ASSERT_TRUE(patience.until(
          [&] { return (*network)->put(1, source.data(), key, places[1], 2049, 0); }));
      ASSERT_TRUE(patience.until([&] { return !(*network)->held_by(0, 0, {}); }));
    } else {
      patience.wait_for(1);
      ASSERT_TRUE((*network)->failure());
      EXPECT_THAT((*network)->failure()->what,
                  AllOf(HasSubstr("rank 1 refused a write of rank 0, 2049 bytes"),
                        HasSubstr("no registration covers them")));
      EXPECT_EQ(memory[0], std::byte{7});
    }
    ASSERT_TRUE(bootstrap.barrier());
  });
}

/// Settings that one rank alone has fail all alike.
TEST_F(Ucx, ARankWithoutANetworkIsNamedOnAllRanks) {
  run_ranks(3, [&](Bootstrap& bootstrap) {
    if (bootstrap.rank() == 1) setenv("UCX_TLS", "nosuch", 1);
    const auto network = open_here(bootstrap, TransportOptions{});
    ASSERT_FALSE(network);
    EXPECT_EQ(network.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(network.error().message, HasSubstr("no ucx transport: rank 1: UCX finds no"));
  });
}

TEST_F(Ucx, ARankWithoutSettingsIsNamedOnAllRanks) {
  run_ranks(2, [&](Bootstrap& bootstrap) {
    Result<TransportOptions> options = TransportOptions{};
    if (bootstrap.rank() == 0) options = fail(ErrorCode::kInvalidArgument, "settings of its own");
    const auto network = open_here(bootstrap, options);
    ASSERT_FALSE(network);
    EXPECT_THAT(network.error().message, HasSubstr("rank 0: settings of its own"));
  });
}

/// UCX needs a network between emulated servers, too: what it has inside a machine notices no
/// death.
TEST_F(Ucx, MemoryAloneIsNoNetwork) {
  run_ranks(2, [&](Bootstrap& bootstrap) {
    setenv("UCX_TLS", "self,sm", 1);
    const auto network = open_here(bootstrap, TransportOptions{});
    ASSERT_FALSE(network);
    EXPECT_EQ(network.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(network.error().message,
                AllOf(HasSubstr("UCX finds no network"), HasSubstr("such as tcp")));
  });
}

/// A program that has loaded UCX sees what that has to say of the engine's settings.
TEST_F(Ucx, AProgramThatUsesItIsToldNothing) {
  const auto ran = testing_tools::run_command(
      // AddressSanitizer wants to be loaded first.
      "ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 LD_PRELOAD=libucp.so.0 " +
      testing_tools::bin_dir() +
      "/ib_a2a_bench --ranks 2 --servers 2 --transport ucx --sizes 64 --iterations 2 --check 2>&1");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_EQ(ran.out.find("UCX  "), std::string::npos) << ran.out;
}

/// UCX's lines, and its account of crashes, are kept from the program.
TEST_F(Ucx, WritesNothingOfItsOwn) {
  const auto ran = testing_tools::run_command("UCX_NO_SUCH_SETTING=1 " + testing_tools::bin_dir() +
                                              "/ib_a2a_bench --ranks 2 --servers 2 --transport ucx "
                                              "--sizes 64 --iterations 2 --check --json "
                                              "- 2>&1");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_EQ(ran.out.find("UCX  "), std::string::npos) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("\"transport\":\"ucx\""));
}

}  // namespace
}  // namespace ibcoll::ucx
