// Collectives over UCX while ranks die, stop and come late, and while calls of UCP fail: each ends
// right, or with the same one error on every survivor, and never hangs.

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <thread>

#include "tests/faults.h"
#include "tests/launched.h"
#include "tests/ucx/ucx_lo.h"
#include "tests/ucx/ucx_shim.h"

namespace ibcoll::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

/// A test that takes longer hangs.
constexpr unsigned kHangSeconds = 100;

class UcxFaults : public UcxOnLo {
 protected:
  void SetUp() override {
    UcxOnLo::SetUp();
    alarm(kHangSeconds);
  }
  void TearDown() override {
    alarm(0);
    open_ucx_with({});
  }
};

TEST_F(UcxFaults, ARankIsKilledInMidTransfer) {
  for (const size_t bytes : {size_t{8}, size_t{1} << 20}) {
    const Outcome outcome =
        run_disturbed(ucx_job({2, 1, 1}), exchanges(kUntilItFails, {bytes}), [&](Stage& stage) {
          std::this_thread::sleep_for(milliseconds(20));
          kill(stage.pids[2], SIGKILL);
        });
    expect_one_error(outcome, {0, 1, 3},
                     ContainsRegex("^rank 2 .pid [0-9]+. was killed by signal 9 .Killed.$"));
  }
}

/// Its kernel goes on answering.
TEST_F(UcxFaults, ARankThatIsStoppedIsWaitedFor) {
  setenv("IBCOLL_PORT_DOWN", "300ms", 1);
  const Outcome outcome =
      run_disturbed(ucx_job({2, 1, 1}), exchanges(400, {8, 65536}), [](Stage& stage) {
        for (const Rank rank : {0, 3}) {
          kill(stage.pids[rank], SIGSTOP);
          std::this_thread::sleep_for(milliseconds(1500));
          kill(stage.pids[rank], SIGCONT);
        }
      });
  unsetenv("IBCOLL_PORT_DOWN");
  EXPECT_EQ(outcome.all, "");
}

TEST_F(UcxFaults, ADeadlineEndsACallThatWaitsForALateRank) {
  JobOptions job = ucx_job({1, 1, 1});
  job.context.deadline_ns = 400'000'000;
  const Outcome outcome = run_disturbed(job,
                                        [](const RankView& rank, Stage&) {
                                          if (!exchange(rank, 8, 0)) return;
                                          if (rank.context.rank() == 1)
                                            std::this_thread::sleep_for(milliseconds(1500));
                                          exchange(rank, 5000, 1);
                                        },
                                        {});
  expect_one_error(outcome, {0, 1, 2},
                   ::testing::ContainsRegex("nothing has moved for [0-9.]+ s, the deadline"));
}

/// A call ends although a peer of another one, which has begun and is not one of its own, stays
/// away until then.
TEST_F(UcxFaults, ACallDoesNotWaitForThePeersOfAnother) {
  constexpr size_t kBytes = 32 << 20;
  const Outcome outcome = run_disturbed(
      ucx_job({1, 1, 1}),
      [](const RankView& rank, Stage& stage) {
        if (!exchange(rank, 8, 0)) return;  // all are connected
        const Rank me = rank.context.rank();
        const auto sent = [&] {
          const TransportCounters& counters = rank.context.job().network()->counters();
          return me == 0 ? counters.data_messages : counters.tokens;
        };
        const auto prepared = [&](const std::vector<Rank>& members, const CallArguments& what) {
          auto group = rank.context.groups().create(members);
          if (!rank.good(group, "group")) return std::unique_ptr<Call>();
          auto call = std::make_unique<Call>(**group);
          return rank.good(call->prepare(what), "prepare") ? std::move(call) : nullptr;
        };
        std::vector<std::byte> data(kBytes, static_cast<std::byte>(me + 1));
        CallArguments bcast;
        bcast.collective = Collective::kBcast;
        bcast.send = bcast.recv = data.data();
        bcast.block_bytes = kBytes;
        const auto first = me != 2 ? prepared({0, 1}, bcast) : nullptr;
        const auto second = me != 1 ? prepared({0, 2}, CallArguments{}) : nullptr;
        if (first) {
          // The root begins when it knows where the data go to.
          const uint64_t before = sent();
          if (!rank.good(first->start(), "bcast")) return;
          while (sent() == before)
            if (!rank.good(first->test(), "bcast")) return;
        }
        if (me == 1) wait_until([&] { return stage.disturbed.load(); });
        if (second && rank.good(second->start(), "barrier")) rank.good(second->wait(), "barrier");
        if (me == 0) {
          if (!first->under_way()) rank.complain("the other call has ended without its peer");
          stage.disturbed = true;
        }
        if (first) rank.good(first->wait(), "bcast");
        if (data != std::vector<std::byte>(kBytes, static_cast<std::byte>(me == 2 ? 3 : 1)))
          rank.complain("wrong data");
      },
      {});
  EXPECT_EQ(outcome.all, "");
}

/// Some calls, after which ranks wait for each other: UCX aborts a process whose peer goes while a
/// put is under way that UCX carries out in software.
void exchange_and_stay(const RankView& rank, Stage& stage) {
  constexpr int kOver = 1000;
  exchanges(6, {8, 5000, 100'000})(rank, stage);
  stage.calls[rank.context.rank()] = kOver;
  for (Rank other = 0; other < rank.context.size(); ++other) {
    while (stage.calls[other] < kOver) std::this_thread::sleep_for(milliseconds(1));
  }
}

/// The n-th call of a function fails on rank 1. All is right, or all ranks have the same error.
void fail_each(const char* function, int calls, const ucx::TransportOptions& options) {
  static const char* name;
  static int call;
  name = function;
  for (call = 1; call <= calls; call += call) {
    SCOPED_TRACE(fmt::format("call {} of {} fails", call, function));
    open_ucx_with(options,
                  [](Rank me) { EXPECT_TRUE(me != 1 || UcxShim::fail(name, call)) << name; });
    const Outcome outcome = run_disturbed(ucx_job({1, 1, 1}), exchange_and_stay, {});
    if (outcome.all.empty()) continue;
    ASSERT_EQ(outcome.errors.size(), 3u) << outcome.all << ", status " << outcome.status;
    for (const auto& [rank, error] : outcome.errors) {
      EXPECT_EQ(common(error), common(outcome.errors.at(0))) << outcome.all;
      EXPECT_THAT(error, AnyOf(HasSubstr("rank 1"), HasSubstr("to rank 1")));
    }
  }
}

TEST_F(UcxFaults, ACallOfUcpThatFailsAtTheStartEndsAllAlike) {
  for (const char* function : {"config_read", "init_version", "worker_create", "worker_get_efd",
                               "worker_get_address", "worker_set_am_recv_handler"})
    fail_each(function, 1, {});
}
TEST_F(UcxFaults, ACallOfUcpThatFailsLaterEndsAllAlike) {
  fail_each("ep_create", 2, {});
  fail_each("am_send_nbx", 8, {});
  fail_each("worker_arm", 1, {});
}
TEST_F(UcxFaults, ACallOfUcpThatFailsInARendezvousEndsAllAlike) {
  fail_each("am_recv_data_nbx", 4, all_by_rendezvous());
}
TEST_F(UcxFaults, ACallOfUcpThatFailsInAPutEndsAllAlike) {
  for (const char* function : {"mem_map", "rkey_pack", "ep_rkey_unpack", "put_nbx", "ep_flush_nbx"})
    fail_each(function, 2, all_by_puts());
}
TEST_F(UcxFaults, AnyCallOfUcpThatFailsEndsAllAlikeFull) {
  fail_each("am_send_nbx", 256, {});
  fail_each("am_recv_data_nbx", 64, all_by_rendezvous());
  for (const char* function : {"mem_map", "rkey_pack", "ep_rkey_unpack", "put_nbx", "ep_flush_nbx"})
    fail_each(function, 32, all_by_puts());
}

/// Runs a job and kills these ranks somewhere between opening UCX and the first calls.
Outcome kill_at_start(const std::vector<Rank>& victims, std::mt19937& random) {
  static Stage* stage;
  const SharedStage shared;
  stage = &*shared;
  open_ucx_with({}, [](Rank me) { stage->pids[me] = getpid(); });
  std::vector<int> delays;
  for (size_t i = 0; i < victims.size(); ++i) delays.push_back(static_cast<int>(random() % 15'000));
  std::fflush(nullptr);
  const pid_t killer = fork();
  if (killer == 0) {
    for (const Rank victim : victims)
      while (stage->pids[victim] == 0 && !stage->ended) std::this_thread::yield();
    for (size_t i = 0; i < victims.size(); ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(delays[i]));
      if (!stage->ended) kill(stage->pids[victims[i]], SIGKILL);
    }
    _exit(0);
  }
  Outcome outcome;
  outcome.all = run_job(
      ucx_job({1, 1, 1, 1, 1, 1, 1, 1}),
      [&](const RankView& rank) {
        exchanges(kUntilItFails, {8, 5000})(rank, *stage);
      },
      &outcome.status);
  stage->ended = true;
  waitpid(killer, nullptr, 0);
  outcome.errors = errors_in(outcome.all);
  return outcome;
}

/// UCX must not abort the others.
void expect_survivors(int jobs) {
  std::mt19937 random(number_from_environment("TEST_FAULT_SEED", 1));
  for (int i = 0; i < jobs && !::testing::Test::HasFailure(); ++i) {
    const Outcome outcome = kill_at_start({1, 3}, random);
    EXPECT_THAT(outcome.all, ::testing::Not(HasSubstr("signal 6"))) << "job " << i;
    for (const Rank survivor : {0, 2, 4, 5, 6, 7})
      EXPECT_TRUE(outcome.errors.count(survivor)) << "job " << i << "\n" << outcome.all;
    EXPECT_THAT(outcome.all, ::testing::ContainsRegex("rank [13]")) << "job " << i;
  }
}

TEST_F(UcxFaults, TwoRanksAreKilledWhileTheyConnect) { expect_survivors(40); }
TEST_F(UcxFaults, TwoRanksAreKilledWhileTheyConnectFull) {
  alarm(1200);
  expect_survivors(1000);
}

/// Gives this process a /dev/shm of its own; only root can.
bool makes_own_shared_memory() {
  return unshare(CLONE_NEWNS) == 0 &&
         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", "/dev/shm", "tmpfs", 0, nullptr) == 0;
}

/// With whatever UCX has.
void expect_no_files(int jobs) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    if (!makes_own_shared_memory()) _exit(77);
    unsetenv("UCX_TLS");
    std::mt19937 random(number_from_environment("TEST_FAULT_SEED", 1));
    for (int i = 0; i < jobs; ++i) kill_at_start({0, 1, 2, 3, 4, 5, 6, 7}, random);
    int left = 0;
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
      std::fprintf(stderr, "left: %s\n", file.path().c_str());
      ++left;
    }
    std::fflush(nullptr);
    _exit(std::min(left, 70));
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "not root";
  EXPECT_EQ(status, 0) << "files are left, " << WEXITSTATUS(status) << " at least";
}

TEST_F(UcxFaults, AJobThatIsKilledAtItsStartLeavesNoFiles) { expect_no_files(10); }
TEST_F(UcxFaults, AJobThatIsKilledAtItsStartLeavesNoFilesFull) {
  alarm(1200);
  expect_no_files(300);
}

}  // namespace
}  // namespace ibcoll::testing
