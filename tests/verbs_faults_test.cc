// Collectives over real verbs while ranks, links and devices fail: each ends right, or with the
// same one error on every survivor, and never hangs. Only where the network is the test bed's: run
// by tests/softroce.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#ifdef IBCOLL_HAVE_VERBS

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "engine/base/units.h"
#include "tests/job.h"
#include "verbs/device.h"

namespace ibcoll {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::JobOptions;
using ::testing::Not;
using testing::pattern;
using testing::RankView;

constexpr int kMaxRanks = 16;
/// A test program that takes longer hangs.
constexpr unsigned kHangSeconds = 240;

/// What ranks and the one who disturbs them know of each other; shared by the processes.
struct Stage {
  std::atomic<int> calls[kMaxRanks];  ///< each rank's finished ones
  std::atomic<pid_t> pids[kMaxRanks];
};

class SharedStage {
 public:
  SharedStage()
      : stage_(new (mmap(nullptr, sizeof(Stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                         -1, 0)) Stage{}) {}
  ~SharedStage() { munmap(stage_, sizeof(Stage)); }
  SharedStage(const SharedStage&) = delete;
  SharedStage& operator=(const SharedStage&) = delete;
  Stage* operator->() const { return stage_; }
  Stage& operator*() const { return *stage_; }

 private:
  Stage* stage_;
};

/// What came of a job.
struct Outcome {
  std::map<Rank, std::string> errors;  ///< of the ranks that had one
  std::string all;
};

/// The part of an error that is the same for all: what failed. Where each rank was follows, or, of
/// one that had ended its calls and wanted to leave, comes before.
std::string common(const std::string& error) {
  const std::string leaving = "close: ";
  const size_t begin = error.starts_with(leaving) ? leaving.size() : 0;
  return error.substr(begin, error.find("; ") - begin);
}

/// All of `survivors` have an error, with the same failure, and each says in which collective and
/// step it was.
void expect_one_error(const Outcome& outcome, const std::vector<Rank>& survivors,
                      const ::testing::Matcher<std::string>& failure) {
  for (const Rank rank : survivors) {
    const auto found = outcome.errors.find(rank);
    ASSERT_NE(found, outcome.errors.end()) << "rank " << rank << " has no error\n" << outcome.all;
    EXPECT_EQ(common(found->second), common(outcome.errors.at(survivors.front()))) << outcome.all;
    EXPECT_THAT(common(found->second), failure);
    EXPECT_THAT(found->second, AllOf(HasSubstr("alltoall"), HasSubstr("step")));
  }
}

using Body = std::function<void(const RankView&, Stage&)>;
using Disturb = std::function<void(Stage&)>;

/// Runs a job; `disturb` runs in a process of its own once every rank has finished two calls.
Outcome run_disturbed(const JobOptions& job, const Body& body, const Disturb& disturb) {
  const SharedStage stage;
  std::fflush(nullptr);
  const pid_t disturber = fork();
  if (disturber == 0) {
    const auto ready = [&](int rank) { return stage->calls[rank].load() >= 2; };
    for (int rank = 0; rank < job.shape.ranks();) {
      if (ready(rank)) {
        ++rank;
      } else {
        std::this_thread::sleep_for(milliseconds(1));
      }
    }
    if (disturb) disturb(*stage);
    _exit(0);
  }
  Outcome outcome;
  int status = 0;
  outcome.all = run_job(
      job,
      [&](const RankView& rank) {
        stage->pids[rank.context.rank()] = getpid();
        body(rank, *stage);
      },
      &status);
  kill(disturber, SIGKILL);
  waitpid(disturber, nullptr, 0);
  for (size_t begin = 0; begin < outcome.all.size();) {
    const size_t end = outcome.all.find('\n', begin);
    const std::string line = outcome.all.substr(begin, end - begin);
    const size_t colon = line.find(": ");
    outcome.errors[std::stoi(line.substr(5, colon - 5))] = line.substr(colon + 2);
    begin = end + 1;
  }
  return outcome;
}

/// Whether one all-to-all of blocks of so many bytes gives the right result; complains if not.
bool exchange(const RankView& rank, size_t block_bytes, uint32_t number,
              std::string_view algorithm = {}) {
  Group& group = rank.context.world();
  const auto ranks = static_cast<size_t>(group.size());
  const Rank me = group.rank();
  std::vector<std::byte> send(ranks * block_bytes + 1), recv(ranks * block_bytes + 1);
  for (size_t i = 0; i < ranks * block_bytes; ++i)
    send[i] = pattern(me, static_cast<Rank>(i / block_bytes), i % block_bytes, number);
  CallArguments arguments;
  arguments.collective = Collective::kAlltoall;
  arguments.send = send.data();
  arguments.recv = recv.data();
  arguments.block_bytes = block_bytes;
  arguments.options.algorithm = algorithm;
  Call call(group);
  Status done = call.prepare(arguments);
  if (done) done = call.start();
  if (done) done = call.wait();
  if (!done) {
    rank.complain(done.error().message);
    return false;
  }
  for (size_t i = 0; i < ranks * block_bytes; ++i) {
    if (recv[i] != pattern(static_cast<Rank>(i / block_bytes), me, i % block_bytes, number)) {
      rank.complain(fmt::format("wrong data in a call with blocks of {} bytes", block_bytes));
      return false;
    }
  }
  return true;
}

/// Calls in a row, until one fails.
Body exchanges(int calls, std::vector<size_t> block_bytes, std::string algorithm = {}) {
  return [=](const RankView& rank, Stage& stage) {
    std::atomic<int>& finished = stage.calls[rank.context.rank()];
    for (int i = 0; i < calls; ++i) {
      if (!exchange(rank, block_bytes[i % block_bytes.size()], i, algorithm)) return;
      ++finished;
    }
  };
}
constexpr int kUntilItFails = 1'000'000;

void shell(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }

JobOptions job_of(std::vector<int> layout, Placement placement = Placement::kBlock) {
  JobOptions job;
  job.shape = *Shape::from_layout(layout, placement);
  job.context.transport = "verbs";
  return job;
}

class VerbsFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (getenv("SOFTROCE_MACHINE") == nullptr)
      GTEST_SKIP() << "only in the Soft-RoCE machine (./run softroce): real ports are left alone";
    alarm(kHangSeconds);
  }
  void TearDown() override {
    alarm(0);
    unsetenv("IBCOLL_RETRIES");
    if (getenv("SOFTROCE_MACHINE") == nullptr) return;
    std::ignore = std::system(
        "for i in 1 2 3 4; do tc qdisc del dev e$i root; ip -n sw link set v$i up; done "
        "2>/dev/null");
    // Ranks of the next test shall find every port up.
    const auto all_up = [] {
      const auto ports = verbs::list_ports({});
      return std::all_of(ports.begin(), ports.end(), [](const auto& port) { return port.active; });
    };
    for (int i = 0; i < 500 && !all_up(); ++i) std::this_thread::sleep_for(milliseconds(10));
  }
  /// Soft-RoCE counts every packet it is asked for again as a retry, until an acknowledgement comes
  /// (each 64 packets): six are soon used up then.
  static void lose(int percent) {
    setenv("IBCOLL_RETRIES", "7", 1);
    for (int i = 1; i <= 4; ++i)
      shell(fmt::format("tc qdisc add dev e{} root netem loss {}%", i, percent));
  }
};

TEST_F(VerbsFaults, LosingTwoPercentOfThePacketsChangesNothing) {
  lose(2);
  const Outcome outcome =
      run_disturbed(job_of({2, 1, 1}), exchanges(6, {0, 8, 4096, 65536, 1 << 20, 4 << 20}), {});
  EXPECT_EQ(outcome.all, "");
}

TEST_F(VerbsFaults, LosingTenPercentOfThePacketsChangesNothing) {
  lose(10);
  const Outcome outcome =
      run_disturbed(job_of({1, 1, 1}), exchanges(5, {0, 8, 1000, 4096, 65536}), {});
  EXPECT_EQ(outcome.all, "");
}

TEST_F(VerbsFaults, ALinkThatGoesDownForGood) {
  const Outcome outcome =
      run_disturbed(job_of({2, 2, 1}), exchanges(kUntilItFails, {1 << 16}),
                    [](Stage&) { std::ignore = std::system("ip -n sw link set v2 down"); });
  // Both ends of a connection see it; whoever is first names the other. A device may say that a
  // connection broke without saying why.
  expect_one_error(
      outcome, {0, 1, 2, 3, 4},
      AllOf(HasSubstr(" on rxe"), AnyOf(HasSubstr("rank 2"), HasSubstr("rank 3")),
            AnyOf(ContainsRegex("could not reach rank .: transport retry counter exceeded"),
                  ContainsRegex("the connection to rank . broke: Work Request Flushed Error"))));
}

TEST_F(VerbsFaults, ALinkThatIsDownBeforeAnybodyIsConnected) {
  setenv("IBCOLL_PORT_DOWN", "500ms", 1);
  const Outcome outcome = run_disturbed(job_of({1, 1, 1}),
                                        [](const RankView& rank, Stage& stage) {
                                          if (rank.context.rank() == 0)
                                            std::ignore = std::system("ip -n sw link set v2 down");
                                          exchanges(kUntilItFails, {8})(rank, stage);
                                        },
                                        {});
  unsetenv("IBCOLL_PORT_DOWN");
  expect_one_error(outcome, {0, 1, 2},
                   AnyOf(HasSubstr("rank 1: port rxe2:1 has been down for "),
                         HasSubstr("rank 1: rxe2:1: no route to rank "),
                         HasSubstr("no route to rank 1"), HasSubstr("could not reach rank 1")));
}

TEST_F(VerbsFaults, AnOutageShorterThanTheRetriesChangesNothing) {
  setenv("IBCOLL_ACK_TIMEOUT", "17", 1);  // half a second, seven times
  const Outcome outcome = run_disturbed(job_of({2, 2}), exchanges(300, {8, 1 << 16}), [](Stage&) {
    std::ignore = std::system(
        "tc qdisc add dev e2 root netem loss 100%; sleep 0.3; tc qdisc del dev e2 root");
  });
  unsetenv("IBCOLL_ACK_TIMEOUT");
  EXPECT_EQ(outcome.all, "");
}

TEST_F(VerbsFaults, ARankIsKilledInMidTransfer) {
  const Outcome outcome =
      run_disturbed(job_of({2, 2, 1}), exchanges(kUntilItFails, {1 << 20}), [](Stage& stage) {
        std::this_thread::sleep_for(milliseconds(20));
        kill(stage.pids[2], SIGKILL);
      });
  expect_one_error(outcome, {0, 1, 3, 4}, HasSubstr("rank 2 "));
}

TEST_F(VerbsFaults, AWholeServerIsKilledInMidTransfer) {
  const Outcome outcome =
      run_disturbed(job_of({2, 2, 1}), exchanges(kUntilItFails, {1 << 20}), [](Stage& stage) {
        std::this_thread::sleep_for(milliseconds(20));
        for (const Rank rank : {2, 3}) kill(stage.pids[rank], SIGKILL);
      });
  expect_one_error(outcome, {0, 1, 4}, AnyOf(HasSubstr("rank 2 "), HasSubstr("rank 3 ")));
}

/// A receive buffer that is deregistered while peers write to it: their keys are wrong then.
TEST_F(VerbsFaults, AWrongKeyIsNamedOnAllRanks) {
  setenv("IBCOLL_REGISTRATIONS", "0", 1);  // nothing stays registered that is not in use
  const Outcome outcome =
      run_disturbed(job_of({1, 1, 1}),
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
                          NetworkTransport& network = *rank.context.network();
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

/// Runs calls of which rank 1 enters the third one late; gives what ranks logged.
std::string late_log(std::chrono::seconds late, int64_t report_after_ns) {
  JobOptions job = job_of({2, 1, 1});
  job.context.late_ns = report_after_ns;
  const int file = memfd_create("late ranks", MFD_CLOEXEC);
  const Outcome outcome = run_disturbed(job,
                                        [&](const RankView& rank, Stage&) {
                                          dup2(file, STDERR_FILENO);
                                          for (int i = 0; i < 5; ++i) {
                                            if (i == 2 && rank.context.rank() == 1)
                                              std::this_thread::sleep_for(late);
                                            if (!exchange(rank, 4096, i)) return;
                                          }
                                        },
                                        {});
  EXPECT_EQ(outcome.all, "");
  std::string text(static_cast<size_t>(lseek(file, 0, SEEK_END)), '\0');
  EXPECT_EQ(pread(file, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  close(file);
  return text;
}

TEST_F(VerbsFaults, ALateRankIsReportedAndThenAllIsRight) {
  EXPECT_THAT(late_log(std::chrono::seconds(2), 500'000'000),
              AllOf(HasSubstr("was waiting for rank 1 "), HasSubstr("alltoall"), HasSubstr("step "),
                    Not(HasSubstr("waiting for rank 3 "))));
}
TEST_F(VerbsFaults, ARankThirtySecondsLateFull) {
  EXPECT_THAT(late_log(std::chrono::seconds(30), 10'000'000'000),
              HasSubstr("was waiting for rank 1 "));
}

TEST_F(VerbsFaults, TooLittleLockedMemoryOnOneRank) {
  const Outcome outcome = run_disturbed(
      job_of({1, 1, 1}),
      [](const RankView& rank, Stage&) {
        if (!exchange(rank, 8, 0)) return;
        if (rank.context.rank() == 1) {
          // Root may lock more than the limit: become somebody else.
          const rlimit limit{1 << 20, 1 << 20};
          if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || (geteuid() == 0 && seteuid(65534) != 0))
            rank.complain("the limit can't be set");
        }
        exchange(rank, 1 << 20, 1);
      },
      {});
  expect_one_error(outcome, {0, 1, 2},
                   AllOf(HasSubstr("rank 1: "), HasSubstr("can't be registered with rxe2:1"),
                         HasSubstr("ulimit -l"), HasSubstr("step 0 of alltoall")));
}

TEST_F(VerbsFaults, TwoJobsUseOneDeviceAtOnce) {
  setenv("IBCOLL_DEVICES", "rxe1", 1);
  std::vector<pid_t> jobs;
  for (int i = 0; i < 2; ++i) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      const Outcome outcome =
          run_disturbed(job_of({2, 1, 2}), exchanges(40, {0, 8, 4096, 1 << 17}), {});
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
    const Outcome outcome = run_disturbed(job_of({3, 1, 2}),
                                          [&](const RankView& rank, Stage& stage) {
                                            rank.context.world().state().next_sequence =
                                                0xffff'fffb;
                                            exchanges(12, {8, 4096}, algorithm)(rank, stage);
                                          },
                                          {});
    EXPECT_EQ(outcome.all, "") << algorithm;
  }
}

/// A fault drawn by a seed, at a time drawn by it, in a job drawn by it.
struct RandomFault {
  explicit RandomFault(uint32_t seed) : random(seed) {
    const std::vector<std::vector<int>> layouts = {{1, 1}, {2, 1, 1}, {2, 2, 1}, {3, 1, 2}};
    layout = layouts[draw(layouts.size())];
    for (const int ranks : layout) total += ranks;
    const std::vector<std::string> algorithms = {"ring", "two_level_ring", "aggregate", "linear"};
    algorithm = algorithms[draw(algorithms.size())];
    const std::vector<size_t> all_sizes = {0, 8, 500, 4096, 40000, 300000};
    for (int i = 0; i < 3; ++i) sizes.push_back(all_sizes[draw(all_sizes.size())]);
    delay = milliseconds(draw(60));
    const std::string port = std::to_string(1 + draw(layout.size()));
    victim = static_cast<Rank>(1 + draw(static_cast<size_t>(total - 1)));  // rank 0 tells the tale
    survivors = total;
    switch (draw(6)) {
      case 0:
        text = fmt::format("kill rank {}", victim);
        act = [this](Stage& stage) { kill(stage.pids[victim], SIGKILL); };
        fatal = true;
        survivors = total - 1;
        break;
      case 1:
        text = fmt::format("link {} down", port);
        command = fmt::format("ip -n sw link set v{} down", port);
        fatal = true;
        break;
      case 2:
        text = fmt::format("link {} down for a while", port);
        command = fmt::format("ip -n sw link set v{0} down; sleep 0.{1}; ip -n sw link set v{0} up",
                              port, 1 + draw(9));
        may_fail = true;
        break;
      case 3:
        text = "packets lost";
        command = fmt::format("tc qdisc add dev e{} root netem loss {}%", port, 1 + draw(15));
        may_fail = true;
        break;
      case 4:
        text = fmt::format("rank {} stopped for a while", victim);
        act = [this](Stage& stage) {
          kill(stage.pids[victim], SIGSTOP);
          std::this_thread::sleep_for(milliseconds(200));
          kill(stage.pids[victim], SIGCONT);
        };
        break;
      default:
        text = fmt::format("ranks {} and up killed, link {} down", victim, port);
        command = fmt::format("ip -n sw link set v{} down", port);
        act = [this](Stage& stage) {
          for (Rank rank = victim; rank < total; ++rank) kill(stage.pids[rank], SIGKILL);
        };
        fatal = true;
        survivors = victim;
    }
    text += fmt::format(" after {} ms of {} with {} ranks", delay.count(), algorithm, total);
  }
  size_t draw(size_t below) { return random() % below; }
  void disturb(Stage& stage) const {
    std::this_thread::sleep_for(delay);
    if (!command.empty()) std::ignore = std::system(command.c_str());
    if (act) act(stage);
  }

  std::mt19937 random;
  std::vector<int> layout;
  int total = 0, survivors = 0;
  std::string algorithm, command, text;
  std::vector<size_t> sizes;
  milliseconds delay{};
  Rank victim = 0;
  std::function<void(Stage&)> act;
  bool fatal = false;     ///< ends the job for certain
  bool may_fail = false;  ///< may be more than retries get over
};

uint32_t number_from_environment(const char* name, uint32_t otherwise) {
  const char* text = getenv(name);
  return text == nullptr ? otherwise : static_cast<uint32_t>(std::atoi(text));
}

/// TEST_FAULTS=200 for so many, from TEST_FAULT_SEED on.
TEST_F(VerbsFaults, RandomOnesNeverHang) {
  const uint32_t first = number_from_environment("TEST_FAULT_SEED", 1);
  const uint32_t count = number_from_environment("TEST_FAULTS", 8);
  for (uint32_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    alarm(60);
    const RandomFault fault(seed);
    SCOPED_TRACE(fmt::format("TEST_FAULT_SEED={}: {}", seed, fault.text));
    const Outcome outcome =
        run_disturbed(job_of(fault.layout),
                      exchanges(fault.fatal ? kUntilItFails : 60, fault.sizes, fault.algorithm),
                      [&](Stage& stage) { fault.disturb(stage); });
    if (fault.fatal || (fault.may_fail && !outcome.all.empty())) {
      EXPECT_GE(outcome.errors.size(), static_cast<size_t>(fault.survivors)) << outcome.all;
      for (const auto& [rank, error] : outcome.errors) {
        EXPECT_EQ(common(error), common(outcome.errors.begin()->second)) << outcome.all;
        EXPECT_THAT(error, Not(HasSubstr("wrong data")));
      }
    } else {
      EXPECT_EQ(outcome.all, "");
    }
    if (count > 8)
      std::fprintf(stderr, "seed %u: %s: %s\n", seed, fault.text.c_str(),
                   outcome.all.empty() ? "right" : outcome.errors.begin()->second.c_str());
    TearDown();
  }
}

/// Takes a device away for good: tests/softroce gives it a machine of its own.
TEST_F(VerbsFaults, TheDeviceGoesAwayLast) {
  if (getenv("TEST_DEVICE_GONE") == nullptr)
    GTEST_SKIP() << "set TEST_DEVICE_GONE: tests that come after it lack a device";
  const Outcome outcome =
      run_disturbed(job_of({2, 1, 1}), exchanges(kUntilItFails, {1 << 16}),
                    [](Stage&) { std::ignore = std::system("ip link del e2"); });
  expect_one_error(outcome, {0, 1, 2, 3},
                   AllOf(AnyOf(HasSubstr("rank 2"), HasSubstr("rxe2")), HasSubstr("rxe")));
}

}  // namespace
}  // namespace ibcoll

#endif  // IBCOLL_HAVE_VERBS
