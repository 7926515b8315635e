// The verbs transport between servers that are emulated on this machine, each with a device of its
// own as far as they go. Without an RDMA device only what needs none runs; tests/softroce runs all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#ifdef IBCOLL_HAVE_VERBS

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "engine/bootstrap/launch.h"
#include "verbs/transport.h"

namespace ibcoll::verbs {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kPatience{60};

bool has_device() { return usable_ports({}).has_value(); }

/// One rank's transport and the shortest way to use it: every call waits, with a limit.
class Node {
 public:
  Node(Bootstrap& bootstrap, const Shape& shape, const TransportOptions& options = {})
      : bootstrap_(bootstrap), me_(bootstrap.rank()) {
    auto transport = create_transport(bootstrap, shape, options);
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
    const auto end = Clock::now() + kPatience;
    while (!attempt()) {
      if (transport_->failure() || Clock::now() > end) return false;
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
  std::optional<Failure> wait_failure(milliseconds limit) {
    const auto end = Clock::now() + limit;
    while (!transport_->failure() && Clock::now() < end) poll();
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
int run_job(const Shape& shape, const std::function<void(Bootstrap&)>& body) {
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

Shape layout(std::vector<int> ranks, Placement placement = Placement::kBlock) {
  return *Shape::from_layout(ranks, placement);
}

/// What rank `from` sends to rank `to`: different everywhere.
std::byte pattern(Rank from, Rank to, size_t offset) {
  return static_cast<std::byte>(from * 37 + to * 11 + offset * 7 + (offset >> 9));
}

/// Gives up after half a second.
TransportOptions hasty() {
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

TEST(VerbsDevices, AskingForOneThatIsNotThereSaysWhatIs) {
  DeviceOptions options;
  options.devices = {"nosuch7"};
  const auto ports = usable_ports(options);
  ASSERT_FALSE(ports.has_value());
  EXPECT_EQ(ports.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(ports.error().message, HasSubstr("nosuch7"));
  EXPECT_THAT(ports.error().message,
              AnyOf(HasSubstr("libibverbs lists no device"), HasSubstr(":1")));
}

TEST(VerbsDevices, AnAddressThatIsNotThereIsNamedWithThoseThatAre) {
  if (!has_device()) GTEST_SKIP() << "no RDMA device here";
  DeviceOptions options;
  options.gid_index = 77;
  const auto ports = usable_ports(options);
  ASSERT_FALSE(ports.has_value());
  const std::string own = usable_ports({})->front().gid_text;
  EXPECT_THAT(ports.error().message,
              AllOf(HasSubstr("no GID of index 77 (IBCOLL_GID_INDEX), only "), HasSubstr(own)));
}

TEST(VerbsDevices, RanksAreDealtOverTheNearestPorts) {
  std::vector<PortInfo> ports(3);
  for (size_t i = 0; i < ports.size(); ++i) {
    ports[i].device = fmt::format("d{}", i);
    ports[i].numa_node = i == 1 ? 0 : 1;
  }
  EXPECT_EQ(choose_port(ports, 1, 0).device, "d0");
  EXPECT_EQ(choose_port(ports, 1, 1).device, "d2");
  EXPECT_EQ(choose_port(ports, 1, 2).device, "d0");
  EXPECT_EQ(choose_port(ports, 0, 5).device, "d1");
  EXPECT_EQ(choose_port(ports, -1, 4).device, "d1");
}

TEST(VerbsDevices, AJobWithoutTheDeviceFailsOnAllRanksAlike) {
  const Shape shape = layout({1, 1});
  EXPECT_EQ(run_job(shape,
                    [&](Bootstrap& bootstrap) {
                      TransportOptions options;
                      options.devices.devices = {"nosuch7"};
                      const auto transport = create_transport(bootstrap, shape, options);
                      ASSERT_FALSE(transport.has_value());
                      EXPECT_THAT(transport.error().message, HasSubstr("rank 0: "));
                      EXPECT_THAT(transport.error().message, HasSubstr("nosuch7"));
                    }),
            0);
}

/// No rank goes on without one that has no transport, nor crashes.
TEST(VerbsDevices, ARankWithoutTheDeviceIsNamedOnAllRanks) {
  const Shape shape = layout({1, 1, 1});
  EXPECT_EQ(run_job(shape,
                    [&](Bootstrap& bootstrap) {
                      TransportOptions options;
                      if (bootstrap.rank() != 0) options.devices.devices = {"nosuch7"};
                      const auto transport = create_transport(bootstrap, shape, options);
                      ASSERT_FALSE(transport.has_value());
                      EXPECT_THAT(transport.error().message,
                                  HasSubstr(has_device() ? "rank 1: " : "rank 0: "));
                    }),
            0);
}

/// Settings that one rank alone can't read end all ranks alike.
TEST(VerbsDevices, ARankWithoutSettingsIsNamedOnAllRanks) {
  const Shape shape = layout({1, 1});
  EXPECT_EQ(run_job(shape,
                    [&](Bootstrap& bootstrap) {
                      Result<TransportOptions> options = TransportOptions{};
                      if (bootstrap.rank() == 0)
                        options = fail(ErrorCode::kInvalidArgument, "settings of its own");
                      const auto transport = create_transport(bootstrap, shape, options);
                      ASSERT_FALSE(transport.has_value());
                      EXPECT_THAT(transport.error().message, HasSubstr("rank 0: settings of"));
                    }),
            0);
}

class Verbs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no RDMA device here; ./run softroce brings some";
  }
};

/// Everybody puts blocks of many sizes to everybody on another server; all is compared.
void exchange_all(const Shape& shape, const std::vector<size_t>& sizes,
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

/// All pairs connect at once, so both ranks of many ask for the same connection.
TEST_F(Verbs, PutsArriveWholeOnConnectionsMadeByLibrdmacm) {
  if (!usable_ports({})->front().ethernet) GTEST_SKIP() << "InfiniBand ports have no IP addresses";
  TransportOptions options;
  options.connect = ConnectBy::kRdmacm;
  exchange_all(layout({2, 2, 2, 2}), {0, 1, 5000, 100'000}, options);
  exchange_all(layout({3, 1, 2}), {8}, options);
}

TEST_F(Verbs, PutsArriveWholeBetweenFourServersOfTwo) {
  exchange_all(layout({2, 2, 2, 2}), {0, 1, 8, 256, 257, 4095, 4096, 65537, 1 << 20});
}
TEST_F(Verbs, PutsArriveWholeBetweenUnequalServersDealtCyclically) {
  exchange_all(layout({3, 1, 2}, Placement::kCyclic), {0, 3, 4096, 1 << 17});
}
TEST_F(Verbs, PutsOfFourMegabytesArriveWhole) { exchange_all(layout({1, 1}), {4 << 20}); }

TEST_F(Verbs, ASignalCoversEarlierPutsAndFewCompletionsAreAskedFor) {
  const Shape shape = layout({1, 1});
  constexpr size_t kPuts = 1000, kBytes = 512;
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    Node node(bootstrap, shape);
    ASSERT_TRUE(node.good());
    const Pages memory(kPuts * kBytes);
    MemoryKey key;
    const auto places = node.share(memory.data(), kPuts * kBytes, key);
    if (node.me() == 0) {
      for (size_t i = 0; i < kPuts * kBytes; ++i) memory.data()[i] = pattern(0, 1, i);
      for (size_t i = 0; i < kPuts; ++i) {
        const RemoteAddress place{places[1].address + i * kBytes, places[1].key};
        ASSERT_TRUE(node.put(1, memory.data() + i * kBytes, key, place, kBytes,
                             NetworkTransport::kNoSignal));
      }
      ASSERT_TRUE(node.signal(1, 77));
      ASSERT_TRUE(node.drain(1));
      uint64_t completions = 0;
      for (const NamedCounter& counter : node.transport().details())
        if (counter.name == "completions") completions = counter.value;
      EXPECT_LE(completions, (kPuts + 1 + 31) / 32 + 1);
      EXPECT_EQ(node.transport().counters().data_messages, kPuts);
      EXPECT_EQ(node.transport().counters().tokens, 1u);
    } else {
      const auto seen = node.next();
      ASSERT_TRUE(seen.has_value());
      EXPECT_EQ(seen->immediate, 77u);
      size_t wrong = 0;
      for (size_t i = 0; i < kPuts * kBytes; ++i) wrong += memory.data()[i] != pattern(0, 1, i);
      EXPECT_EQ(wrong, 0u);
    }
    node.close();
  });
  EXPECT_EQ(status, 0);
}

TEST_F(Verbs, MailsArriveInOrderAndNeverMoreThanTwoUntaken) {
  const Shape shape = layout({1, 1});
  const std::vector<size_t> sizes = {1, 64, 256, 257, NetworkTransport::kMaxMailBytes};
  constexpr size_t kMails = 200;
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    Node node(bootstrap, shape);
    ASSERT_TRUE(node.good());
    if (node.me() == 0) {
      std::vector<std::byte> mail;
      for (size_t i = 0; i < kMails; ++i) {
        mail.assign(sizes[i % sizes.size()], static_cast<std::byte>(i));
        ASSERT_TRUE(node.until([&] { return node.transport().mail(1, mail); }));
        if (i == 1) {
          // The peer takes none before the barrier: a third one has no place.
          node.transport().flush();
          const auto end = Clock::now() + milliseconds(50);
          while (Clock::now() < end) {
            node.poll();
            EXPECT_FALSE(node.transport().mail(1, mail));
          }
          ASSERT_TRUE(bootstrap.barrier());
        }
      }
    } else {
      // The connection needs this side, so it polls until that is up but takes no mail: none is
      // handed out to a span of no arrivals.
      const auto end = Clock::now() + milliseconds(500);
      while (Clock::now() < end) {
        node.transport().poll({});
        std::this_thread::yield();
      }
      ASSERT_TRUE(bootstrap.barrier());
      for (size_t i = 0; i < kMails; ++i) {
        const auto seen = node.next();
        ASSERT_TRUE(seen.has_value());
        EXPECT_EQ(seen->kind, Arrival::Kind::kMail);
        EXPECT_EQ(seen->mail,
                  std::vector<std::byte>(sizes[i % sizes.size()], static_cast<std::byte>(i)));
      }
    }
    node.close();
  });
  EXPECT_EQ(status, 0);
}

TEST_F(Verbs, ARankThatComesLateIsWaitedFor) {
  const Shape shape = layout({1, 1});
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    Node node(bootstrap, shape);
    ASSERT_TRUE(node.good());
    if (node.me() == 1) std::this_thread::sleep_for(seconds(2));
    ASSERT_TRUE(node.signal(1 - node.me(), 5));
    const auto seen = node.next();
    ASSERT_TRUE(seen.has_value());
    EXPECT_EQ(seen->immediate, 5u);
    node.close();
  });
  EXPECT_EQ(status, 0);
}

TEST_F(Verbs, MoreSignalsThanReceivesWaitForTheReceiver) {
  const Shape shape = layout({1, 1, 1});
  TransportOptions options;
  options.receives = 16;
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    Node node(bootstrap, shape, options);
    ASSERT_TRUE(node.good());
    constexpr uint32_t kSignals = 300;
    if (node.me() == 0) {
      uint32_t expected[3] = {0, 0, 0};
      for (uint32_t i = 0; i < 2 * kSignals; ++i) {
        const auto seen = node.next();
        ASSERT_TRUE(seen.has_value()) << node.transport().failure().value_or(Failure{}).what;
        EXPECT_EQ(seen->immediate, expected[seen->from]++);
        if (i % 100 == 0) std::this_thread::sleep_for(milliseconds(20));
      }
    } else {
      for (uint32_t i = 0; i < kSignals; ++i) ASSERT_TRUE(node.signal(0, i));
      ASSERT_TRUE(node.drain(0));
    }
    node.close();
  });
  EXPECT_EQ(status, 0);
}

TEST_F(Verbs, ABufferIsRegisteredOnceUntilItIsUnmapped) {
  const Shape shape = layout({1, 1});
  constexpr size_t kBytes = 1 << 16;
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    Node node(bootstrap, shape);
    ASSERT_TRUE(node.good());
    NetworkTransport& transport = node.transport();
    const Pages target(kBytes);
    MemoryKey target_key;
    const auto places = node.share(target.data(), kBytes, target_key);
    void* address = nullptr;
    for (int round = 0; round < 3; ++round) {
      // The same addresses with other pages behind them each time.
      void* source = mmap(address, kBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | (address ? MAP_FIXED_NOREPLACE : 0), -1, 0);
      ASSERT_NE(source, MAP_FAILED);
      address = source;
      std::memset(source, 10 * round + node.me(), kBytes);
      const uint64_t before = transport.counters().registrations;
      for (int repeat = 0; repeat < 3; ++repeat) {
        const auto key = transport.register_memory(source, kBytes);
        ASSERT_TRUE(key.has_value());
        ASSERT_TRUE(node.put(1 - node.me(), source, *key,
                             places[static_cast<size_t>(1 - node.me())], kBytes, 1));
        ASSERT_TRUE(node.drain(1 - node.me()));
        ASSERT_TRUE(node.next().has_value());
        EXPECT_EQ(target.data()[kBytes - 1], static_cast<std::byte>(10 * round + 1 - node.me()));
        ASSERT_TRUE(bootstrap.barrier());
        transport.deregister_memory(*key);
      }
      EXPECT_GE(transport.counters().registrations, before + 1);
      munmap(source, kBytes);
    }
    node.close();
  });
  EXPECT_EQ(status, 0);
}

TEST_F(Verbs, SleepersAreWokenByArrivals) {
  const Shape shape = layout({1, 1});
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    prepare_bells();
    Node node(bootstrap, shape);
    ASSERT_TRUE(node.good());
    Bell bell;
    for (uint32_t i = 0; i < 20; ++i) {
      if (node.me() == static_cast<Rank>(i % 2)) {
        std::this_thread::sleep_for(milliseconds(5));
        ASSERT_TRUE(node.signal(1 - node.me(), i));
        continue;
      }
      std::array<Arrival, 4> arrivals;
      size_t count = 0;
      const auto begin = Clock::now();
      while (count == 0) {
        const uint32_t announced = announce_sleep(bell);
        ASSERT_TRUE(node.transport().wake_on_arrival(bell));
        count = node.transport().poll(arrivals);
        if (count == 0) sleep_on(bell, announced, 20'000'000'000);
        end_sleep(bell);
      }
      EXPECT_EQ(arrivals[0].immediate, i);
      EXPECT_LT(Clock::now() - begin, seconds(10)) << "slept on although something had arrived";
    }
    node.close();
  });
  EXPECT_EQ(status, 0);
}

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

TEST_F(Verbs, TwoJobsUseOneDeviceAtOnce) {
  std::vector<pid_t> jobs;
  for (int job = 0; job < 2; ++job) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      exchange_all(layout({2, 2}), {0, 8, 70000});
      std::fflush(nullptr);
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    jobs.push_back(pid);
  }
  for (const pid_t pid : jobs) {
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
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

#endif  // IBCOLL_HAVE_VERBS
