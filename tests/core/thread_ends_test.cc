// Threads that are cancelled while they are in a call, and threads that end in a function of the
// program's which the library has called.

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "tests/api_job.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::group_of;
using testing::launched;
using testing::SharedFlags;

constexpr ibcoll_thread_level kLevels[] = {IBCOLL_THREAD_SERIALIZED, IBCOLL_THREAD_MULTIPLE};

/// A thread that waits in a barrier, and then to be cancelled.
struct Waiting {
  ibcoll_group* group = nullptr;
  std::atomic<bool> began = false, came_back = false;
  ibcoll_status status = IBCOLL_OK;
  std::string line;
  pthread_t thread{};

  void start(ibcoll_group* waits_on) {
    group = waits_on;
    const auto body = [](void* argument) -> void* {
      auto& self = *static_cast<Waiting*>(argument);
      self.began = true;
      self.status = ibcoll_barrier(self.group, nullptr);
      if (self.status != IBCOLL_OK) self.line = ibcoll_last_error();
      self.came_back = true;
      while (true) {
        pthread_testcancel();
        sched_yield();
      }
    };
    pthread_create(&thread, nullptr, body, this);
  }
};

TEST(ThreadEnds, WhoIsCancelledComesBackFromTheCallFirst) {
  for (const char* layout : {"2", "1,1"}) {
    for (const ibcoll_thread_level level : kLevels) {
      SharedFlags& flags = SharedFlags::create();
      const size_t threads = level == IBCOLL_THREAD_MULTIPLE ? 3 : 1;
      const auto body = [&](const ApiRank& rank) {
        rank.good(ibcoll_set_thread_level(rank.context, level), "level");
        std::vector<ibcoll_group*> groups;
        for (size_t i = 0; i < threads; ++i) groups.push_back(group_of(rank, {0, 1}, i + 1));
        if (ibcoll_rank(rank.context) == 1) {
          flags.await(0, 1);
          for (ibcoll_group* group : groups) rank.good(ibcoll_barrier(group, nullptr), "barrier");
        } else {
          std::vector<Waiting> waiting(threads);
          for (size_t i = 0; i < threads; ++i) waiting[i].start(groups[i]);
          for (Waiting& one : waiting) {
            while (!one.began) sched_yield();
          }
          // Until those that only look now and then do that, and sleep.
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          for (Waiting& one : waiting) pthread_cancel(one.thread);
          flags.raise(0);
          for (Waiting& one : waiting) {
            void* result = nullptr;
            pthread_join(one.thread, &result);
            if (result != PTHREAD_CANCELED || !one.came_back) rank.complain("left inside");
            if (one.status != IBCOLL_OK) rank.complain(one.line);
          }
        }
        for (ibcoll_group* group : groups) {
          rank.good(ibcoll_barrier(group, nullptr), "afterwards");
          rank.good(ibcoll_group_free(group), "free");
        }
      };
      EXPECT_EQ(launched(layout, 2, body), "") << layout << ", level " << level;
    }
  }
}

/// What every rank is to hear from then on.
void expect_end(const ApiRank& rank, ibcoll_status status) {
  for (int i = 0; i < 100 && status == IBCOLL_OK; ++i)
    status = ibcoll_barrier(ibcoll_world(rank.context), nullptr);
  const std::string line = status == IBCOLL_OK ? "nobody has noticed" : ibcoll_last_error();
  if (status != IBCOLL_ERR_PEER_FAILED || ibcoll_last_error_scope() != IBCOLL_SCOPE_JOB ||
      line.find("rank 0: a thread has ended inside a call, by pthread_exit") == std::string::npos)
    rank.complain(line);
}

char g_last_word;

/// Adds; on rank 0, whose context is not null, the thread ends instead.
const char* add(void* target, const void* source, size_t elements, void* context) {
  if (context != nullptr) pthread_exit(&g_last_word);
  for (size_t i = 0; i < elements; ++i) {
    int64_t to, from;
    std::memcpy(&to, static_cast<std::byte*>(target) + i * sizeof to, sizeof to);
    std::memcpy(&from, static_cast<const std::byte*>(source) + i * sizeof from, sizeof from);
    to += from;
    std::memcpy(static_cast<std::byte*>(target) + i * sizeof to, &to, sizeof to);
  }
  return nullptr;
}

/// A reduction of this rank's, in a thread of its own.
struct Reduction {
  ibcoll_context* context;
  std::vector<int64_t> send, recv;
  ibcoll_operator op = IBCOLL_FIRST_OWN;
  bool on_set = false;
  ibcoll_status status = IBCOLL_OK;

  ibcoll_status make() {
    const ibcoll_call call =
        ibcoll_call_reduce(send.data(), recv.data(), send.size(), IBCOLL_INT64, op, 0, nullptr);
    const uint64_t all = 3;
    if (on_set) return ibcoll_set_call(context, &all, 1, 1, &call);
    return ibcoll_reduce(ibcoll_world(context), send.data(), recv.data(), send.size(), IBCOLL_INT64,
                         op, 0, nullptr);
  }
};

void end_in_operator(const ApiRank& rank, ibcoll_thread_level level, size_t elements, bool on_set) {
  rank.good(ibcoll_set_thread_level(rank.context, level), "level");
  const bool ends = ibcoll_rank(rank.context) == 0;
  ibcoll_operator_description is = IBCOLL_OPERATOR_DESCRIPTION_INIT;
  is.element_bytes = sizeof(int64_t);
  is.combine = add;
  is.context = ends ? &is : nullptr;
  is.commutes = 1;
  Reduction reduction{rank.context, std::vector<int64_t>(elements, 1),
                      std::vector<int64_t>(elements), IBCOLL_FIRST_OWN, on_set};
  rank.good(ibcoll_operator_create(rank.context, &is, &reduction.op), "operator");
  if (!ends) return expect_end(rank, reduction.make());
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void* argument) -> void* {
        static_cast<Reduction*>(argument)->make();
        return nullptr;
      },
      &reduction);
  void* result = nullptr;
  pthread_join(thread, &result);
  if (result != &g_last_word) rank.complain("the thread has not ended in the operator");
  expect_end(rank, IBCOLL_OK);
}

TEST(ThreadEnds, InAnOperatorTheyEndTheJobAndNotTheProcess) {
  for (const char* layout : {"2", "1,1"}) {
    for (const ibcoll_thread_level level : kLevels) {
      for (const size_t elements : {1, 100'000}) {
        for (const bool on_set : {false, true}) {
          int status = 0;
          EXPECT_EQ(
              launched(
                  layout, 2,
                  [&](const ApiRank& rank) { end_in_operator(rank, level, elements, on_set); },
                  &status),
              "")
              << layout << ", level " << level << ", " << elements;
        }
      }
    }
  }
}

TEST(ThreadEnds, TheProgressThreadMayEndInAHandler) {
  for (const char* layout : {"2", "1,1"}) {
    int status = 0;
    const auto body = [](const ApiRank& rank) {
      ibcoll_status sent = IBCOLL_OK;
      if (ibcoll_rank(rank.context) == 0) {
        const auto handler = [](void*, const ibcoll_message*) { pthread_exit(nullptr); };
        rank.good(ibcoll_multicast_set_handler(rank.context, handler, nullptr), "handler");
        rank.good(ibcoll_set_progress_thread(rank.context, 1), "progress thread");
        // By now there is no other thread inside that could be handed the message.
        while (ibcoll_group_status(ibcoll_world(rank.context)) == IBCOLL_OK)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
      } else {
        const uint64_t members = 1;
        sent = ibcoll_multicast(rank.context, &members, 1, "word", 4, nullptr, nullptr);
      }
      expect_end(rank, sent);
    };
    EXPECT_EQ(launched(layout, 2, body, &status), "") << layout;
  }
}

}  // namespace
}  // namespace ibcoll
