// Joined jobs whose leaders die or give up, with a failure to pass on or without: all that are left
// say the same.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <latch>
#include <new>
#include <thread>

#include "engine/bootstrap/control.h"
#include "engine/bootstrap/handshake.h"
#include "engine/bootstrap/meeting.h"
#include "tests/bootstrap/handmade_caller.h"
#include "tests/files.h"
#include "tests/joined_job.h"

namespace ibcoll {
namespace {

using testing::answer;
using testing::Blackboard;
using testing::challenged;
using testing::connect_to;
using testing::gather_all_sizes;
using testing::Hello;
using testing::JoinedRun;
using testing::kSilenceMs;
using testing::run_joined;
using Clock = std::chrono::steady_clock;

/// How the leader of a machine, which stands still while the job fails elsewhere and then dies,
/// leaves a member of its machine behind.
enum class LeftBehind {
  kWaiting,         ///< the member looks for a failure now and then
  kReporting,       ///< it waits for its own report to be passed on
  kStillConnected,  ///< rank 0 has not seen the leader's connection end when the member comes
  kRootIsLeaving    ///< rank 0 knows the failure and would go
};

/// What the ranks and the test's own process, which stops and kills some of them, know of each
/// other.
struct DeathStage {
  std::atomic<pid_t> pids[3], child;
  std::atomic<bool> standing, known, over;
};

class SharedDeathStage {
 public:
  SharedDeathStage()
      : stage_(new (mmap(nullptr, sizeof(DeathStage), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0)) DeathStage{}) {}
  ~SharedDeathStage() { munmap(stage_, sizeof(DeathStage)); }
  SharedDeathStage(const SharedDeathStage&) = delete;
  SharedDeathStage& operator=(const SharedDeathStage&) = delete;
  DeathStage* operator->() const { return stage_; }
  DeathStage& operator*() const { return *stage_; }

 private:
  DeathStage* stage_;
};

template <class Condition>
void wait_until(const Condition& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Has a rank stand still: none of its threads does anything any more.
void stop(const std::atomic<pid_t>& pid) {
  wait_until([&] { return pid != 0; });
  kill(pid, SIGSTOP);
  siginfo_t stopped{};
  waitid(P_PID, static_cast<id_t>(pid.load()), &stopped, WSTOPPED | WNOWAIT);
}

std::string be_left_behind(LeftBehind how, DeathStage& stage, Bootstrap& job) {
  if (const Status met = job.barrier(); !met) return met.error().message;
  if (job.rank() == 2) {
    if (how == LeftBehind::kStillConnected) {  // the child keeps copies of its connections by TCP
      for (int fd = 3; fd < 256; ++fd) {
        sockaddr_storage address{};
        socklen_t bytes = sizeof address;
        if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) == 0 &&
            address.ss_family != AF_UNIX)
          (void)dup(fd);
      }
      const pid_t child = fork();
      if (child == 0) {
        while (true) pause();
      }
      stage.child = child;
    }
    stage.pids[2] = getpid();
    while (true) pause();
  }
  wait_until([&] { return stage.standing.load(); });
  if (job.rank() == 1) job.abort({1, ErrorCode::kDeadline, "rank 1 gives up"});
  if (job.rank() == 3 && how == LeftBehind::kReporting) {
    wait_until([&] { return stage.known.load(); });
    job.abort({3, ErrorCode::kDeadline, "rank 3 gives up"});
  }
  wait_until([&] { return job.failure().has_value(); });
  if (job.rank() == 0) {
    stage.known = true;
    if (how != LeftBehind::kRootIsLeaving) wait_until([&] { return stage.over.load(); });
  }
  if (job.rank() == 3) stage.over = true;
  return job.failure()->what;
}

TEST(Leaders, WhoseLeaderDiesLearnsFromRankZeroWhatCounts) {
  for (const LeftBehind how : {LeftBehind::kWaiting, LeftBehind::kReporting,
                               LeftBehind::kStillConnected, LeftBehind::kRootIsLeaving}) {
    SCOPED_TRACE(static_cast<int>(how));
    const SharedDeathStage stage;
    JoinedRun run;
    run.machines = {0, 0, 1, 1};
    run.to_die = {2};
    run.meanwhile = [&](Blackboard&) {
      stop(stage->pids[2]);
      stage->standing = true;
      wait_until([&] { return stage->known.load(); });
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // rank 0 goes, if it does
      kill(stage->pids[2], SIGKILL);
    };
    EXPECT_EQ(run_joined(run, [&](Bootstrap& job) { return be_left_behind(how, *stage, job); }),
              "rank 0: rank 1 gives up\nrank 1: rank 1 gives up\nrank 3: rank 1 gives up\n");
    if (stage->child != 0) kill(stage->child, SIGKILL);
  }
}

/// Waits until somebody leads that machine: its socket has a name then.
std::string once_led(const std::string& text, const std::string& machine) {
  const std::string name = socket_name(RootPlace::parse(text)->token, machine);
  wait_until(
      [&] { return testing_tools::content_of("/proc/net/unix").find(name) != std::string::npos; });
  return text;
}

/// The same before all ranks have met: rank 4 never comes.
TEST(Leaders, WhoseLeaderDiesBeforeAllHaveMetLearnsItFromRankZeroToo) {
  const auto pause_ms = [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
  const SharedDeathStage stage;
  JoinedRun run;
  run.machines = {0, 0, 1, 1, -1};
  run.to_die = {1, 2};
  run.rewrite = [](Rank rank, const std::string& text) {
    return rank == 3 ? once_led(text, "1") : text;  // rank 2 shall lead
  };
  run.before = [&](Rank rank) {
    if (rank == 1 || rank == 2) stage->pids[rank] = getpid();
  };
  run.meanwhile = [&](Blackboard&) {
    wait_until([&] { return stage->pids[1] != 0 && stage->pids[2] != 0; });
    pause_ms(3000);  // until they have come
    stop(stage->pids[2]);
    kill(stage->pids[1], SIGKILL);
    pause_ms(300);  // rank 0 goes, if it does
    kill(stage->pids[2], SIGKILL);
  };
  EXPECT_EQ(run_joined(run, [](Bootstrap&) -> std::string { return "has joined"; }),
            "rank 0: not joined: rank 1 has died\nrank 3: not joined: rank 1 has died\n");
}

TEST(Leaders, ALeaderThatGetsNoThreadTellsEverybody) {
  for (const Rank victim : {0, 2}) {
    SCOPED_TRACE(victim);
    JoinedRun run;
    run.machines = {0, 0, 1, 1};
    run.rewrite = [](Rank rank, const std::string& text) {
      return rank == 3 ? once_led(text, "1") : text;  // rank 2 leads; rank 0 does in any case
    };
    run.before = [&](Rank rank) {
      if (rank != victim) return;
      pthread_attr_t attributes;
      pthread_attr_init(&attributes);
      pthread_attr_setstacksize(&attributes, size_t{1} << 47);  // more than can be addressed
      pthread_setattr_default_np(&attributes);
    };
    const std::string all = run_joined(run, [&](Bootstrap& job) -> std::string {
      const Status met = job.barrier();
      if (met) return "succeeds";
      const int culprit = job.failure().value_or(Failure{}).culprit;
      return culprit == victim ? met.error().message : fmt::format("culprit {}", culprit);
    });
    for (Rank rank = 0; rank < 4; ++rank)
      EXPECT_THAT(all, ::testing::ContainsRegex(
                           fmt::format("rank {}: (not joined: )?no thread to talk", rank)));
  }
}

TEST(FirstFailure, IsOneOfThoseToldWhoeverDiesInTheMidst) {
  for (int round = 0; round < 300; ++round) {
    FirstFailure first{};
    std::array<FirstFailure::Place, 4> places{};
    places[3].taken = true;  // its writer has died
    std::latch start(3);
    std::atomic<int> firsts = 0, culprit = -1;
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        start.arrive_and_wait();
        if (first.tell(places.data(), static_cast<uint32_t>(rank),
                       {rank, ErrorCode::kSystem, fmt::format("of rank {}", rank)})) {
          ++firsts;
          culprit = rank;
        }
        const std::optional<Failure> told = first.read(places.data());
        EXPECT_TRUE(told && told->what == fmt::format("of rank {}", told->culprit));
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(firsts, 1);
    ASSERT_EQ(first.read(places.data())->culprit, culprit);
    // The place that counts is not written again.
    EXPECT_FALSE(first.tell(places.data(), static_cast<uint32_t>(culprit.load()),
                            {7, ErrorCode::kSystem, "later"}));
    ASSERT_EQ(first.read(places.data())->culprit, culprit);
  }
}

/// Rank 0 and the leader of another machine die at once: that machine's members say what all say.
TEST(Leaders, RankZeroIsNamedWhereItDiesWithALeader) {
  const SharedDeathStage stage;
  JoinedRun run;
  run.machines = {0, 0, 1, 1, 2, 2};
  run.to_die = {0, 2};
  run.meanwhile = [&](Blackboard&) {
    for (const Rank rank : {0, 2}) stop(stage->pids[rank]);
    for (const Rank rank : {0, 2}) kill(stage->pids[rank], SIGKILL);
  };
  const std::string all = run_joined(run, [&](Bootstrap& job) -> std::string {
    if (const Status met = job.barrier(); !met) return met.error().message;
    if (job.rank() == 0 || job.rank() == 2) {
      stage->pids[job.rank()] = getpid();
      while (true) pause();
    }
    wait_until([&] { return job.failure().has_value(); });
    return job.failure()->what;
  });
  for (const Rank rank : {1, 3, 4, 5})
    EXPECT_THAT(all, ::testing::HasSubstr(fmt::format("rank {}: rank 0 has died\n", rank)));
}

/// Another machine's leader that the test itself plays; rank 0 has let it in.
ControlConnection play_leader(const RootPlace& place, Rank rank) {
  ControlConnection link = connect_to(place);
  const Hello hello;
  const Nonce nonce = challenged(link, rank, hello);
  const auto said =
      answer(link, rank, prove(place.token, Side::kCaller, {rank, false}, hello.nonce, nonce));
  EXPECT_TRUE(said && said->kind == FrameKind::kWelcome);
  return link;
}

Failure died(Rank rank) {
  return {rank, ErrorCode::kPeerFailed, fmt::format("rank {} has died", rank)};
}

/// The leader of rank 3, rank 2, tells rank 0 that it gives up and dies before it tells rank 3,
/// which asks rank 0. Rank 4, another machine's leader, stands still, and rank 5 comes late.
TEST(Orphans, LearnWhatTheirLeaderToldRankZeroAlone) {
  for (const bool named : {true, false}) {  // rank 0 knows who rank 3's leader was
    SCOPED_TRACE(named);
    JoinedRun run;
    run.machines = {0, 0, -1, -1, -1, -1};
    run.meanwhile = [&](Blackboard& board) {
      const auto place = RootPlace::parse(board.wait_for_text());
      ASSERT_TRUE(place);
      const ControlConnection silent = play_leader(*place, 4);
      ControlConnection leader = play_leader(*place, 2);
      if (named) leader.send(FrameKind::kJoin, 3);
      leader.send_failure({2, ErrorCode::kDeadline, "rank 2 gives up"});
      const Result<Frame> heard = leader.receive(deadline_in(5));
      EXPECT_TRUE(heard && heard->text() == "rank 2 gives up");
      leader.close();
      const auto start = Clock::now();
      const Failure word = word_of_root(*place, 3, kSilenceMs, died(2), true);
      EXPECT_EQ(word.what, "rank 2 gives up");
      EXPECT_EQ(word.code, ErrorCode::kDeadline);
      EXPECT_LT(Clock::now() - start, std::chrono::seconds(6));
      EXPECT_EQ(word_of_root(*place, 5, kSilenceMs, died(2), true).what, "rank 2 gives up");
    };
    EXPECT_EQ(run_joined(run, gather_all_sizes),
              "rank 0: not joined: rank 2 gives up\nrank 1: not joined: rank 2 gives up\n");
  }
}

/// Rank 0 does not know that ranks 3 and 4 had a leader, nor has seen it die: their word counts.
TEST(Orphans, ThatRankZeroHasNotHeardOfAreBelieved) {
  JoinedRun run;
  run.machines = {0, 0, -1, -1, -1};
  run.meanwhile = [](Blackboard& board) {
    const auto place = RootPlace::parse(board.wait_for_text());
    ASSERT_TRUE(place);
    const ControlConnection leader = play_leader(*place, 2);
    for (const Rank rank : {3, 4})
      EXPECT_EQ(word_of_root(*place, rank, kSilenceMs, died(2), true).what, "rank 2 has died");
  };
  EXPECT_EQ(run_joined(run, gather_all_sizes),
            "rank 0: not joined: rank 2 has died\nrank 1: not joined: rank 2 has died\n");
}

}  // namespace
}  // namespace ibcoll
