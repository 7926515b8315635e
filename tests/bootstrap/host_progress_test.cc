// Hosts with messages of their own: waits in the engine move them on (ibcoll_bootstrap::progress).

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <tuple>

#include "tests/shared_host.h"

namespace ibcoll {
namespace {

using testing::exchange;
using testing::run_ranks;
using testing::SharedHost;

#define DO(call) \
  if ((call) != IBCOLL_OK) return std::string(#call " gives ") + ibcoll_last_error()

/// A message of the host's that its sender's progress delivers, and nothing else does.
struct Message {
  std::atomic<int> steps{0};  ///< it takes several
  static constexpr int kSteps = 20;

  static Message& create() {
    void* const memory =
        mmap(nullptr, sizeof(Message), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *new (memory) Message;
  }
};

/// The sender's end.
struct Outbox : SharedHost::Member {
  Outbox(SharedHost& host, int rank, int size, Message& sent)
      : Member(host, rank, size), message(sent) {}
  ibcoll_bootstrap hosted() {
    ibcoll_bootstrap given = blocking();
    given.progress = [](void* self) {
      auto& outbox = *static_cast<Outbox*>(static_cast<Member*>(self));
      if (gettid() != getpid()) outbox.strangers = true;
      if (outbox.sends) ++outbox.message.steps;
    };
    return given;
  }
  Message& message;
  bool sends = false, strangers = false;
};

enum class Threads { kOne, kSeveral, kWithProgressThread };

class HostProgress : public ::testing::TestWithParam<std::tuple<const char*, Threads>> {};

TEST_P(HostProgress, ARankThatWaitsSendsWhatItsPeerNeedsToComeToTheCall) {
  const auto [layout, threads] = GetParam();
  if (*layout != 0) setenv("IBCOLL_LAYOUT", layout, 1);
  SharedHost& host = SharedHost::create();
  Message& message = Message::create();
  EXPECT_EQ(run_ranks(4,
                      [&, threads = threads](int rank) -> std::string {
                        Outbox outbox(host, rank, 4, message);
                        const ibcoll_bootstrap given = outbox.hosted();
                        ibcoll_context* context = nullptr;
                        DO(ibcoll_init_with(&given, &context));
                        if (threads == Threads::kSeveral)
                          DO(ibcoll_set_thread_level(context, IBCOLL_THREAD_MULTIPLE));
                        if (threads == Threads::kWithProgressThread)
                          DO(ibcoll_set_progress_thread(context, 1));
                        outbox.sends = rank == 0;
                        if (rank == 3)
                          while (message.steps < Message::kSteps) usleep(1000);
                        if (const std::string wrong = exchange(ibcoll_world(context), 1);
                            !wrong.empty())
                          return wrong;
                        DO(ibcoll_finalize(context));
                        return outbox.strangers ? "a thread of the library's called" : "";
                      }),
            "");
  unsetenv("IBCOLL_LAYOUT");
}

INSTANTIATE_TEST_SUITE_P(Jobs, HostProgress,
                         ::testing::Combine(::testing::Values("", "2,2"),
                                            ::testing::Values(Threads::kOne, Threads::kSeveral,
                                                              Threads::kWithProgressThread)));

}  // namespace
}  // namespace ibcoll
