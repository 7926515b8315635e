// Joined jobs and strangers that call rank 0: none gets in, and none does harm.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "engine/bootstrap/control_socket.h"
#include "engine/bootstrap/handshake.h"
#include "engine/bootstrap/root_place.h"
#include "tests/bootstrap/handmade_caller.h"
#include "tests/joined_job.h"

namespace ibcoll {
namespace {

using ::testing::AllOf;
using testing::answer;
using testing::Blackboard;
using testing::challenged;
using testing::connect_to;
using ::testing::ContainsRegex;
using testing::gather_all_sizes;
using ::testing::HasSubstr;
using testing::Hello;
using testing::JoinedRun;
using ::testing::Not;
using testing::run_joined;
using Clock = std::chrono::steady_clock;

/// Two ranks join after `stranger` has tried what it does, and their job is right.
void expect_unharmed(const std::function<void(const RootPlace&)>& stranger) {
  testing::SharedBlackboard gate;
  JoinedRun run;
  run.machines = {0, 1, 1};
  run.before = [&](Rank rank) {
    if (rank != 0) gate->wait_for_text();
  };
  run.meanwhile = [&](Blackboard& board) {
    const auto place = RootPlace::parse(board.wait_for_text());
    ASSERT_TRUE(place) << place.error().message;
    stranger(*place);
    gate->written.store(1);
  };
  EXPECT_EQ(run_joined(run, gather_all_sizes), "");
}

TEST(Strangers, WithoutTheTokenAreRefused) {
  expect_unharmed([](const RootPlace& place) {
    ControlConnection link = connect_to(place);
    const Hello hello;
    const Nonce nonce = challenged(link, 1, hello);
    JobToken guess{};
    EXPECT_FALSE(answer(link, 1, prove(guess, Side::kCaller, {1, false}, hello.nonce, nonce)));
  });
}

TEST(Strangers, ThatRepeatAnAnswerAreRefused) {
  expect_unharmed([](const RootPlace& place) {
    ControlConnection first = connect_to(place), second = connect_to(place);
    const Hello hello;
    const Nonce nonce = challenged(first, 1, hello);
    const Nonce other = challenged(second, 1, hello);
    EXPECT_NE(nonce, other);
    const Proof heard = prove(place.token, Side::kCaller, {1, false}, hello.nonce, nonce);
    EXPECT_FALSE(answer(second, 1, heard));
    // Nor does what rank 0 itself proves with.
    ControlConnection third = connect_to(place);
    const Nonce again = challenged(third, 1, hello);
    EXPECT_FALSE(
        answer(third, 1, prove(place.token, Side::kCalled, {1, false}, hello.nonce, again)));
  });
}

TEST(Strangers, ThatClaimMuchMemoryOrSayNonsenseAreRefused) {
  expect_unharmed([](const RootPlace& place) {
    for (const size_t bytes : {1, 39, 40, 100'000}) {
      const ControlConnection link = connect_to(place);
      const std::vector<unsigned char> nonsense(bytes, 0xff);
      EXPECT_GE(send(link.fd(), nonsense.data(), bytes, MSG_NOSIGNAL), 0);
    }
  });
}

TEST(Strangers, ThatSayNothingHoldNobodyUp) {
  // Rank 0 gives them up after 5 s. A machine that stands still makes a job as late, but not each.
  auto least = Clock::duration::max();
  for (int tries = 0; tries < 3 && least >= std::chrono::seconds(5); ++tries) {
    std::vector<ControlConnection> silent;
    const auto start = Clock::now();
    expect_unharmed([&](const RootPlace& place) {
      for (int i = 0; i < 3; ++i) silent.push_back(connect_to(place));
    });
    least = std::min(least, Clock::now() - start);
  }
  EXPECT_LT(least, std::chrono::seconds(5));
}

TEST(Strangers, ASecondClaimOfARankIsRefused) {
  JoinedRun run;
  run.machines = {0, 1, -1};
  run.limit_s = 12;
  run.meanwhile = [](Blackboard& board) {
    const auto place = RootPlace::parse(board.wait_for_text());
    ASSERT_TRUE(place);
    // Rank 1 may come before or after: once all have met, nobody answers any more.
    int welcome = 0, refused = 0;
    std::vector<ControlConnection> links;
    for (int i = 0; i < 3; ++i) {
      ControlConnection link = connect_to(*place);
      const Hello hello;
      const Nonce nonce = challenged(link, 2, hello);
      const auto said =
          answer(link, 2, prove(place->token, Side::kCaller, {2, false}, hello.nonce, nonce));
      links.push_back(std::move(link));
      if (!said) {
        ++refused;
        continue;
      }
      welcome += said->kind == FrameKind::kWelcome;
      refused +=
          said->kind == FrameKind::kFailure && said->text() == "rank 2 has joined this job already";
    }
    EXPECT_EQ(welcome, 1);
    EXPECT_EQ(refused, 2);
  };
  // The first claim stands for rank 2, which then ends without a word.
  EXPECT_THAT(run_joined(run,
                         [](Bootstrap& job) -> std::string {
                           const Status met = job.barrier();
                           return met ? "succeeds" : met.error().message;
                         }),
              AllOf(ContainsRegex("rank 0: (not joined: )?rank 2 has died"),
                    ContainsRegex("rank 1: (not joined: )?rank 2 has died")));
}

TEST(Strangers, AClaimOfARankThatIsThereDoesNoHarm) {
  expect_unharmed([](const RootPlace& place) {
    ControlConnection link = connect_to(place);
    const Hello hello;
    const Nonce nonce = challenged(link, 0, hello);
    const auto said =
        answer(link, 0, prove(place.token, Side::kCaller, {0, false}, hello.nonce, nonce));
    ASSERT_TRUE(said);
    EXPECT_EQ(said->kind, FrameKind::kFailure);
    EXPECT_EQ(said->text(), "rank 0 has joined this job already");
  });
}

/// Everybody on a machine can read the names of its sockets, and take one first.
TEST(Strangers, OfAnotherUserAreRefusedOnTheMachine) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  constexpr uid_t kNobody = 65534;
  const std::string name = fmt::format("ibcoll-test-{}", getpid());
  const auto connects = [&](uid_t user) {
    bool taken = false;
    Result<ControlListener> listener = ControlListener::local(name, taken);
    EXPECT_TRUE(listener && !taken);
    const pid_t child = fork();
    if (child == 0) {  // by hand: our own side would refuse first
      if (setresuid(user, user, user) != 0) _exit(2);
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      name.copy(address.sun_path + 1, name.size());
      const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
      const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
      _exit(connect(fd, reinterpret_cast<sockaddr*>(&address), bytes) == 0 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "it has not connected";
    const Result<UniqueFd> taken_in = listener->accept();
    return taken_in && taken_in->valid();
  };
  EXPECT_TRUE(connects(0));
  EXPECT_FALSE(connects(kNobody));

  // Nor does a rank tell anything to another user's process that has taken the name first.
  bool taken = false;
  const Result<ControlListener> listener = ControlListener::local(name, taken);
  ASSERT_TRUE(listener);
  EXPECT_TRUE(connect_local(name));
  const pid_t child = fork();
  if (child == 0) _exit(setresuid(kNobody, kNobody, kNobody) == 0 && !connect_local(name) ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Strangers, TheNameOfTheSocketDoesNotTellTheToken) {
  const auto token = random_token();
  ASSERT_TRUE(token);
  const std::string name = socket_name(*token, "1");
  EXPECT_NE(name, socket_name(*token, "2"));
  EXPECT_EQ(name, socket_name(*token, "1"));
  const std::string text = to_text(*token);
  for (size_t at = 0; at + 8 <= text.size(); ++at)
    EXPECT_THAT(name, Not(HasSubstr(text.substr(at, 8))));
  EXPECT_EQ(*parse_token(text), *token);
  EXPECT_FALSE(parse_token(text.substr(2)));
}

}  // namespace
}  // namespace ibcoll
