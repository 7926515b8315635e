// The verbs transport between servers that are emulated on this machine, each with a device of its
// own as far as they go. Without an RDMA device only what needs none runs; tests/softroce runs all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "tests/api_job.h"
#include "tests/verbs/verbs_node.h"

namespace ibcoll::verbs {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

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

TEST(VerbsDevices, APortThatIsNamedTwiceIsUsedOnce) {
  if (!has_device()) GTEST_SKIP() << "no RDMA device here";
  const PortInfo first = usable_ports({})->front();
  DeviceOptions options;
  options.devices = {first.name(), first.device, first.name()};
  const auto ports = usable_ports(options);
  ASSERT_TRUE(ports.has_value()) << ports.error().message;
  EXPECT_EQ(ports->size(), 1u);
}

TEST(VerbsDevices, AJobWithoutTheDeviceFailsOnAllRanksAlike) {
  const Shape shape = layout({1, 1});
  EXPECT_EQ(run_job(shape,
                    [&](Bootstrap& bootstrap) {
                      TransportOptions options;
                      options.devices.devices = {"nosuch7"};
                      const auto transport = open_here(bootstrap, shape, options);
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
                      const auto transport = open_here(bootstrap, shape, options);
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
                      const auto transport = open_here(bootstrap, shape, options);
                      ASSERT_FALSE(transport.has_value());
                      EXPECT_THAT(transport.error().message, HasSubstr("rank 0: settings of"));
                    }),
            0);
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

/// As many segments as the network takes, of lengths that are nothing's multiple, in one request.
TEST_F(Verbs, PutsOfManySegmentsAreOneMessageAndArriveWhole) {
  const Shape shape = layout({1, 1});
  const int status = run_job(shape, [&](Bootstrap& bootstrap) {
    Node node(bootstrap, shape);
    ASSERT_TRUE(node.good());
    const size_t most = node.transport().max_put_segments();
    EXPECT_GE(most, 2u);
    for (const size_t segment_bytes : {size_t{3}, size_t{5000}, size_t{70'001}}) {
      const size_t stride = segment_bytes + 777, bytes = most * segment_bytes;
      const Pages source(most * stride), target(bytes + 1);
      MemoryKey source_key, target_key;
      node.share(source.data(), most * stride, source_key);
      const auto places = node.share(target.data(), bytes + 1, target_key);
      std::vector<PutSegment> segments;
      for (size_t i = 0; i < most; ++i) {
        segments.push_back({source.data() + i * stride, segment_bytes});
        for (size_t at = 0; at < segment_bytes; ++at)
          source.data()[i * stride + at] = pattern(node.me(), 0, i * segment_bytes + at);
      }
      const Rank peer = 1 - node.me();
      const uint64_t before = node.transport().posted(peer);
      ASSERT_TRUE(node.until([&] {
        return node.transport().put_segments(peer, segments, source_key,
                                             places[static_cast<size_t>(peer)], 7);
      }));
      EXPECT_EQ(node.transport().posted(peer), before + 1);
      node.transport().flush();
      const auto seen = node.next();
      ASSERT_TRUE(seen.has_value());
      EXPECT_EQ(seen->immediate, 7u);
      size_t wrong = 0;
      for (size_t at = 0; at < bytes; ++at) wrong += target.data()[at] != pattern(peer, 0, at);
      EXPECT_EQ(wrong, 0u);
      EXPECT_EQ(target.data()[bytes], std::byte{0}) << "written past the end";
      ASSERT_TRUE(node.drain(peer));
      ASSERT_TRUE(bootstrap.barrier());
      node.transport().deregister_memory(source_key);
      node.transport().deregister_memory(target_key);
    }
    EXPECT_EQ(node.transport().counters().gathers, 3u);
    EXPECT_EQ(node.transport().counters().data_messages, 3u);
    node.close();
  });
  EXPECT_EQ(status, 0);
}

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
  testing::SharedFlags& flags = testing::SharedFlags::create();
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
          flags.raise(0);
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
      while (flags.raised(0) == 0) {
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
    Node node(bootstrap, shape);
    ASSERT_TRUE(node.good());
    Bell bell;
    prepare_bells(bell);
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

}  // namespace
}  // namespace ibcoll::verbs
