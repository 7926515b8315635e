// What the verbs transport says when peers, limits or the network itself fail it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <tuple>

#include "engine/transport/open.h"
#include "tests/verbs/lock_privilege.h"
#include "tests/verbs/verbs_node.h"
#include "verbs/device.h"

namespace ibcoll::verbs {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

TEST_F(Verbs, AWrongKeyIsAnErrorThatNamesBothRanks) {
  const Shape shape = layout({1, 1});
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    Node node(bootstrap, shape);
    ASSERT_TRUE(node.good());
    std::vector<std::byte> memory(8192);
    MemoryKey key;
    auto places = node.share(memory.data(), memory.size(), key);
    ASSERT_TRUE(node.signal(1 - node.me(), 5));
    ASSERT_TRUE(node.next().has_value());
    if (node.me() == 0) {
      places[1].key ^= 0x5a00;
      EXPECT_TRUE(node.put(1, memory.data(), key, places[1], 4096, 1));
      const auto failure = node.wait_failure(seconds(10));
      ASSERT_TRUE(failure.has_value());
      EXPECT_EQ(failure->code, ErrorCode::kSystem);
      EXPECT_THAT(failure->what, HasSubstr("remote access error"));
      EXPECT_THAT(failure->what, HasSubstr("rank 0 on "));
      EXPECT_THAT(failure->what, HasSubstr("to rank 1"));
      EXPECT_FALSE(node.transport().signal(1, 1)) << "a failed transport takes nothing more";
      EXPECT_FALSE(node.transport().close().has_value());
    }
    EXPECT_TRUE(bootstrap.barrier());
  });
  EXPECT_EQ(status, 0);
}

/// A range registered around it, of which peers may write nothing, is no registration of it.
TEST_F(Verbs, MemoryBesideConstantsCanBeWritten) {
  const Shape shape = layout({1, 1});
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    Node node(bootstrap, shape);
    ASSERT_TRUE(node.good());
    const auto page = static_cast<size_t>(getpagesize());
    const Pages pages(2 * page), source(page);
    ASSERT_EQ(mprotect(pages.data() + page, page, PROT_READ), 0);
    ASSERT_TRUE(node.transport().register_spare(pages.data(), 2 * page).has_value());
    source.data()[0] = std::byte{7};
    MemoryKey own_key, source_key;
    const auto places = node.share(pages.data(), page, own_key);
    node.share(source.data(), page, source_key);
    const Rank peer = 1 - node.me();
    ASSERT_TRUE(
        node.put(peer, source.data(), source_key, places[static_cast<size_t>(peer)], page, 1));
    ASSERT_TRUE(node.next().has_value()) << node.transport().failure().value_or(Failure{}).what;
    EXPECT_EQ(pages.data()[0], std::byte{7});
    ASSERT_TRUE(node.drain(peer));
    node.close();
  });
  EXPECT_EQ(status, 0);
}

TEST_F(Verbs, ARankThatOnlyWaitsNoticesThatItsPeerWasKilled) {
  auto* noticed = static_cast<bool*>(
      mmap(nullptr, sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const Shape shape = layout({1, 1});
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    Node node(bootstrap, shape, hasty());
    ASSERT_TRUE(node.good());
    ASSERT_TRUE(node.signal(1 - node.me(), 5));
    ASSERT_TRUE(node.next().has_value());
    ASSERT_TRUE(node.drain(1 - node.me()));
    ASSERT_TRUE(bootstrap.barrier());
    if (node.me() == 1) raise(SIGKILL);
    const auto failure = node.wait_failure(seconds(20));
    ASSERT_TRUE(failure.has_value());
    EXPECT_EQ(failure->culprit, 1);
    EXPECT_EQ(failure->code, ErrorCode::kPeerFailed);
    EXPECT_THAT(failure->what, HasSubstr("could not reach rank 1: transport retry counter"));
    *noticed = !::testing::Test::HasFailure();
  });
  EXPECT_EQ(status, 128 + SIGKILL);
  EXPECT_TRUE(*noticed);
  munmap(noticed, sizeof *noticed);
}

TEST_F(Verbs, TooLittleLockedMemoryIsSaid) {
  const Shape shape = layout({1, 1});
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    Node node(bootstrap, shape);
    ASSERT_TRUE(node.good());
    // Root may lock more than the limit: become somebody else.
    const rlimit limit{1 << 20, 1 << 20};
    ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    if (geteuid() == 0) {
      ASSERT_EQ(seteuid(65534), 0);
    }
    const Pages memory(64 << 20);
    const auto key = node.transport().register_memory(memory.data(), 64 << 20);
    ASSERT_FALSE(key.has_value());
    EXPECT_EQ(key.error().code, ErrorCode::kNoMemory);
    EXPECT_THAT(key.error().message, HasSubstr("ulimit -l"));
    EXPECT_THAT(key.error().message, HasSubstr("67108864 bytes"));
    node.close();
  });
  EXPECT_EQ(status, 0);
}

/// Of two machines, as far as the engine knows, whose ranks may lock next to nothing.
TEST_F(Verbs, AutoGoesOnToTheNextNetworkWhereMemoryMayNotBeLocked) {
  setenv("UCX_TLS", "tcp,self", 1);
  setenv("UCX_NET_DEVICES", "lo", 1);
  if (!usable_network_port("ucx")) GTEST_SKIP() << "no UCX here";
  const Shape shape = layout({1, 1});
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    const testing::WithoutLockPrivilege nobody;
    std::vector<Bell> bells(2);
    const std::vector<int> machines{0, 1};
    const NetworkSetup setup{bootstrap, shape, bells, {}, machines};
    // The first is enough for what the transport itself takes, but not for what calls will.
    for (const rlim_t bytes : {rlim_t{8} << 20, rlim_t{64} << 10}) {
      const rlimit limit{bytes, bytes};
      ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
      auto opened = open_network(setup, "auto");
      ASSERT_TRUE(opened.has_value()) << opened.error().message;
      EXPECT_STREQ(opened->transport->name(), "ucx");
      if (bootstrap.rank() == 0) {
        EXPECT_THAT(opened->reason, HasSubstr("ulimit -l"));
      }
      EXPECT_TRUE(opened->transport->close().has_value());
    }
    const auto forced = open_network(setup, "verbs");
    ASSERT_FALSE(forced.has_value());
    EXPECT_EQ(forced.error().code, ErrorCode::kNoMemory);
  });
  unsetenv("UCX_TLS");
  unsetenv("UCX_NET_DEVICES");
  EXPECT_EQ(status, 0);
}

/// Of ranks that may lock what is enough for most, and have locked it all already.
TEST_F(Verbs, AutoGoesOnToTheNextNetworkWhereADeviceGetsNoMemory) {
  constexpr rlim_t kMostLocked = rlim_t{256} << 20;
  const auto memory =
      static_cast<rlim_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  const rlim_t bytes = memory / 15;  // a sixteenth of a rank's share does
  if (bytes > kMostLocked) GTEST_SKIP() << "too much to lock of this machine's memory";
  setenv("UCX_TLS", "tcp,self", 1);
  setenv("UCX_NET_DEVICES", "lo", 1);
  if (!usable_network_port("ucx")) GTEST_SKIP() << "no UCX here";
  const Shape shape = layout({1, 1});
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    const auto device = Device::open(usable_ports({})->front());
    ASSERT_TRUE(device.has_value()) << device.error().message;
    const Pages locked(bytes);
    const MemoryHandle region =
        register_region(device->domain(), locked.data(), bytes, IBV_ACCESS_LOCAL_WRITE);
    ASSERT_TRUE(region != nullptr);
    const testing::WithoutLockPrivilege nobody;
    const rlimit limit{bytes, bytes};
    ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    std::vector<Bell> bells(2);
    const std::vector<int> machines{0, 1};
    auto opened = open_network({bootstrap, shape, bells, {}, machines}, "auto");
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    EXPECT_STREQ(opened->transport->name(), "ucx");
    if (bootstrap.rank() == 0) {
      EXPECT_THAT(opened->reason, HasSubstr("can't be registered"));
    }
    EXPECT_TRUE(opened->transport->close().has_value());
  });
  unsetenv("UCX_TLS");
  unsetenv("UCX_NET_DEVICES");
  EXPECT_EQ(status, 0);
}

/// Faults of the network itself: only where the network is the test bed's.
class VerbsNetwork : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    if (!getenv("SOFTROCE_MACHINE"))
      GTEST_SKIP() << "only in the Soft-RoCE machine: real ports are left alone";
  }
  static void shell(const std::string& command) {
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  /// Soft-RoCE counts every packet it is asked for again as a retry, until an acknowledgement comes
  /// (each 64 packets): six are soon used up where packets get lost.
  static TransportOptions patient() {
    TransportOptions options;
    options.retry.retries = 7;
    options.retry.timeout_exponent = 14;
    return options;
  }
  static void lose(const char* percent) {
    for (const char* port : {"e1", "e2", "e3"})
      shell(fmt::format("tc qdisc add dev {} root netem loss {}%", port, percent));
  }
  void TearDown() override {
    if (getenv("SOFTROCE_MACHINE"))
      std::ignore = std::system(
          "for i in 1 2 3; do tc qdisc del dev e$i root; ip link set e$i up; done 2>/dev/null");
  }
};

TEST_F(VerbsNetwork, LosingTwoPercentOfThePacketsChangesNothing) {
  lose("2");
  exchange_all(layout({1, 2, 1}), {0, 8, 4096, 65537, 1 << 20}, patient());
}

TEST_F(VerbsNetwork, LosingTenPercentOfThePacketsChangesNothing) {
  lose("10");
  exchange_all(layout({1, 1, 1}), {0, 8, 4096, 65536}, patient());
}

/// It takes a second, again and again, to find that nobody has a dead machine's address.
TEST_F(VerbsNetwork, AMachineThatIsDeadFromTheStartHoldsUpNoOther) {
  const Shape shape = layout({1, 1, 1});
  exchange_all(shape, {8});  // the kernel knows the addresses of all
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    Node node(bootstrap, shape);
    ASSERT_TRUE(node.good());
    if (node.me() == 0) {
      shell("ip -n sw link set v3 down");
      shell("ip neigh del 10.77.0.3 dev e1; ip neigh del 10.77.0.3 dev e2");
    }
    ASSERT_TRUE(bootstrap.barrier());
    if (node.me() != 2) {
      const auto begin = std::chrono::steady_clock::now();
      node.transport().signal(2, 1);  // the first of it: nobody is connected
      ASSERT_TRUE(node.signal(1 - node.me(), 5));
      const auto seen = node.next();
      ASSERT_TRUE(seen.has_value());
      EXPECT_EQ(seen->immediate, 5u);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(900));
    }
    ASSERT_TRUE(bootstrap.barrier());
    if (node.me() == 0) shell("ip -n sw link set v3 up");
  });
  EXPECT_EQ(status, 0);
}

/// Nor does one that has asked whether a rank is there, and that the answer does not reach.
TEST_F(VerbsNetwork, AMachineThatCantBeAnsweredHoldsUpNoAnswers) {
  const Shape shape = layout({1, 1, 1});
  exchange_all(shape, {8});  // the kernel knows the addresses of all
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    Node node(bootstrap, shape, hasty());
    ASSERT_TRUE(node.good());
    if (node.me() == 0) {
      // Server 3 knows the others, but does not say where it is.
      shell(
          "for i in 1 2; do ip neigh replace 10.77.0.$i lladdr $(cat /sys/class/net/e$i/address) "
          "dev e3 nud permanent; done; sysctl -qw net.ipv4.conf.e3.arp_ignore=8");
      shell("ip neigh del 10.77.0.3 dev e1");
    }
    ASSERT_TRUE(bootstrap.barrier());
    if (node.me() == 0) {
      std::this_thread::sleep_for(seconds(3));  // its thread answers
      const auto seen = node.next();
      ASSERT_TRUE(seen.has_value());
      EXPECT_EQ(seen->from, 1);
      EXPECT_EQ(seen->immediate, 5u);
    } else if (node.me() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // rank 2 has asked
      EXPECT_TRUE(node.signal(0, 5)) << node.transport().failure().value_or(Failure{}).what;
    } else {
      node.transport().signal(0, 1);
      const auto failure = node.wait_failure(seconds(20));
      ASSERT_TRUE(failure.has_value());
      EXPECT_THAT(failure->what, HasSubstr("no answer from rxe3:1"));
    }
    ASSERT_TRUE(bootstrap.barrier());
  });
  std::ignore =
      std::system("sysctl -qw net.ipv4.conf.e3.arp_ignore=1; ip neigh flush dev e3 nud permanent");
  EXPECT_EQ(status, 0);
}

TEST_F(VerbsNetwork, ALinkThatGoesDownForGoodIsReportedByBothSidesAndTheOwnPortFirst) {
  const Shape shape = layout({1, 1});
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    Node node(bootstrap, shape, hasty());
    ASSERT_TRUE(node.good());
    ASSERT_TRUE(node.signal(1 - node.me(), 5));
    ASSERT_TRUE(node.next().has_value());
    ASSERT_TRUE(node.drain(1 - node.me()));
    ASSERT_TRUE(bootstrap.barrier());
    if (node.me() == 0) shell("ip -n sw link set v2 down");
    const auto failure = node.wait_failure(seconds(20));
    ASSERT_TRUE(failure.has_value());
    if (node.me() == 0) {
      EXPECT_EQ(failure->culprit, 1);
      EXPECT_THAT(failure->what, HasSubstr("could not reach rank 1"));
    } else {
      EXPECT_EQ(failure->culprit, 1) << "blames a healthy peer";
      EXPECT_THAT(failure->what, HasSubstr("port rxe2:1 is down"));
    }
    EXPECT_TRUE(bootstrap.barrier());
    if (node.me() == 0) shell("ip -n sw link set v2 up");
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ibcoll::verbs
