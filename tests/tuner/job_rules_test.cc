// Jobs with a file of rules: their calls heed it, and one that is damaged, not there or for another
// job says so on all ranks alike.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "engine/bootstrap/launch.h"
#include "engine/tuner/rules.h"
#include "tests/job.h"
#include "tests/sweep.h"
#include "tests/tuner/rules_text.h"

namespace ibcoll {
namespace {

using namespace ibcoll::testing;
using ::testing::HasSubstr;

/// A job of 2x2 ranks, whose rules are in a file of the test.
class JobWithRules : public ::testing::Test {
 protected:
  void SetUp() override { path_ = ::testing::TempDir() + "rules." + std::to_string(getpid()); }
  ~JobWithRules() override { std::remove(path_.c_str()); }

  JobOptions job(const std::string& text) {
    std::ofstream(path_) << text;
    JobOptions options;
    options.shape = shape_of({2, 2});
    options.context.transport = "loopback";
    options.context.rules_file = path_;
    return options;
  }
  std::string path_;
};

/// What a rank would run for a call.
std::string algorithm_of(const RankView& rank, Group& group, Collective collective, int64_t bytes,
                         const CallOptions& options = {}) {
  const auto plan = group.plans().find(collective, bytes, 0, options);
  return rank.good(plan, "call plan") ? (*plan)->program->algorithm : "";
}

constexpr const char* kUnusual =
    R"({"collective": "alltoall", "algorithm": "bruck", "to": 4096})"
    "\n"
    R"({"collective": "alltoall", "algorithm": "two_level_ring", "pacing": "token", "from": 4097})"
    "\n"
    R"({"collective": "alltoall", "algorithm": "ring", "layout": "2x1"})"
    "\n"
    R"({"collective": "allgatherv", "algorithm": "recursive_doubling", "to": 100})"
    "\n";

TEST_F(JobWithRules, AllRanksHeedThem) {
  const std::string wrong = run_job(job(with_head(kUnusual)), [](const RankView& rank) {
    Group& world = rank.context.world();
    const auto expect = [&](Group& group, Collective collective, int64_t bytes,
                            const std::string& name, const CallOptions& options = {}) {
      const std::string got = algorithm_of(rank, group, collective, bytes, options);
      if (got != name) rank.complain(got + " where " + name + " was to be");
    };
    expect(world, Collective::kAlltoall, 4096, "bruck");
    expect(world, Collective::kAlltoall, 4097, "two_level_ring");
    expect(world, Collective::kAllgatherv, -1, "recursive_doubling");
    expect(world, Collective::kBarrier, 0, "dissemination");
    for (const auto& [last, name] :
         {std::pair(397, "recursive_doubling"), {401, "two_level_ring"}}) {
      const std::vector<int64_t> counts{1, 1, 1, last};
      const auto known = world.plans().find(Collective::kAllgatherv, -1, 0, {}, counts);
      if (rank.good(known, "call plan") && (*known)->program->algorithm != name)
        rank.complain(fmt::format("{} where {} was to be, by the mean of the blocks",
                                  (*known)->program->algorithm, name));
    }
    CallOptions forced;
    forced.algorithm = "linear";
    expect(world, Collective::kAlltoall, 4096, "linear", forced);
    const Rank me = rank.context.rank();
    auto column = rank.context.groups().create({me % 2, me % 2 + 2});
    auto server = rank.context.groups().create({me / 2 * 2, me / 2 * 2 + 1});
    if (!rank.good(column, "group") || !rank.good(server, "group")) return;
    expect(**column, Collective::kAlltoall, 8, "ring");
    expect(**server, Collective::kAlltoall, 8, "linear");
    const auto plan = world.plans().find(Collective::kAlltoall, 1 << 20, 0, {});
    if (rank.good(plan, "plan") && (*plan)->options.pacing != Pacing::kToken)
      rank.complain("another pacing");
    rank.context.plan_sources().rules = {};
    world.plans().forget();
    expect(world, Collective::kAlltoall, 4096, "aggregate");
  });
  EXPECT_EQ(wrong, "");
}

TEST_F(JobWithRules, CallsThatRulesChooseMoveTheirData) {
  const std::string wrong = run_job(job(with_head(kUnusual)), [](const RankView& rank) {
    Group& world = rank.context.world();
    const int ranks = rank.context.size(), me = rank.context.rank();
    for (const int64_t bytes : {1, 4096, 4097, 70'000}) {
      std::vector<std::byte> send(ranks * bytes), recv(ranks * bytes, kPoison);
      for (int peer = 0; peer < ranks; ++peer)
        for (int64_t i = 0; i < bytes; ++i) send[peer * bytes + i] = pattern(me, peer, i, 1);
      CallArguments arguments;
      arguments.collective = Collective::kAlltoall;
      arguments.send = send.data();
      arguments.recv = recv.data();
      arguments.block_bytes = static_cast<size_t>(bytes);
      Call call(world);
      if (!rank.good(call.prepare(arguments), "prepare") || !rank.good(call.start(), "start") ||
          !rank.good(call.wait(), "wait"))
        return;
      for (int peer = 0; peer < ranks; ++peer)
        for (int64_t i = 0; i < bytes; ++i)
          if (recv[peer * bytes + i] != pattern(peer, me, i, 1))
            return rank.complain(fmt::format("{} bytes: byte {} of rank {}", bytes, i, peer));
    }
  });
  EXPECT_EQ(wrong, "");
}

TEST_F(JobWithRules, ThatFitAnotherJobAreLeftOut) {
  const auto own_choice = [](const RankView& rank) {
    if (rank.context.plan_sources().rules.size() != 0) rank.complain("there are rules");
    const std::string got = algorithm_of(rank, rank.context.world(), Collective::kAlltoall, 4096);
    if (got != "aggregate") rank.complain(got);
  };
  for (const char* head : {R"({"ibcoll_rules": 1, "layout": "4x1"})",
                           R"({"ibcoll_rules": 1, "layout": "2x2", "transport": "verbs"})",
                           R"({"ibcoll_rules": 1, "layout": "2x2", "machines": 2})",
                           R"({"ibcoll_rules": 1, "layout": "2x2", "processor": "an abacus"})",
                           R"({"ibcoll_rules": 1, "layout": "2x2", "engine": "0.1"})"}) {
    EXPECT_EQ(run_job(job(std::string(head) + "\n" + kUnusual), own_choice), "") << head;
    JobOptions strict = job(std::string(head) + "\n" + kUnusual);
    strict.context.rules_strict = true;
    int status = 0;
    const std::string wrong = run_job(strict, own_choice, &status);
    EXPECT_NE(status, 0);
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_THAT(wrong,
                  HasSubstr(fmt::format("rank {}: no context: IBCOLL_RULES: {}: no rules for "
                                        "this job (IBCOLL_RULES_STRICT), they are for ",
                                        rank, path_)));
  }
}

TEST_F(JobWithRules, TheFirstSectionThatFitsCounts) {
  const std::string text = std::string(R"({"ibcoll_rules": 1, "layout": "7x3"})") + "\n" +
                           with_head(kUnusual) + with_head("");
  EXPECT_EQ(run_job(job(text),
                    [](const RankView& rank) {
                      if (rank.context.plan_sources().rules.size() != 4)
                        rank.complain("not those rules");
                    }),
            "");
}

TEST_F(JobWithRules, ThatAreDamagedFailOnAllRanksAlike) {
  for (const auto& [text, what] :
       {std::pair(std::string("{"), "line 1: is not JSON"),
        std::pair(with_head(R"({"collective": "alltoall", "algorithm": "rung"})"),
                  "line 2: unknown alltoall algorithm 'rung'")}) {
    int status = 0;
    const std::string wrong = run_job(
        job(text), [](const RankView&) {}, &status);
    EXPECT_NE(status, 0);
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_THAT(wrong, HasSubstr(fmt::format("rank {}: no context: IBCOLL_RULES: {}: {}", rank,
                                               path_, what)));
  }
}

TEST_F(JobWithRules, ThatCannotBeReadFailOnAllRanksAlike) {
  JobOptions options = job("");
  options.context.rules_file = "/nonexistent/rules";
  int status = 0;
  const std::string wrong = run_job(
      options, [](const RankView&) {}, &status);
  EXPECT_NE(status, 0);
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_THAT(wrong,
                HasSubstr(fmt::format(
                    "rank {}: no context: IBCOLL_RULES: can't read /nonexistent/rules: ", rank)));
}

TEST_F(JobWithRules, MustBeNamedOnAllRanks) {
  const JobOptions options = job(with_head(kUnusual));
  Complaints complaints(4);
  const RankMain main = [&](Bootstrap& bootstrap) {
    ContextOptions context = options.context;
    context.shape = options.shape;
    if (bootstrap.rank() == 2) context.rules_file.clear();
    const auto made = Context::create(bootstrap, context);
    complaints.add(bootstrap.rank(), made ? "made" : made.error().message);
    return 1;
  };
  LaunchOptions launch;
  launch.ranks = 4;
  launch.on_failure = [](const Failure&) {};
  ASSERT_TRUE(launch_processes(launch, main));
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(complaints.of(rank),
              "IBCOLL_RULES is set on rank 0, but not on rank 2: all ranks must have it");
}

}  // namespace
}  // namespace ibcoll
