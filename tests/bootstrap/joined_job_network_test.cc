// Joined jobs and their connections: broken ones, a network that is away, and connections that find
// no file left.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "engine/bootstrap/control_socket.h"
#include "engine/bootstrap/root_place.h"
#include "tests/api_job.h"
#include "tests/bootstrap/handmade_caller.h"
#include "tests/joined_job.h"

namespace ibcoll {
namespace {

using testing::Blackboard;
using testing::gather_all_sizes;
using ::testing::HasSubstr;
using testing::JoinedRun;
using testing::kSilenceMs;
using testing::run_joined;
using testing::SharedFlags;
using Clock = std::chrono::steady_clock;

void limit_files(rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  setrlimit(RLIMIT_NOFILE, &limit);
}

TEST(OpenFiles, TheSoftLimitIsRaised) {
  JoinedRun run;
  for (int i = 0; i < 24; ++i) run.machines.push_back(i);
  run.before = [](Rank) { limit_files(28, 1024); };
  EXPECT_EQ(run_joined(run,
                       [](Bootstrap& job) -> std::string {
                         const Status met = job.barrier();
                         return met ? "" : met.error().message;
                       }),
            "");
}

TEST(OpenFiles, AHardLimitIsOneErrorOnAllRanks) {
  for (const bool one_machine : {false, true}) {
    JoinedRun run;
    for (int i = 0; i < 24; ++i) run.machines.push_back(one_machine ? 0 : i);
    run.before = [](Rank rank) {
      if (rank != 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it leads
      limit_files(28, 28);
    };
    const auto start = Clock::now();
    const std::string all = run_joined(run, gather_all_sizes);
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(30));
    for (int rank = 0; rank < 24; ++rank) {
      EXPECT_THAT(all, HasSubstr(fmt::format(
                           "rank {}: not joined: cannot take the connection of another rank: this "
                           "process has as many open files as it may have, 28",
                           rank)));
    }
  }
}

size_t open_files() {
  size_t open = 0;
  for (int fd = 0; fd < 1024; ++fd) open += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return open;
}

TEST(OpenFiles, NoneIsLeftOverWhereNotAllThatArePassedOnFit) {
  const pid_t child = fork();
  if (child == 0) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0) _exit(2);
    ControlConnection sender{UniqueFd(pair[0])}, receiver{UniqueFd(pair[1])};
    const int passed[] = {pair[0], pair[1]};
    if (!sender.send_descriptors(passed, deadline_in(5))) _exit(3);
    const int next = dup(pair[0]);  // the lowest number that is free
    close(next);
    limit_files(static_cast<rlim_t>(next) + 1, 1024);
    const size_t before = open_files();
    UniqueFd taken[2];
    const Status came = receiver.receive_descriptors(taken, deadline_in(5));
    if (came || came.error().message.find("as many open files as it may have") == std::string::npos)
      _exit(4);
    _exit(open_files() == before ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

/// What ranks and the proxy between them tell each other.
enum Flag : size_t { kJoined, kDone, kCuts, kHolds };

/// Passes on what comes to its port to rank 0, until the connections are cut.
class Proxy {
 public:
  Proxy() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(listener_.get(), 8), 0);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
  }
  int port() const { return port_; }

  enum class Cuts {
    kNowAndThen,  ///< from when all have joined until the first is done, every 300 ms
    kAtTheEnd     ///< once, when the first is done; what rank 0 has sent since all joined is lost
  };

  /// Until all ranks are done and their connections have ended. Resets all connections at times.
  void run(int to, int ranks, SharedFlags& flags, Cuts cuts) {
    std::vector<Pair> pairs;
    const auto limit = Clock::now() + std::chrono::seconds(40);
    auto cut = Clock::now() + kBetweenCuts;
    auto quiet_since = Clock::now();
    while (Clock::now() < limit) {
      // A rank whose connection has been reset at last makes it again to take its leave.
      const bool ended = std::all_of(pairs.begin(), pairs.end(), [](const Pair& pair) {
        return pair.caller_ended && pair.called_ended;
      });
      if (flags.raised(kDone) < ranks || !ended) quiet_since = Clock::now();
      if (Clock::now() - quiet_since > std::chrono::milliseconds(500)) return;
      const bool joined = flags.raised(kJoined) == ranks;
      const bool holds = cuts == Cuts::kAtTheEnd && joined && flags.raised(kCuts) == 0;
      if (holds && flags.raised(kHolds) == 0) flags.raise(kHolds);
      std::vector<pollfd> watched{{listener_.get(), POLLIN, 0}};
      for (const Pair& pair : pairs) {  // poll passes over numbers below zero
        watched.push_back({pair.caller_ended ? -1 : pair.caller.get(), POLLIN, 0});
        watched.push_back({pair.called_ended || holds ? -1 : pair.called.get(), POLLIN, 0});
      }
      poll(watched.data(), watched.size(), 5);
      for (size_t i = 0; i < pairs.size(); ++i) {
        Pair& pair = pairs[i];
        if (watched[2 * i + 1].revents != 0) pair.caller_ended = !pass(pair.caller, pair.called);
        if (watched[2 * i + 2].revents != 0) pair.called_ended = !pass(pair.called, pair.caller);
      }
      if (watched[0].revents != 0) {
        UniqueFd from(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        Result<UniqueFd> other = connect_network("127.0.0.1", to, kSilenceMs);
        if (other) pairs.push_back({std::move(from), std::move(*other)});
      }
      const bool done = flags.raised(kDone) > 0;
      if (holds ? done : joined && !done && !pairs.empty() && Clock::now() > cut) {
        for (const Pair& pair : pairs) {
          const linger at_once{1, 0};
          setsockopt(pair.caller.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
          setsockopt(pair.called.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        }
        pairs.clear();
        flags.raise(kCuts);
        cut = Clock::now() + kBetweenCuts;
      }
    }
  }

 private:
  static constexpr auto kBetweenCuts = std::chrono::milliseconds(300);
  struct Pair {
    UniqueFd caller, called;
    bool caller_ended = false, called_ended = false;  ///< nothing more comes from there
  };

  /// Whether more may come.
  static bool pass(const UniqueFd& from, const UniqueFd& to) {
    char data[65536];
    const ssize_t got = recv(from.get(), data, sizeof data, MSG_DONTWAIT);
    for (ssize_t done = 0; done < got;) {
      const ssize_t sent =
          send(to.get(), data + done, static_cast<size_t>(got - done), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) done += sent;
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return true;
    }
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return true;
    shutdown(to.get(), SHUT_WR);
    return false;
  }

  UniqueFd listener_;
  int port_ = 0;
};

/// Runs ranks on three machines, whose connections to rank 0 lead through a proxy.
std::string run_through_proxy(SharedFlags& flags, Proxy::Cuts cuts,
                              const std::function<std::string(Bootstrap&)>& main) {
  Proxy proxy;
  JoinedRun run;
  run.machines = {0, 1, 1, 2};
  run.rewrite = [&](Rank, const std::string& text) {
    RootPlace place = *RootPlace::parse(text);
    place.port = proxy.port();
    place.addresses = {"127.0.0.1"};
    return place.text();
  };
  run.meanwhile = [&](Blackboard& board) {
    const auto place = RootPlace::parse(board.wait_for_text());
    ASSERT_TRUE(place);
    proxy.run(place->port, 4, flags, cuts);
  };
  return run_joined(run, main);
}

TEST(Connections, ThatAreResetAreMadeAgainAndLoseNothing) {
  SharedFlags& flags = SharedFlags::create();
  const auto main = [&](Bootstrap& job) -> std::string {
    if (const Status met = job.barrier(); !met) return met.error().message;
    flags.raise(kJoined);
    while (true) {
      if (std::string wrong = gather_all_sizes(job); !wrong.empty()) return wrong;
      // Together, for all shall make the same number of rounds.
      uint8_t mine = flags.raised(kCuts) >= 3 ? 1 : 0;
      std::vector<uint8_t> all(static_cast<size_t>(job.size()));
      if (const Status met = job.allgather(&mine, 1, all.data()); !met) return met.error().message;
      if (all[0] == 0) continue;
      flags.raise(kDone);
      return "";
    }
  };
  EXPECT_EQ(run_through_proxy(flags, Proxy::Cuts::kNowAndThen, main), "");
}

TEST(Connections, ThatAreResetBehindTheLastBarrierLoseNothing) {
  SharedFlags& flags = SharedFlags::create();
  const auto main = [&](Bootstrap& job) -> std::string {
    if (const Status met = job.barrier(); !met) return met.error().message;
    flags.raise(kJoined);
    flags.await(kHolds, 1);
    // Rank 0 gets all there is, and leaves before the others have it.
    if (const Status met = job.barrier(); !met) return met.error().message;
    flags.raise(kDone);
    return "";
  };
  EXPECT_EQ(run_through_proxy(flags, Proxy::Cuts::kAtTheEnd, main), "");
}

bool set_loopback(bool up) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  if (ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return false;
  request.ifr_flags =
      static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
  return ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

/// Whether this process got a network of its own, so that it can be taken away.
bool own_network() { return unshare(CLONE_NEWNET) == 0 && set_loopback(true); }

/// Runs a job whose network is away for a while after its first barrier.
std::string run_without_network(const JoinedRun& run, std::chrono::milliseconds away,
                                const std::function<std::string(Bootstrap&)>& main) {
  testing::Complaints complaints(1);
  const pid_t child = fork();
  if (child == 0) {
    if (!own_network()) {
      complaints.add(0, "skip");
      _exit(0);
    }
    complaints.add(0, run_joined(run, [&](Bootstrap& job) -> std::string {
                     if (const Status met = job.barrier(); !met) return met.error().message;
                     if (job.rank() == 0) {
                       std::this_thread::sleep_for(std::chrono::milliseconds(50));
                       set_loopback(false);
                       std::this_thread::sleep_for(away);
                       set_loopback(true);
                     }
                     return main(job);
                   }));
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  return complaints.of(0);
}

TEST(ManagementNetwork, AwayForSecondsHarmsNobody) {
  JoinedRun run;
  run.machines = {0, 1, 1};
  const std::string all =
      run_without_network(run, std::chrono::milliseconds(2600), [](Bootstrap& job) -> std::string {
        const Status met = job.barrier();
        return met ? "" : met.error().message;
      });
  if (all == "skip") GTEST_SKIP() << "needs a network namespace of its own";
  EXPECT_EQ(all, "");
}

TEST(ManagementNetwork, AwayForLongEndsOnlyWaitsInVainFull) {
  JoinedRun run;
  run.machines = {0, 1, 1};
  run.silence_ms = 2000;
  const std::string all =
      run_without_network(run, std::chrono::milliseconds(6000), [](Bootstrap& job) -> std::string {
        // Nobody has waited for anything: the job goes on, and sees that all are there again.
        if (job.failure()) return job.failure()->what;
        if (job.rank() == 0) {
          const auto until = Clock::now() + std::chrono::seconds(20);
          while (job.absence(1) && Clock::now() < until)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          return job.absence(1) ? job.absence(1)->what : "";
        }
        bool absent = false;
        for (int i = 0; i < 650; ++i) {
          absent |= job.absence(0).has_value();
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        if (job.failure()) return job.failure()->what;
        return absent ? "" : "rank 0 was never unreachable";
      });
  if (all == "skip") GTEST_SKIP() << "needs a network namespace of its own";
  EXPECT_EQ(all, "");
}

}  // namespace
}  // namespace ibcoll
