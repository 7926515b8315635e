// Collectives over UCX while ranks die, stop and come late, and while calls of UCP fail: each ends
// right, or with the same one error on every survivor, and never hangs.

#include "tests/faults.h"
#include "tests/ucx_lo.h"
#include "tests/ucx_shim.h"

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
  expect_one_error(outcome, {0, 1, 2}, HasSubstr("nothing has moved for 0.4 s, the deadline"));
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

}  // namespace
}  // namespace ibcoll::testing
