#include "engine/transport/loopback.h"

#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/pages.h"
#include "engine/transport/open.h"
#include "tests/proc.h"
#include "tests/transport/loopback_job.h"

namespace ibcoll {
namespace {

using namespace testing_loopback;

INSTANTIATE_TEST_SUITE_P(, Loopback, all_networks(), testing::named);

TEST_P(Loopback, BlocksLargerThanEveryBufferArrive) {
  EXPECT_EQ(run(2, 0,
                [](Node& node) -> int {
                  constexpr size_t kBytes = (8 << 20) + 3;
                  Exposed memory = expose(node, kBytes, kPoison);
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

Arrival await_one(Node& node) {
  std::array<Arrival, 1> one{};
  while (node.net.poll(one) == 0 && !node.bootstrap.failure()) std::this_thread::yield();
  return one[0];
}

/// Both ranks send each other two mails, and signals until each ring has been used all around.
int exchange_mails_and_signals(Node& node, size_t mail_bytes) {
  const Rank me = node.me(), peer = 1 - me;
  std::vector<std::byte> mail(mail_bytes);
  for (uint32_t index = 0; index < 2; ++index) {
    for (size_t i = 0; i < mail_bytes; ++i) mail[i] = content(me, peer, index, i);
    CHECK_RANK(node.net.mail(peer, mail));
  }
  CHECK_RANK(node.bootstrap.barrier());
  for (uint32_t index = 0; index < 2; ++index) {
    const Arrival arrival = await_one(node);
    CHECK_RANK(arrival.mail.size() == mail_bytes);
    for (size_t i = 0; i < mail_bytes; ++i)
      CHECK_RANK(arrival.mail[i] == content(peer, me, index, i));
  }
  for (uint32_t i = 0; i < 300; ++i) {
    while (!node.net.signal(peer, i)) node.net.poll({});
    CHECK_RANK(await_one(node).immediate == i);
  }
  return kGood;
}

TEST_P(Loopback, TwoRanksShareAPageUnlessTheirMailsAreLong) {
  const std::pair<size_t, size_t> kPagesOfMails[] = {{384, 1},
                                                     {NetworkTransport::kMaxMailBytes, 5}};
  for (const auto& [mail_bytes, pages] : kPagesOfMails) {
    EXPECT_EQ(run(2, 0,
                  [mail_bytes = mail_bytes, pages = pages](Node& node) -> int {
                    const std::string region = "ibcoll-network";
                    const size_t before = testing::resident_bytes(region);
                    CHECK_RANK(node.bootstrap.barrier());
                    CHECK_RANK(exchange_mails_and_signals(node, mail_bytes) == kGood);
                    const size_t grown = testing::resident_bytes(region) - before;
                    // One more says who has sent something.
                    CHECK_RANK(grown > 0 && grown <= (1 + pages) * page_bytes());
                    CHECK_RANK(node.bootstrap.barrier());
                    return node.net.close() ? kGood : kWrong;
                  }),
              kGood);
    const Result<NetworkMemory> reckoned = network_memory(
        "loopback",
        {.ranks = 2, .outside = 1, .connections = 1, .mailed = 1, .longest_mail = mail_bytes});
    ASSERT_TRUE(reckoned.has_value());
    EXPECT_EQ(reckoned->items.front().what, "pairs of the software network");
    EXPECT_EQ(2 * reckoned->items.front().bytes, pages * 4096);
  }
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
int expect_failure(Node& node, const std::function<bool(Exposed&)>& post,
                   const std::vector<std::string>& parts) {
  Exposed memory = expose(node, 4096, kPoison);
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
            [&](Exposed& memory) {
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
                                        [&](Exposed& memory) {
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
            Exposed memory = expose(node, 4096, kPoison);
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
                  Exposed memory = expose(node, 4096, kPoison);
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

TEST(LoopbackOptions, ThatOneRankCannotReadAreAnErrorOnAll) {
  LaunchOptions launch;
  launch.ranks = 3;
  const auto status = launch_processes(launch, [](Bootstrap& bootstrap) -> int {
    auto region = SharedRegion::create(bootstrap, 0, sizeof(Bell) * 3, "bells");
    const auto places = exchange_places(bootstrap);
    CHECK_RANK(region.has_value() && places.has_value());
    Result<LoopbackOptions> options;
    if (bootstrap.rank() == 1) options = fail(ErrorCode::kInvalidArgument, "no such placing");
    const std::span bells(reinterpret_cast<Bell*>(region->data()), 3);
    const auto net = create_loopback(bootstrap, bells, processes_at(places->here), options);
    CHECK_RANK(!net.has_value());
    const char* expected = bootstrap.rank() == 1 ? "no such placing" : "rank 1 can't read";
    CHECK_RANK(net.error().message.find(expected) != std::string::npos);
    return kGood;
  });
  EXPECT_EQ(status.value(), kGood);
}

}  // namespace
}  // namespace ibcoll
