// How many messages, tokens, completions, queue pairs and registrations calls over verbs take.
// Needs an RDMA device; tests/softroce brings one for each server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <numeric>
#include <thread>

#include "tests/command.h"
#include "tests/job.h"
#include "tests/places.h"
#include "verbs/device.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;
using testing::JobOptions;
using testing::RankView;

/// What one rank's network has done so far.
struct Tally {
  TransportCounters counters;
  uint64_t completions = 0;
  std::vector<uint64_t> posted;  ///< by rank

  explicit Tally(Context& context) : counters(context.job().network()->counters()) {
    for (const NamedCounter& counter : context.job().network()->details())
      if (counter.name == "completions") completions = counter.value;
    for (Rank rank = 0; rank < context.size(); ++rank)
      posted.push_back(context.job().network()->posted(rank));
  }
};

class VerbsCounts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!verbs::usable_ports({})) GTEST_SKIP() << "no RDMA device here; ./run softroce brings some";
  }
  static std::string run(const std::vector<int>& layout,
                         const std::function<void(const RankView&)>& body) {
    JobOptions job;
    job.shape = *Shape::from_layout(layout, Placement::kBlock);
    job.context.transport = "verbs";
    return run_job(job, body);
  }
  /// `calls` blocking all-to-alls with the same buffers.
  static bool all_to_alls(const RankView& rank, std::string_view algorithm, size_t block_bytes,
                          int calls, std::vector<std::byte>& send, std::vector<std::byte>& recv) {
    const auto bytes = static_cast<size_t>(rank.context.size()) * block_bytes;
    send.resize(bytes);
    recv.resize(bytes);
    CallArguments arguments;
    arguments.collective = Collective::kAlltoall;
    arguments.send = send.data();
    arguments.recv = recv.data();
    arguments.block_bytes = block_bytes;
    arguments.options.algorithm = algorithm;
    for (int i = 0; i < calls; ++i) {
      Call call(rank.context.world());
      if (!rank.good(call.prepare(arguments), "prepare") || !rank.good(call.start(), "start") ||
          !rank.good(call.wait(), "wait"))
        return false;
    }
    return true;
  }
};

TEST_F(VerbsCounts, AggregationSendsOneMessageAServer) {
  for (const size_t bytes : {1000, 10'000}) {  // eager and not
    EXPECT_EQ(run({2, 2, 2, 2},
                  [bytes](const RankView& rank) {
                    constexpr uint64_t kOthers = 3, kCalls = 10;
                    std::vector<std::byte> send, recv;
                    for (uint64_t done = 0; done < kCalls; ++done) {
                      // Late enough that the others ask after it: that is no token.
                      if (done == kCalls - 1 && rank.context.rank() == 0)
                        std::this_thread::sleep_for(std::chrono::milliseconds(500));
                      if (!all_to_alls(rank, "aggregate", bytes, 1, send, recv)) return;
                      const Tally tally(rank.context);
                      if (tally.counters.data_messages != kOthers * (done + 1))
                        rank.complain(fmt::format("{} data messages in {} calls",
                                                  tally.counters.data_messages, done + 1));
                      if (tally.counters.tokens > kOthers * (done + 1))
                        rank.complain(
                            fmt::format("{} tokens in {} calls", tally.counters.tokens, done + 1));
                      if (tally.counters.queue_pairs > kOthers)
                        rank.complain(fmt::format("{} queue pairs", tally.counters.queue_pairs));
                    }
                  }),
              "");
  }
}

TEST_F(VerbsCounts, CompletionsAreFew) {
  for (const char* algorithm : {"ring", "linear", "two_level_ring", "aggregate"}) {
    for (const size_t bytes : {500, 10'000}) {  // eager and not
      EXPECT_EQ(run({2, 2, 2},
                    [&](const RankView& rank) {
                      constexpr int kCalls = 40;
                      std::vector<std::byte> send, recv;
                      if (!all_to_alls(rank, algorithm, bytes, 2, send, recv)) return;
                      const Tally before(rank.context);
                      if (!all_to_alls(rank, algorithm, bytes, kCalls, send, recv)) return;
                      const Tally after(rank.context);
                      uint64_t allowed = 0, writes = 0;
                      for (size_t peer = 0; peer < after.posted.size(); ++peer) {
                        const uint64_t posted = after.posted[peer] - before.posted[peer];
                        if (posted == 0) continue;
                        writes += posted;
                        // Those of the calls before may come late.
                        allowed += (posted + 31) / 32 + kCalls + 1;
                      }
                      const uint64_t completions = after.completions - before.completions;
                      if (completions > allowed)
                        rank.complain(fmt::format("{} completions of {} writes in {} calls",
                                                  completions, writes, kCalls));
                    }),
                "")
          << algorithm << ", " << bytes;
    }
  }
}

TEST_F(VerbsCounts, ManyWritesToOnePeerTakeOneCompletionIn32) {
  EXPECT_EQ(run({1, 1},
                [](const RankView& rank) {
                  // A relay in 200 pieces: one call with hundreds of writes to the one peer.
                  constexpr size_t kBlock = 200'000;
                  constexpr int kCalls = 5;
                  std::vector<std::byte> send(kBlock), recv(2 * kBlock);
                  CallArguments arguments;
                  arguments.collective = Collective::kAllgather;
                  arguments.send = send.data();
                  arguments.recv = recv.data();
                  arguments.block_bytes = kBlock;
                  arguments.options = {"ring", std::nullopt, 200};
                  const auto gather = [&](int calls) {
                    for (int i = 0; i < calls; ++i) {
                      Call call(rank.context.world());
                      if (!rank.good(call.prepare(arguments), "prepare") ||
                          !rank.good(call.start(), "start") || !rank.good(call.wait(), "wait"))
                        return false;
                    }
                    return true;
                  };
                  if (!gather(1)) return;
                  const Tally before(rank.context);
                  if (!gather(kCalls)) return;
                  const Tally after(rank.context);
                  const auto peer = static_cast<size_t>(1 - rank.context.rank());
                  const uint64_t writes = after.posted[peer] - before.posted[peer];
                  const uint64_t completions = after.completions - before.completions;
                  if (completions > (writes + 31) / 32 + kCalls + 1)
                    rank.complain(fmt::format("{} completions of {} writes", completions, writes));
                }),
            "");
}

TEST_F(VerbsCounts, BuffersAreRegisteredOnce) {
  EXPECT_EQ(
      run({2, 1, 1},
          [](const RankView& rank) {
            std::vector<std::byte> send, recv;
            if (!all_to_alls(rank, "ring", 20000, 1, send, recv)) return;
            const uint64_t first = Tally(rank.context).counters.registrations;
            if (first > 2) rank.complain(fmt::format("{} registrations", first));
            if (!all_to_alls(rank, "ring", 20000, 20, send, recv)) return;
            const uint64_t steady = Tally(rank.context).counters.registrations;
            if (steady != first)
              rank.complain(fmt::format("{} more registrations in steady state", steady - first));
            // Scratch is one more buffer.
            if (!all_to_alls(rank, "aggregate", 20000, 20, send, recv)) return;
            if (const uint64_t with_scratch = Tally(rank.context).counters.registrations;
                with_scratch > steady + 1)
              rank.complain(fmt::format("{} registrations with scratch", with_scratch));
          }),
      "");
}

/// With what stands on standard error.
testing_tools::CommandRan output_of(const std::string& command) {
  return testing_tools::run_command(command + " 2>&1");
}
const std::string kBench = testing_tools::bin_dir() +
                           "/ib_a2a_bench --ranks 4 --servers 2 --sizes 4K --iterations 2 --check";

TEST(VerbsChoice, VerbsWithoutTheDeviceSaysWhatWasLookedFor) {
  const auto [status, text] =
      output_of("IBCOLL_TRANSPORT=verbs IBCOLL_DEVICES=nosuch7:1 " + kBench);
  EXPECT_NE(status, 0);
  EXPECT_THAT(text, ::testing::AllOf(HasSubstr("no verbs transport: rank "),
                                     HasSubstr("no usable RDMA port \"nosuch7:1\"")));
}

TEST(VerbsChoice, AutoTakesTheLoopbackForEmulatedServersAndSaysSo) {
  const auto [status, text] = output_of("IBCOLL_TRANSPORT=auto IBCOLL_LOG_LEVEL=info " + kBench);
  EXPECT_EQ(status, 0) << text;
  EXPECT_THAT(text, HasSubstr("the software loopback joins these emulated servers: "));
  EXPECT_THAT(text,
              ::testing::AnyOf(HasSubstr("no usable RDMA port"), HasSubstr("verbs would use ")));
}

TEST_F(VerbsCounts, TheBenchmarkRunsOverVerbs) {
  const auto [status, text] = output_of("IBCOLL_TRANSPORT=verbs " + kBench + " --json -");
  EXPECT_EQ(status, 0) << text;
  EXPECT_THAT(text, ::testing::AllOf(HasSubstr("\"transport\":\"verbs\""),
                                     HasSubstr("\"network\":{\"queue_pairs\":"),
                                     HasSubstr("\"registrations\":"), HasSubstr("\"doorbells\":"),
                                     HasSubstr("\"completions\":"), HasSubstr("\"port_retries\":"),
                                     HasSubstr("\"port_receiver_not_ready\":")));
}

TEST_F(VerbsCounts, IbInfoShowsThePorts) {
  const auto [status, text] = output_of(testing_tools::bin_dir() + "/ib_info --json -");
  EXPECT_EQ(status, 0) << text;
  EXPECT_THAT(text, ::testing::AllOf(HasSubstr("\"kind\":\"rdma_port_use\""),
                                     HasSubstr("\"usable\":true"), HasSubstr("\"gid_type\":\"")));
}

}  // namespace
}  // namespace ibcoll
