// Progress without a wait: ibcoll_progress, the descriptor for poll(), and the progress thread.

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/api_job.h"
#include "tests/proc.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::exchange;
using ::testing::HasSubstr;
using testing::launched;
using testing::run_ranks;
using testing::running_threads;
using testing::SharedFlags;
using testing::SharedHost;
using testing::threads_of_its_own;

/// An alltoall of all ranks that is under way.
class PendingExchange {
 public:
  PendingExchange(const ApiRank& rank, size_t numbers, int call,
                  const ibcoll_options* options = nullptr)
      : rank_(rank), numbers_(numbers), call_(call) {
    const auto ranks = static_cast<size_t>(ibcoll_size(rank.context));
    for (size_t i = 0; i < ranks * numbers; ++i)
      send_.push_back(number(me(), static_cast<int>(i / numbers), i % numbers));
    recv_.assign(send_.size(), -1);
    const ibcoll_call wanted =
        ibcoll_call_alltoall(send_.data(), recv_.data(), numbers * sizeof(int), options);
    rank.good(ibcoll_call_init(ibcoll_world(rank.context), &wanted, &request_), "init");
    rank.good(ibcoll_start(request_), "start");
  }
  ~PendingExchange() { ibcoll_call_free(request_); }
  PendingExchange(const PendingExchange&) = delete;
  PendingExchange& operator=(const PendingExchange&) = delete;

  ibcoll_request* request() { return request_; }
  bool done() {
    int done = 0;
    rank_.good(ibcoll_test(request_, &done), "test");
    return done != 0;
  }
  /// Whether all that is to be received lies there. No call is made.
  bool is_here() const {
    for (size_t i = 0; i < recv_.size(); ++i) {
      if (recv_[i] != number(static_cast<int>(i / numbers_), me(), i % numbers_)) return false;
    }
    return true;
  }
  void check() {
    rank_.good(ibcoll_wait(request_), "wait");
    if (!is_here()) rank_.complain("wrong data");
  }

 private:
  int me() const { return ibcoll_rank(rank_.context); }
  int number(int from, int to, size_t i) const {
    return ((call_ * 16 + from) * 16 + to) * 1000 + static_cast<int>(i % 1000);
  }
  const ApiRank& rank_;
  size_t numbers_;
  int call_;
  std::vector<int> send_, recv_;
  ibcoll_request* request_ = nullptr;
};

constexpr int kRanks = 4;

class ProgressOnLayouts : public ::testing::TestWithParam<const char*> {
 protected:
  std::string on_all(const std::function<void(const ApiRank&)>& body, int* status = nullptr) {
    return launched(GetParam(), kRanks, body, status);
  }
};

/// Progress until all of them are done, as `step` makes it.
void until_done(std::vector<std::unique_ptr<PendingExchange>>& calls,
                const std::function<void()>& step) {
  size_t done = 0;
  // Calls may have ended when they were started, or in a test of another: a sleep must know.
  while (done < calls.size()) {
    step();
    while (done < calls.size() && calls[done]->done()) ++done;
  }
}

TEST_P(ProgressOnLayouts, ProgressAloneFinishesCalls) {
  EXPECT_EQ(on_all([](const ApiRank& rank) {
              for (int round = 0; round < 5; ++round) {
                PendingExchange call(rank, 20'000, round);
                // Without a test or a wait: what is received shows that it is done.
                while (!call.is_here()) {
                  int moved = -1;
                  if (!rank.good(ibcoll_progress(rank.context, &moved), "progress")) return;
                  if (moved != 0 && moved != 1) rank.complain("moved is neither 0 nor 1");
                }
                // Others may still need this rank's part.
                call.check();
              }
            }),
            "");
}

TEST_P(ProgressOnLayouts, ProgressNoticesADeath) {
  int status = 0;
  EXPECT_EQ(on_all(
                [](const ApiRank& rank) {
                  if (ibcoll_rank(rank.context) == 1) raise(SIGKILL);
                  PendingExchange call(rank, 100, 0);
                  while (ibcoll_progress(rank.context, nullptr) == IBCOLL_OK) {
                  }
                  const std::string line = ibcoll_last_error();
                  if (line.find("rank 1") == std::string::npos) rank.complain(line);
                },
                &status),
            "");
  EXPECT_NE(status, 0);
}

/// Sleeps until the descriptor is readable.
void sleep_on_descriptor(const ApiRank& rank, int fd) {
  int armed = 0;
  if (!rank.good(ibcoll_arm(rank.context, &armed), "arm") || armed == 0) return;
  pollfd file{fd, POLLIN, 0};
  // While calls are under way it wakes by itself: what takes so long never comes.
  if (poll(&file, 1, 30'000) != 1) rank.complain("the descriptor does not become readable");
}

TEST_P(ProgressOnLayouts, APollLoopFinishesCalls) {
  EXPECT_EQ(on_all([](const ApiRank& rank) {
              int fd = -1, again = -1;
              rank.good(ibcoll_get_descriptor(rank.context, &fd), "descriptor");
              rank.good(ibcoll_get_descriptor(rank.context, &again), "descriptor");
              if (fd < 0 || fd != again) rank.complain("another descriptor each time");
              for (int round = 0; round < 5; ++round) {
                std::vector<std::unique_ptr<PendingExchange>> calls;
                for (int i = 0; i < 3; ++i)
                  calls.push_back(std::make_unique<PendingExchange>(rank, 10'000, round * 3 + i));
                until_done(calls, [&] { sleep_on_descriptor(rank, fd); });
                for (const auto& call : calls) call->check();
              }
            }),
            "");
}

TEST_P(ProgressOnLayouts, TheDescriptorWakesForWhatComesLate) {
  SharedFlags& flags = SharedFlags::create();
  EXPECT_EQ(on_all([&](const ApiRank& rank) {
              int fd = -1;
              rank.good(ibcoll_get_descriptor(rank.context, &fd), "descriptor");
              if (ibcoll_rank(rank.context) == 0) flags.await(0, kRanks - 1);
              PendingExchange call(rank, 100, 0);
              int armed = 0;
              while (armed == 0) rank.good(ibcoll_arm(rank.context, &armed), "arm");
              flags.raise(0);
              while (!call.done()) sleep_on_descriptor(rank, fd);
              call.check();
            }),
            "");
}

TEST_P(ProgressOnLayouts, APollLoopNoticesADeath) {
  int status = 0;
  SharedFlags& flags = SharedFlags::create();
  EXPECT_EQ(on_all(
                [&](const ApiRank& rank) {
                  if (ibcoll_rank(rank.context) == 1) {
                    flags.await(0, kRanks - 1);
                    raise(SIGKILL);
                  }
                  int fd = -1, armed = 0, done = 0;
                  rank.good(ibcoll_get_descriptor(rank.context, &fd), "descriptor");
                  PendingExchange call(rank, 100, 0);
                  ibcoll_status last = IBCOLL_OK;
                  flags.raise(0);
                  while (last == IBCOLL_OK) {
                    last = ibcoll_arm(rank.context, &armed);
                    if (last != IBCOLL_OK) break;
                    pollfd file{fd, POLLIN, 0};
                    if (armed != 0 && poll(&file, 1, 30'000) != 1)
                      return rank.complain("the descriptor does not become readable");
                    last = ibcoll_test(call.request(), &done);
                  }
                  const std::string line = ibcoll_last_error();
                  if (line.find("rank 1") == std::string::npos) rank.complain(line);
                },
                &status),
            "");
  EXPECT_NE(status, 0);
}

TEST_P(ProgressOnLayouts, WithTheProgressThreadCallsFinishByThemselves) {
  SharedFlags& flags = SharedFlags::create();
  EXPECT_EQ(on_all([&](const ApiRank& rank) {
              rank.good(ibcoll_set_progress_thread(rank.context, 1), "on");
              ibcoll_options relayed = IBCOLL_OPTIONS_INIT;
              relayed.algorithm = "bruck";
              for (int round = 0; round < 2 * kRanks; ++round) {
                PendingExchange call(rank, 5000, round, &relayed);
                // One rank makes no call at all until all others have what passes through it.
                if (ibcoll_rank(rank.context) == round % kRanks) {
                  flags.await(0, (round + 1) * (kRanks - 1));
                  call.check();
                } else {
                  call.check();
                  flags.raise(0);
                }
                if (const std::string wrong = exchange(ibcoll_world(rank.context), round);
                    !wrong.empty())
                  rank.complain(wrong);
              }
            }),
            "");
}

/// Nor does it wait before the thread goes and another one comes in its place.
TEST_P(ProgressOnLayouts, TheProgressThreadServesARankThatNeverWaits) {
  SharedFlags& flags = SharedFlags::create();
  EXPECT_EQ(on_all([&](const ApiRank& rank) {
              rank.good(ibcoll_set_thread_level(rank.context, IBCOLL_THREAD_MULTIPLE), "level");
              rank.good(ibcoll_set_progress_thread(rank.context, 1), "on");
              ibcoll_options relayed = IBCOLL_OPTIONS_INIT;
              relayed.algorithm = "bruck";
              std::vector<std::unique_ptr<PendingExchange>> calls;
              for (int round = 0; round < 8; ++round) {
                if (round % 2 != 0) {
                  rank.good(ibcoll_set_progress_thread(rank.context, 0), "off");
                  rank.good(ibcoll_set_progress_thread(rank.context, 1), "on again");
                }
                calls.push_back(std::make_unique<PendingExchange>(rank, 5000, round, &relayed));
                if (ibcoll_rank(rank.context) == 0) {
                  flags.await(0, (round + 1) * (kRanks - 1));
                } else {
                  calls.back()->check();
                  flags.raise(0);
                }
              }
              for (const auto& call : calls) call->check();
            }),
            "");
}

TEST_P(ProgressOnLayouts, TheProgressThreadNoticesADeath) {
  SharedFlags& flags = SharedFlags::create();
  int status = 0;
  EXPECT_EQ(on_all(
                [&](const ApiRank& rank) {
                  rank.good(ibcoll_set_progress_thread(rank.context, 1), "on");
                  if (ibcoll_rank(rank.context) == 1) {
                    flags.await(0, ibcoll_size(rank.context) - 1);
                    raise(SIGKILL);
                  }
                  PendingExchange call(rank, 100, 0);
                  flags.raise(0);  // it has started: the thread may notice a death before
                  const ibcoll_status waited = ibcoll_wait(call.request());
                  const std::string line = ibcoll_last_error();
                  if (waited == IBCOLL_OK || line.find("rank 1") == std::string::npos)
                    rank.complain(line);
                },
                &status),
            "");
  EXPECT_NE(status, 0);
}

TEST_P(ProgressOnLayouts, TheProgressThreadComesAndGoes) {
  EXPECT_EQ(on_all([](const ApiRank& rank) {
              for (int round = 0; round < 30; ++round) {
                PendingExchange call(rank, 2000, round);
                rank.good(ibcoll_set_progress_thread(rank.context, round % 2), "set");
                if (round % 3 == 0) rank.good(ibcoll_progress(rank.context, nullptr), "progress");
                rank.good(ibcoll_set_progress_thread(rank.context, (round + 1) % 2), "set");
                call.check();
              }
            }),
            "");
}

std::string servers_of(const ::testing::TestParamInfo<const char*>& info) {
  return std::string(info.param) == "4" ? "OneServer" : "ThreeServers";
}
INSTANTIATE_TEST_SUITE_P(Some, ProgressOnLayouts, ::testing::Values("4", "1,2,1"), servers_of);

/// How many entries a directory of /proc/self has.
int entries(const char* directory) {
  DIR* const open = opendir(directory);
  int count = 0;
  while (readdir(open) != nullptr) ++count;
  closedir(open);
  return count;
}

TEST(ProgressEnds, LeaveNoThreadAndNoFile) {
  SharedHost& host = SharedHost::create();
  EXPECT_EQ(
      run_ranks(2,
                [&](int rank) -> std::string {
                  SharedHost::Member member(host, rank, 2);
                  const ibcoll_bootstrap given = member.blocking();
                  int threads = 0, files = 0;
                  for (int round = 0; round < 101; ++round) {
                    ibcoll_context* context = nullptr;
                    if (ibcoll_init_with(&given, &context) != IBCOLL_OK) return ibcoll_last_error();
                    int fd = -1, armed = 0;
                    if (ibcoll_set_thread_level(context, IBCOLL_THREAD_MULTIPLE) != IBCOLL_OK ||
                        ibcoll_set_progress_thread(context, 1) != IBCOLL_OK ||
                        ibcoll_get_descriptor(context, &fd) != IBCOLL_OK ||
                        ibcoll_arm(context, &armed) != IBCOLL_OK)
                      return ibcoll_last_error();
                    std::string wrong = exchange(ibcoll_world(context), round);
                    if (!wrong.empty()) return wrong;
                    if (ibcoll_finalize(context) != IBCOLL_OK) return ibcoll_last_error();
                    if (round == 0) {
                      threads = running_threads();
                      files = entries("/proc/self/fd");
                    }
                  }
                  if (running_threads() != threads) return "a thread is left";
                  if (entries("/proc/self/fd") != files) return "a file is left";
                  return "";
                }),
      "");
}

std::atomic<int> g_signals{0};
std::atomic<bool> g_in_another{false};
std::thread::id g_main;

TEST(Signals, AreNotForTheLibrarysThreads) {
  ibcoll_context* context = nullptr;
  ASSERT_EQ(ibcoll_init(&context), IBCOLL_OK) << ibcoll_last_error();
  ASSERT_EQ(ibcoll_set_progress_thread(context, 1), IBCOLL_OK);
  int fd = -1;
  ASSERT_EQ(ibcoll_get_descriptor(context, &fd), IBCOLL_OK);
  g_main = std::this_thread::get_id();
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) {
    g_signals += 1;
    if (std::this_thread::get_id() != g_main) g_in_another = true;
  };
  sigaction(SIGUSR1, &action, &before);
  // Only another thread could take them while this one has them blocked.
  sigset_t usr1, mask;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &usr1, &mask);
  kill(getpid(), SIGUSR1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(g_signals, 0);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  EXPECT_EQ(g_signals, 1);
  EXPECT_FALSE(g_in_another);
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(ibcoll_finalize(context), IBCOLL_OK);
}

TEST(Variable, StartsTheProgressThread) {
  const int threads = threads_of_its_own();
  setenv("IBCOLL_PROGRESS_THREAD", "1", 1);
  ibcoll_context* context = nullptr;
  ASSERT_EQ(ibcoll_init(&context), IBCOLL_OK) << ibcoll_last_error();
  unsetenv("IBCOLL_PROGRESS_THREAD");
  EXPECT_EQ(running_threads(), threads + 1);
  // The program's threads are what they were: one at a time.
  EXPECT_EQ(ibcoll_get_thread_level(context), IBCOLL_THREAD_SERIALIZED);
  EXPECT_EQ(ibcoll_set_progress_thread(context, 0), IBCOLL_OK);
  EXPECT_EQ(running_threads(), threads);
  EXPECT_EQ(ibcoll_finalize(context), IBCOLL_OK);
}

TEST(Misuse, IsRefused) {
  int number = 0;
  EXPECT_EQ(ibcoll_progress(nullptr, &number), IBCOLL_ERR_INVALID);
  EXPECT_EQ(ibcoll_set_progress_thread(nullptr, 1), IBCOLL_ERR_INVALID);
  EXPECT_EQ(ibcoll_get_descriptor(nullptr, &number), IBCOLL_ERR_INVALID);
  EXPECT_EQ(ibcoll_arm(nullptr, &number), IBCOLL_ERR_INVALID);
  ibcoll_context* context = nullptr;
  ASSERT_EQ(ibcoll_init(&context), IBCOLL_OK) << ibcoll_last_error();
  EXPECT_EQ(ibcoll_progress(context, nullptr), IBCOLL_OK);
  EXPECT_EQ(ibcoll_get_descriptor(context, nullptr), IBCOLL_ERR_INVALID);
  EXPECT_EQ(ibcoll_arm(context, nullptr), IBCOLL_ERR_INVALID);
  EXPECT_EQ(ibcoll_finalize(context), IBCOLL_OK);
  EXPECT_EQ(ibcoll_progress(context, nullptr), IBCOLL_ERR_INVALID);
  EXPECT_THAT(ibcoll_last_error(), HasSubstr("none any more"));
}

TEST(Contexts, HaveThreadsOfTheirOwn) {
  ibcoll_context* contexts[2] = {};
  for (ibcoll_context*& context : contexts) {
    ASSERT_EQ(ibcoll_init(&context), IBCOLL_OK) << ibcoll_last_error();
    ASSERT_EQ(ibcoll_set_progress_thread(context, 1), IBCOLL_OK);
  }
  // Each is entered by one thread at a time; together they are by two.
  std::vector<std::thread> threads;
  for (ibcoll_context* context : contexts) {
    threads.emplace_back([context] {
      for (int call = 0; call < 200; ++call) EXPECT_EQ(exchange(ibcoll_world(context), call), "");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (ibcoll_context* context : contexts) EXPECT_EQ(ibcoll_finalize(context), IBCOLL_OK);
}

}  // namespace
}  // namespace ibcoll
