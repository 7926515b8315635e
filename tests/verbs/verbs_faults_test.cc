// Collectives over real verbs while ranks, links and devices fail: each ends right, or with the
// same one error on every survivor, and never hangs.

#include "tests/verbs/verbs_faults.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

namespace ibcoll::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(VerbsFaults, LosingTwoPercentOfThePacketsChangesNothing) {
  lose(2);
  const Outcome outcome =
      run_disturbed(verbs_job({2, 1, 1}), exchanges(6, {0, 8, 4096, 65536, 1 << 20, 4 << 20}), {});
  EXPECT_EQ(outcome.all, "");
}

TEST_F(VerbsFaults, LosingTenPercentOfThePacketsChangesNothing) {
  lose(10);
  const Outcome outcome =
      run_disturbed(verbs_job({1, 1, 1}), exchanges(5, {0, 8, 1000, 4096, 65536}), {});
  EXPECT_EQ(outcome.all, "");
}

TEST_F(VerbsFaults, ALinkThatGoesDownForGood) {
  setenv("IBCOLL_PORT_DOWN", "500ms", 1);
  const Outcome outcome =
      run_disturbed(verbs_job({2, 2, 1}), exchanges(kUntilItFails, {1 << 16}),
                    [](Stage&) { std::ignore = std::system("ip -n sw link set v2 down"); });
  // Whoever is first: the ranks whose port it is, or the others, who can't reach them.
  expect_one_error(outcome, {0, 1, 2, 3, 4},
                   AnyOf(ContainsRegex("rank [23]: (its own )?port rxe2:1 (is|was) down"),
                         ContainsRegex("rank [014] on rxe[13]:1 could not reach rank [23]: "
                                       "transport retry counter exceeded"),
                         ContainsRegex("the connection to rank [23] broke")));
}

TEST_F(VerbsFaults, ALinkThatIsDownBeforeAnybodyIsConnected) {
  setenv("IBCOLL_PORT_DOWN", "500ms", 1);
  const Outcome outcome = run_disturbed(verbs_job({1, 1, 1}),
                                        [](const RankView& rank, Stage& stage) {
                                          disturb_first(rank, stage, "ip -n sw link set v2 down");
                                          exchanges(kUntilItFails, {8})(rank, stage);
                                        },
                                        {});
  expect_one_error(
      outcome, {0, 1, 2},
      AnyOf(ContainsRegex("rank 1: (its own )?port rxe2:1 is down"),
            ContainsRegex(
                "rank [02]: no (route|answer) from rxe[13]:1 \\(.*\\) to rank 1 on rxe2:1")));
}

/// The link of rank 1's server is down while the ranks look for each other.
TEST_F(VerbsFaults, ALinkThatIsDownForAMomentBeforeAnybodyIsConnected) {
  const Outcome outcome = run_disturbed(
      verbs_job({1, 1, 1}),
      [](const RankView& rank, Stage& stage) {
        disturb_first(
            rank, stage,
            "ip -n sw link set v2 down; (sleep 0.5; ip -n sw link set v2 up) >/dev/null 2>&1 &");
        exchanges(10, {8, 65536})(rank, stage);
      },
      {});
  EXPECT_EQ(outcome.all, "");
}

/// The port's queue takes nothing while rank 1 sends to connect. That puts Soft-RoCE's datagram
/// queue pair out of service.
TEST_F(VerbsFaults, DatagramsThatCantBeSentAreSentLater) {
  if (const char* by = getenv("IBCOLL_CONNECT"); by != nullptr && by == std::string_view("rdmacm"))
    GTEST_SKIP() << "the kernel's own datagrams, which librdmacm uses, stop for good";
  const Outcome outcome = run_disturbed(verbs_job({1, 1}),
                                        [](const RankView& rank, Stage& stage) {
                                          if (rank.context.rank() == 0) {
                                            std::this_thread::sleep_for(milliseconds(300));
                                            shell("tc qdisc add dev e2 root pfifo limit 0");
                                            std::this_thread::sleep_for(milliseconds(1500));
                                            shell("tc qdisc del dev e2 root");
                                          }
                                          exchanges(5, {8, 65536})(rank, stage);
                                        },
                                        {});
  EXPECT_EQ(outcome.all, "");
}

/// Nothing says that the way is gone: ports stay up, and neighbours are known.
TEST_F(VerbsFaults, ANetworkThatIsCutBeforeAnybodyIsConnected) {
  setenv("IBCOLL_PORT_DOWN", "1s", 1);
  const Outcome outcome = run_disturbed(
      verbs_job({1, 1, 1}),
      [](const RankView& rank, Stage& stage) {
        disturb_first(rank, stage,
                      "for i in 1 2 3; do for j in 1 2 3; do [ $i = $j ] || ip neigh replace "
                      "10.77.0.$j lladdr $(cat /sys/class/net/e$j/address) dev e$i nud permanent; "
                      "done; done; tc qdisc add dev e2 root netem loss 100%; "
                      "tc -n sw qdisc add dev v2 root netem loss 100%");
        exchanges(kUntilItFails, {8})(rank, stage);
      },
      {});
  std::ignore = std::system("for i in 1 2 3; do ip neigh flush dev e$i nud permanent; done");
  expect_one_error(outcome, {0, 1, 2},
                   AnyOf(ContainsRegex("rank [02]: no answer from rxe[13]:1 \\(.*\\) to rank 1 on "
                                       "rxe2:1 \\(::ffff:10.77.0.2\\) for 1.0 s"),
                         ContainsRegex("rank 1: no answer from rxe2:1 \\(::ffff:10.77.0.2\\) to "
                                       "rank [02] on rxe[13]:1 ")));
}

/// What ranks find out when they start, on ports that don't all reach each other: the links of
/// servers 1 and 2 are on one network, those of 3 and 4 on another of the same addresses.
TEST_F(VerbsFaults, OfTwoNetworksOneIsUsed) {
  shell(
      "ip -n sw link add br1 type bridge && ip -n sw link set br1 mtu 4200 up && for i in 3 4; do "
      "ip -n sw link set v$i master br1; done && for i in 1 2 3 4; do ip neigh flush dev e$i; "
      "done");
  const Outcome outcome = run_disturbed(verbs_job({2, 2, 1}),
                                        [](const RankView& rank, Stage& stage) {
                                          exchanges(3, {8, 65536})(rank, stage);
                                        },
                                        {});
  shell(
      "for i in 3 4; do ip -n sw link set v$i master br0; done; ip -n sw link del br1; "
      "for i in 1 2 3 4; do ip neigh flush dev e$i; done");
  EXPECT_EQ(outcome.all, "");
}

/// With the settings that users have, data on the way outlives a link that is down. What the port
/// sends goes through a queue: without one, a packet that meets a link which the kernel does not
/// yet know to be down is refused, and Soft-RoCE breaks the connection for it, as no device does.
TEST_F(VerbsFaults, AnOutageShorterThanPortDownChangesNothing) {
  shell("tc qdisc add dev e2 root pfifo");
  const Outcome outcome = run_disturbed(verbs_job({2, 2}), exchanges(60, {8, 1 << 16}), [](Stage&) {
    std::ignore = std::system("ip -n sw link set v2 down; sleep 2; ip -n sw link set v2 up");
  });
  EXPECT_EQ(outcome.all, "");
}

/// Whatever the network says first (a write that is refused, since the dead rank's memory is gone;
/// a connection that breaks; nothing), survivors name the death and what it was of. TEST_KILLS=40
/// for more.
TEST_F(VerbsFaults, ARankIsKilledInMidTransfer) {
  const uint32_t kills = number_from_environment("TEST_KILLS", 3);
  for (uint32_t i = 0; i < kills && !HasFailure(); ++i) {
    alarm(kHangSeconds);
    const Outcome outcome =
        run_disturbed(verbs_job({2, 2, 1}), exchanges(kUntilItFails, {1 << 20}), [&](Stage& stage) {
          std::this_thread::sleep_for(milliseconds(20 + 7 * i));
          kill(stage.pids[2], SIGKILL);
        });
    expect_one_error(outcome, {0, 1, 3, 4},
                     ContainsRegex("^rank 2 .pid [0-9]+. was killed by signal 9 .Killed.$"));
    EXPECT_EQ(outcome.status, 128 + SIGKILL);
  }
}

TEST_F(VerbsFaults, AWholeServerIsKilledInMidTransfer) {
  const Outcome outcome =
      run_disturbed(verbs_job({2, 2, 1}), exchanges(kUntilItFails, {1 << 20}), [](Stage& stage) {
        std::this_thread::sleep_for(milliseconds(20));
        for (const Rank rank : {2, 3}) kill(stage.pids[rank], SIGKILL);
      });
  expect_one_error(outcome, {0, 1, 4},
                   ContainsRegex("^rank [23] .pid [0-9]+. was killed by signal 9 .Killed.$"));
}

/// A receive buffer that is deregistered while peers write to it: their keys are wrong then.
TEST_F(VerbsFaults, AWrongKeyIsNamedOnAllRanks) {
  setenv("IBCOLL_REGISTRATIONS", "0", 1);  // nothing stays registered that is not in use
  const Outcome outcome =
      run_disturbed(verbs_job({1, 1, 1}),
                    [](const RankView& rank, Stage&) {
                      constexpr size_t kBytes = 1 << 20;
                      std::vector<std::byte> send(3 * kBytes), recv(3 * kBytes);
                      if (!exchange(rank, 8, 0)) return;
                      CallArguments arguments;
                      arguments.collective = Collective::kAlltoall;
                      arguments.send = send.data();
                      arguments.recv = recv.data();
                      arguments.block_bytes = kBytes;
                      Status done;
                      for (int call_number = 0; done && call_number < 100; ++call_number) {
                        Call call(rank.context.world());
                        done = call.prepare(arguments);
                        if (done) done = call.start();
                        if (done && rank.context.rank() == 1) {
                          NetworkTransport& network = *rank.context.job().network();
                          const auto key = network.register_memory(recv.data(), recv.size());
                          for (int users = 0; key && users < 2; ++users)
                            network.deregister_memory(*key);
                        }
                        if (done) done = call.wait();
                      }
                      rank.complain(done ? "no error" : done.error().message);
                    },
                    {});
  unsetenv("IBCOLL_REGISTRATIONS");
  expect_one_error(
      outcome, {0, 1, 2},
      AllOf(HasSubstr("a write to rank 1 failed: remote access error"), HasSubstr(" on rxe")));
}

std::string text_of(int file) {
  std::string text(static_cast<size_t>(lseek(file, 0, SEEK_END)), '\0');
  EXPECT_EQ(pread(file, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  return text;
}

void stay_away(std::chrono::seconds late, int log) {
  std::this_thread::sleep_for(late);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (text_of(log).find("was waiting for rank 1 ") == std::string::npos &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(milliseconds(10));
}

/// Runs calls of which rank 1 enters one late: by `late` and until somebody reports it, as on a
/// busy machine the others may come late, too, but not by more than a minute. Gives what ranks
/// logged.
std::string late_log(int late_call, std::chrono::seconds late, int64_t report_after_ns) {
  JobOptions job = verbs_job({2, 1, 1});
  job.context.late_ns = report_after_ns;
  const int file = memfd_create("late ranks", MFD_CLOEXEC);
  const Outcome outcome = run_disturbed(job,
                                        [&](const RankView& rank, Stage&) {
                                          dup2(file, STDERR_FILENO);
                                          for (int i = 0; i < 5; ++i) {
                                            if (i == late_call && rank.context.rank() == 1)
                                              stay_away(late, file);
                                            if (!exchange(rank, 4096, i)) return;
                                          }
                                        },
                                        {});
  EXPECT_EQ(outcome.all, "");
  std::string text = text_of(file);
  close(file);
  return text;
}

TEST_F(VerbsFaults, ALateRankIsReportedAndThenAllIsRight) {
  EXPECT_THAT(late_log(2, std::chrono::seconds(2), 500'000'000),
              AllOf(HasSubstr("was waiting for rank 1 "), HasSubstr("alltoall"), HasSubstr("step "),
                    Not(HasSubstr("waiting for rank 3 "))));
}
/// Its thread answers while it is away, so that it is told from one that nobody can reach.
TEST_F(VerbsFaults, ALateRankIsNotTakenForUnreachable) {
  setenv("IBCOLL_PORT_DOWN", "300ms", 1);
  EXPECT_THAT(late_log(0, std::chrono::seconds(2), 500'000'000),
              HasSubstr("was waiting for rank 1 "));
}
/// TEST_LATE_SECONDS=100 for more.
TEST_F(VerbsFaults, ARankThirtySecondsLateFull) {
  const std::chrono::seconds late(number_from_environment("TEST_LATE_SECONDS", 30));
  EXPECT_THAT(late_log(0, late, 10'000'000'000), HasSubstr("was waiting for rank 1 "));
}

void limit_locked_memory(const RankView& rank, size_t bytes) {
  const rlimit limit{bytes, bytes};
  if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) rank.complain("the limit can't be set");
}

/// Ranks that come to the call long after it has failed end with the same error, too.
TEST_F(VerbsFaults, TooLittleLockedMemoryOnOneRank) {
  const WithoutLockPrivilege unprivileged;
  const Outcome outcome = run_disturbed(verbs_job({1, 1, 1}),
                                        [](const RankView& rank, Stage&) {
                                          if (!exchange(rank, 8, 0)) return;
                                          if (rank.context.rank() == 1)
                                            limit_locked_memory(rank, 1 << 20);
                                          if (rank.context.rank() == 2)
                                            std::this_thread::sleep_for(milliseconds(1500));
                                          exchange(rank, 1 << 20, 1);
                                        },
                                        {});
  expect_one_error(outcome, {0, 1, 2},
                   AllOf(HasSubstr("rank 1: "), HasSubstr("can't be registered with rxe2:1"),
                         HasSubstr("ulimit -l"), HasSubstr("step 0 of alltoall")));
}

/// Wherever memory runs out: for connections, for mails, for buffers.
TEST_F(VerbsFaults, LittleLockedMemoryIsEnoughOrEndsAllAlike) {
  const WithoutLockPrivilege unprivileged;
  bool enough = false;
  for (size_t bytes = 4096; bytes <= 16 << 20; bytes *= 4) {
    const Outcome outcome = run_disturbed(verbs_job({2, 1, 1}),
                                          [&](const RankView& rank, Stage&) {
                                            if (rank.context.rank() == 2)
                                              limit_locked_memory(rank, bytes);
                                            exchange(rank, 8, 0) && exchange(rank, 100'000, 1);
                                          },
                                          {});
    enough = outcome.all.empty();
    if (!enough) {
      expect_one_error(outcome, {0, 1, 2, 3},
                       AllOf(HasSubstr("rank 2"), HasSubstr("can't be registered with rxe2:1"),
                             HasSubstr("ulimit -l")));
    }
    if (HasFailure()) FAIL() << "with " << bytes << " bytes";
  }
  EXPECT_TRUE(enough);
}

TEST_F(VerbsFaults, TwoJobsUseOneDeviceAtOnce) {
  setenv("IBCOLL_DEVICES", "rxe1", 1);
  std::vector<pid_t> jobs;
  for (int i = 0; i < 2; ++i) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      const Outcome outcome =
          run_disturbed(verbs_job({2, 1, 2}), exchanges(40, {0, 8, 4096, 1 << 17}), {});
      std::fputs(outcome.all.c_str(), stderr);
      _exit(outcome.all.empty() ? 0 : 1);
    }
    jobs.push_back(pid);
  }
  unsetenv("IBCOLL_DEVICES");
  for (const pid_t pid : jobs) {
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(VerbsFaults, SequenceNumbersPassTheirEnd) {
  for (const char* algorithm : {"ring", "two_level_ring", "aggregate"}) {
    const Outcome outcome =
        run_disturbed(verbs_job({3, 1, 2}),
                      [&](const RankView& rank, Stage& stage) {
                        rank.context.world().state().calls.begin_at(0xffff'fffb);
                        exchanges(12, {8, 4096}, algorithm)(rank, stage);
                      },
                      {});
    EXPECT_EQ(outcome.all, "") << algorithm;
  }
}

/// Takes a device away for good: tests/softroce gives it a machine of its own.
TEST_F(VerbsFaults, TheDeviceGoesAwayLast) {
  if (getenv("TEST_DEVICE_GONE") == nullptr)
    GTEST_SKIP() << "set TEST_DEVICE_GONE: tests that come after it lack a device";
  const Outcome outcome =
      run_disturbed(verbs_job({2, 1, 1}), exchanges(kUntilItFails, {1 << 16}),
                    [](Stage&) { std::ignore = std::system("ip link del e2"); });
  expect_one_error(outcome, {0, 1, 2, 3},
                   AllOf(AnyOf(HasSubstr("rank 2"), HasSubstr("rxe2")), HasSubstr("rxe")));
}

}  // namespace
}  // namespace ibcoll::testing
