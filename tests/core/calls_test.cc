// Calls as users make them: several in flight, on overlapping groups, persistent; and what is
// refused.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "engine/core/exchange_counts.h"
#include "tests/exchange.h"

namespace ibcoll {
namespace {

using testing::Exchange;
using testing::job_of;
using testing::JobOptions;
using testing::one_call;
using testing::pattern;
using testing::RankView;

TEST(Calls, ManyInFlightOfAllSizesFinishInAnyOrder) {
  for (const bool threads : {false, true}) {
    JobOptions job = job_of({2, 1, 2});
    job.threads = threads;
    EXPECT_EQ(
        run_job(
            job,
            [](const RankView& rank) {
              std::vector<std::unique_ptr<Exchange>> calls;
              for (uint32_t i = 0; i < 40; ++i) {
                const size_t bytes = std::array<size_t, 5>{8, 100, 3000, 20000, 70000}[i % 5];
                calls.push_back(std::make_unique<Exchange>(rank.context.world(), bytes, i));
                if (!rank.good(calls.back()->post(), "post")) return;
              }
              // Each rank waits in an order of its own.
              for (size_t i = 0; i < calls.size(); ++i) {
                Exchange& exchange =
                    *calls[(i * 7 + static_cast<size_t>(rank.context.rank()) * 11) % calls.size()];
                if (!rank.good(exchange.call().wait(), "wait")) return;
                if (!exchange.right()) rank.complain("wrong data");
              }
            }),
        "");
  }
}

TEST(Calls, OverlappingGroupsMayBePostedInAnyOrder) {
  for (const std::vector<int>& layout : {std::vector<int>{4}, {2, 2}, {1, 1, 2}}) {
    EXPECT_EQ(run_job(job_of(layout),
                      [](const RankView& rank) {
                        const Rank me = rank.context.rank();
                        std::vector<std::shared_ptr<Group>> groups;
                        for (const std::vector<Rank>& members :
                             {std::vector<Rank>{0, 1, 2}, {3, 2, 1}, {0, 3}, {2, 0, 1, 3}}) {
                          if (std::find(members.begin(), members.end(), me) == members.end())
                            continue;
                          auto group = rank.context.groups().create(members);
                          if (!rank.good(group, "group")) return;
                          groups.push_back(std::move(*group));
                        }
                        for (uint32_t round = 0; round < 30; ++round) {
                          std::vector<std::unique_ptr<Exchange>> calls;
                          for (size_t i = 0; i < groups.size(); ++i) {
                            // Which group comes first differs from rank to rank.
                            Group& group =
                                *groups[(i + static_cast<size_t>(me) + round) % groups.size()];
                            calls.push_back(
                                std::make_unique<Exchange>(group, 50 + 9000 * (round % 3), round));
                            if (!rank.good(calls.back()->post(), "post")) return;
                          }
                          for (auto& exchange : calls) {
                            if (!rank.good(exchange->call().wait(), "wait")) return;
                            if (!exchange->right()) rank.complain("wrong data");
                          }
                        }
                      }),
              "");
  }
}

TEST(Calls, PersistentCallsAreStartedAgainAndAgain) {
  EXPECT_EQ(run_job(job_of({2, 2}),
                    [](const RankView& rank) {
                      Exchange exchange(rank.context.world(), 3000, 0);
                      if (!rank.good(exchange.prepare(), "prepare")) return;
                      for (uint32_t i = 0; i < 50; ++i) {
                        exchange.set_number(i);
                        if (!rank.good(exchange.call().start(), "start")) return;
                        if (i % 2 == 0) {
                          Result<bool> done = false;
                          while (done && !*done) done = exchange.call().test();
                          if (!rank.good(done, "test")) return;
                        } else if (!rank.good(exchange.call().wait(), "wait")) {
                          return;
                        }
                        if (!exchange.right()) rank.complain("wrong data");
                      }
                    }),
            "");
}

TEST(Calls, SequenceNumbersWrapAround) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {2, 1}}) {
    EXPECT_EQ(run_job(job_of(layout),
                      [](const RankView& rank) {
                        rank.context.world().state().calls.begin_at(0xffff'fffb);
                        for (uint32_t i = 0; i < 24; ++i) {
                          Exchange exchange(rank.context.world(), 600, i, "two_level_ring");
                          if (!rank.good(exchange.post(), "post") ||
                              !rank.good(exchange.call().wait(), "wait"))
                            return;
                          if (!exchange.right()) rank.complain("wrong data");
                        }
                      }),
              "");
  }
}

TEST(Calls, CountsThatOneSideKnowsAreFilledIn) {
  EXPECT_EQ(
      run_job(job_of({2, 1}),
              [](const RankView& rank) {
                const Rank me = rank.context.rank();
                std::vector<int64_t> send(3), recv(3);
                for (Rank peer = 0; peer < 3; ++peer) {
                  // The lower rank of a pair knows both directions, the higher none.
                  send[peer] = me <= peer ? me * 10 + peer : -1;
                  recv[peer] = me <= peer ? peer * 10 + me : -1;
                }
                if (!rank.good(exchange_counts(rank.context.world(), send.data(), recv.data()),
                               "exchange"))
                  return;
                for (Rank peer = 0; peer < 3; ++peer) {
                  if (send[peer] != me * 10 + peer || recv[peer] != peer * 10 + me)
                    rank.complain("wrong count");
                }
              }),
      "");
}

TEST(Misuse, BuffersAndCountsAreCheckedBeforeAnythingIsSent) {
  EXPECT_EQ(run_job(job_of({2}),
                    [](const RankView& rank) {
                      Group& group = rank.context.world();
                      std::vector<std::byte> memory(100);
                      CallArguments arguments;
                      arguments.collective = Collective::kAlltoall;
                      arguments.send = memory.data();
                      arguments.recv = memory.data() + 50;
                      arguments.block_bytes = 25;
                      const auto refused = [&](const CallArguments& a, const std::string& text) {
                        Call call(group);
                        const Status status = call.prepare(a);
                        if (status || status.error().message.find(text) == std::string::npos) {
                          rank.complain(fmt::format("'{}' expected, got '{}'", text,
                                                    status ? "success" : status.error().message));
                        }
                      };
                      CallArguments bad = arguments;
                      bad.block_bytes = size_t{1} << 62;
                      refused(bad, "2^62");
                      bad = arguments;
                      bad.recv_limit = 49;
                      refused(bad, "too small");
                      bad = arguments;
                      bad.recv = memory.data() + 20;
                      refused(bad, "overlap");
                      bad = arguments;
                      bad.recv = nullptr;
                      refused(bad, "null");
                      bad = arguments;
                      bad.options.algorithm = "magic";
                      refused(bad, "two_level_ring");  // lists what there is
                      std::vector<int64_t> counts{int64_t{1} << 61, int64_t{1} << 61},
                          more{int64_t{1} << 61, (int64_t{1} << 61) + 1}, negative{1, -1},
                          places{0, 0};
                      bad = arguments;
                      bad.collective = Collective::kAlltoallv;
                      bad.send_counts = bad.recv_counts = more.data();
                      bad.send_displacements = bad.recv_displacements = places.data();
                      refused(bad, "2^62");
                      bad.send_counts = bad.recv_counts = negative.data();
                      refused(bad, "negative");
                      bad.send_counts = nullptr;
                      bad.recv_counts = places.data();
                      refused(bad, "null");
                      // After all that the group still works.
                      rank.good(one_call(group, 64, {}), "call");
                    }),
            "");
}

TEST(Misuse, AForkedChildIsRefusedAndTheParentGoesOn) {
  EXPECT_EQ(run_job(job_of({2}),
                    [](const RankView& rank) {
                      const pid_t child = fork();
                      if (child == 0) {
                        const EntryGuard::Entry entry(rank.context.threads().guard());
                        _exit(entry.refused() != nullptr ? 0 : 1);
                      }
                      int status = 0;
                      waitpid(child, &status, 0);
                      if (status != 0) rank.complain("the child was let in");
                      rank.good(one_call(rank.context.world(), 5000, {}), "call after fork");
                    }),
            "");
}

TEST(Misuse, ASecondThreadInsideIsRefused) {
  EXPECT_EQ(run_job(job_of({1}),
                    [](const RankView& rank) {
                      const EntryGuard::Entry first(rank.context.threads().guard());
                      bool refused = false;
                      std::thread([&] {
                        refused =
                            EntryGuard::Entry(rank.context.threads().guard()).refused() != nullptr;
                      }).join();
                      if (first.refused() != nullptr || !refused)
                        rank.complain("two threads were inside");
                    }),
            "");
}

TEST(CallsFull, BlocksOverTwoGibibytes) {
  constexpr size_t kBytes = (size_t{1} << 31) + 4097;
  for (const std::vector<int>& layout : {std::vector<int>{2}, {1, 1}}) {
    EXPECT_EQ(run_job(job_of(layout),
                      [](const RankView& rank) {
                        const Rank me = rank.context.rank();
                        // Only rank 0 sends, and only to rank 1: four gibibytes in all.
                        std::vector<std::byte> data(kBytes);
                        std::vector<int64_t> none{0, 0}, out{0, static_cast<int64_t>(kBytes)},
                            in{static_cast<int64_t>(kBytes), 0};
                        if (me == 0) {
                          for (size_t i = 0; i < kBytes; ++i) data[i] = pattern(0, 1, i, 0);
                        }
                        CallArguments arguments;
                        arguments.collective = Collective::kAlltoallv;
                        std::byte unused{};
                        arguments.send = me == 0 ? data.data() : &unused;
                        arguments.recv = me == 0 ? &unused : data.data();
                        arguments.send_counts = me == 0 ? out.data() : none.data();
                        arguments.recv_counts = me == 0 ? none.data() : in.data();
                        arguments.send_displacements = arguments.recv_displacements = none.data();
                        Call call(rank.context.world());
                        if (!rank.good(call.prepare(arguments), "prepare") ||
                            !rank.good(call.start(), "start") || !rank.good(call.wait(), "wait")) {
                          return;
                        }
                        for (size_t i = 0; me == 1 && i < kBytes; ++i) {
                          if (data[i] != pattern(0, 1, i, 0))
                            return rank.complain(fmt::format("byte {} is wrong", i));
                        }
                      }),
              "");
  }
}

}  // namespace
}  // namespace ibcoll
