// The C interface: handles that are null, freed or of a job that has ended, what holds what alive,
// and arguments that can't be right.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <numeric>

#include "engine/core/group.h"
#include "tests/expect_invalid.h"
#include "tests/job.h"

namespace ibcoll {
namespace {

using testing::Complaints;
using testing::expect_invalid;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Runs `body` on every rank of a job, which must end with that exit status; gives what the ranks
/// complain of.
std::string launched(const char* layout, int ranks,
                     const std::function<void(ibcoll_context*, Complaints&)>& body,
                     int expected_status = 0) {
  Complaints complaints(ranks);
  struct Argument {
    const std::function<void(ibcoll_context*, Complaints&)>& body;
    Complaints& complaints;
  } argument{body, complaints};
  ibcoll_launch_options options = IBCOLL_LAUNCH_OPTIONS_INIT;
  options.ranks = ranks;
  options.layout = layout;
  int status = 0;
  const auto main = [](ibcoll_context* context, void* data) {
    const auto* to_run = static_cast<Argument*>(data);
    to_run->body(context, to_run->complaints);
    return 0;
  };
  if (ibcoll_launch(&options, main, &argument, &status) != IBCOLL_OK) return ibcoll_last_error();
  if (status != expected_status && complaints.all().empty())
    return fmt::format("a rank returned {}", status);
  return complaints.all();
}

TEST(Version, OfTheLibraryIsThatOfItsHeader) {
  EXPECT_EQ(ibcoll_version(), fmt::format("{}.{}.{}", IBCOLL_VERSION_MAJOR, IBCOLL_VERSION_MINOR,
                                          IBCOLL_VERSION_PATCH));
}

/// A request for the call, started unless it is persistent.
ibcoll_status begin(ibcoll_group* group, ibcoll_call call, ibcoll_request** request,
                    unsigned flags = 0) {
  call.flags = flags;
  const ibcoll_status made = ibcoll_call_init(group, &call, request);
  return made != IBCOLL_OK || flags != 0 ? made : ibcoll_start(*request);
}

/// Waits for the call and frees its request.
ibcoll_status end(ibcoll_request* request) {
  const ibcoll_status waited = ibcoll_wait(request);
  const ibcoll_status freed = ibcoll_call_free(request);
  return waited != IBCOLL_OK ? waited : freed;
}

/// A job of this process alone.
class Alone : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(ibcoll_init(&context_), IBCOLL_OK) << ibcoll_last_error(); }
  void TearDown() override {
    if (context_ != nullptr) {
      EXPECT_EQ(ibcoll_finalize(context_), IBCOLL_OK) << ibcoll_last_error();
    }
  }
  ibcoll_context* context_ = nullptr;
};

TEST_F(Alone, NullHandlesAreRefused) {
  EXPECT_EQ(ibcoll_rank(nullptr), -1);
  EXPECT_EQ(ibcoll_size(nullptr), -1);
  EXPECT_EQ(ibcoll_servers(nullptr), -1);
  EXPECT_EQ(ibcoll_server_of(nullptr, 0), -1);
  EXPECT_EQ(ibcoll_world(nullptr), nullptr);
  EXPECT_EQ(ibcoll_group_rank(nullptr), -1);
  EXPECT_EQ(ibcoll_group_size(nullptr), -1);
  EXPECT_STREQ(ibcoll_transport(nullptr), "none");
  EXPECT_EQ(ibcoll_get_thread_level(nullptr), IBCOLL_THREAD_SERIALIZED);
  expect_invalid(ibcoll_finalize(nullptr), "the context is null");
  expect_invalid(ibcoll_abort(nullptr, "no"), "the context is null");
  void* memory = nullptr;
  expect_invalid(ibcoll_alloc(nullptr, 8, &memory), "the context is null");
  expect_invalid(ibcoll_alloc(context_, 8, nullptr), "null");
  ibcoll_group* group = nullptr;
  const int rank = 0;
  expect_invalid(ibcoll_group_create(nullptr, &rank, 1, &group), "the context is null");
  expect_invalid(ibcoll_group_create(context_, nullptr, 1, &group), "null");
  expect_invalid(ibcoll_group_create(context_, &rank, -1, &group), "negative");
  expect_invalid(ibcoll_barrier(nullptr, nullptr), "the group is null");
  ibcoll_request* request = nullptr;
  const ibcoll_call call = ibcoll_call_barrier(nullptr);
  expect_invalid(ibcoll_call_init(nullptr, &call, &request), "the group is null");
  expect_invalid(ibcoll_call_init(ibcoll_world(context_), &call, nullptr), "null");
  expect_invalid(ibcoll_call_init(ibcoll_world(context_), nullptr, &request), "null");
  int64_t count = 0;
  expect_invalid(ibcoll_exchange_counts(nullptr, &count, &count), "the group is null");
  expect_invalid(ibcoll_exchange_root_counts(nullptr, &count, &count, 0), "the group is null");
  expect_invalid(ibcoll_start(nullptr), "the request is null");
  int done = 0;
  expect_invalid(ibcoll_test(nullptr, &done), "the request is null");
  EXPECT_EQ(done, 1) << "a loop that tests must end";
  expect_invalid(ibcoll_wait(nullptr), "the request is null");
  expect_invalid(ibcoll_wait_all(1, nullptr), "null");
  EXPECT_EQ(ibcoll_wait_all(1, &request), IBCOLL_OK) << "entries that are null are passed over";
  EXPECT_EQ(ibcoll_call_free(nullptr), IBCOLL_OK);
  EXPECT_EQ(ibcoll_group_free(nullptr), IBCOLL_OK);
  ibcoll_counters counters = IBCOLL_COUNTERS_INIT;
  expect_invalid(ibcoll_get_counters(nullptr, &counters), "the context is null");
}

TEST_F(Alone, AListOfMoreRanksThanTheJobHasIsNotRead) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* const memory = static_cast<char*>(
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mprotect(memory + page, page, PROT_NONE), 0);
  // The list ends where the memory does.
  int* const ranks = reinterpret_cast<int*>(memory + page) - 1;
  *ranks = 0;
  ibcoll_group* group = nullptr;
  for (const int count : {2, 1 << 30}) {
    expect_invalid(ibcoll_group_create(context_, ranks, count, &group),
                   fmt::format("{} ranks can't be in a group: the job has 1", count));
  }
  ASSERT_EQ(ibcoll_group_create(context_, ranks, 1, &group), IBCOLL_OK) << ibcoll_last_error();
  EXPECT_EQ(ibcoll_group_free(group), IBCOLL_OK);
  munmap(memory, 2 * page);
}

TEST_F(Alone, HandlesThatWereFreedAreRefused) {
  ibcoll_request* request = nullptr;
  ASSERT_EQ(begin(ibcoll_world(context_), ibcoll_call_barrier(nullptr), &request), IBCOLL_OK);
  ASSERT_EQ(end(request), IBCOLL_OK);
  int done = 0;
  expect_invalid(ibcoll_wait(request), "this request is none any more");
  expect_invalid(ibcoll_test(request, &done), "this request is none any more");
  EXPECT_EQ(done, 1) << "a loop that tests must end";
  expect_invalid(ibcoll_call_free(request), "this request is none any more");
  expect_invalid(ibcoll_start(request), "this request is none any more");

  ibcoll_group* group = nullptr;
  const int rank = 0;
  ASSERT_EQ(ibcoll_group_create(context_, &rank, 1, &group), IBCOLL_OK);
  ASSERT_EQ(ibcoll_group_free(group), IBCOLL_OK);
  expect_invalid(ibcoll_group_free(group), "this group is none any more");
  expect_invalid(ibcoll_barrier(group, nullptr), "this group is none any more");
  EXPECT_EQ(ibcoll_group_size(group), -1);
  expect_invalid(ibcoll_group_free(ibcoll_world(context_)), "world");
}

TEST_F(Alone, WhatIsLeftAtTheEndIsNamedAndRefusedAfterwards) {
  ibcoll_group *group = nullptr, *world = ibcoll_world(context_);
  const int rank = 0;
  ASSERT_EQ(ibcoll_group_create(context_, &rank, 1, &group), IBCOLL_OK);
  std::array<ibcoll_request*, 3> requests{};
  const ibcoll_call barrier = ibcoll_call_barrier(nullptr);
  ASSERT_EQ(begin(group, barrier, &requests[0], IBCOLL_PERSISTENT), IBCOLL_OK);
  ASSERT_EQ(begin(world, barrier, &requests[1], IBCOLL_PERSISTENT), IBCOLL_OK);
  double number = 1;
  ASSERT_EQ(begin(group, ibcoll_call_bcast(&number, sizeof number, 0, nullptr), &requests[2]),
            IBCOLL_OK);
  expect_invalid(ibcoll_finalize(context_), "1 group and 3 requests: 1 bcast, 2 barrier");
  for (ibcoll_request* request : requests) {
    expect_invalid(ibcoll_wait(request), "this request is none any more");
  }
  expect_invalid(ibcoll_barrier(group, nullptr), "this group is none any more");
  expect_invalid(ibcoll_barrier(world, nullptr), "this group is none any more");
  EXPECT_EQ(ibcoll_rank(context_), -1);
  expect_invalid(ibcoll_finalize(context_), "this context is none any more");
  // A context made afterwards works.
  ASSERT_EQ(ibcoll_init(&context_), IBCOLL_OK) << ibcoll_last_error();
  EXPECT_EQ(ibcoll_barrier(ibcoll_world(context_), nullptr), IBCOLL_OK);
}

TEST_F(Alone, TheTwoCountsOfARanksOwnBlockMustAgree) {
  ibcoll_group* world = ibcoll_world(context_);
  std::vector<char> send(3000), recv(3000);
  const int64_t many = 3000, few = 10, start = 0;
  ibcoll_options options = IBCOLL_OPTIONS_INIT;
  options.send_bytes = 3000;
  options.recv_bytes = 10;
  expect_invalid(
      ibcoll_alltoallv(world, send.data(), &many, &start, recv.data(), &few, &start, &options),
      "rank 0 sends itself 3000 bytes where it receives 10");
  expect_invalid(ibcoll_gatherv(world, send.data(), many, recv.data(), &few, &start, 0, &options),
                 "rank 0 sends itself 3000 bytes where it receives 10");
  expect_invalid(ibcoll_scatterv(world, send.data(), &many, &start, recv.data(), few, 0, &options),
                 "rank 0 sends itself 3000 bytes where it receives 10");
  expect_invalid(ibcoll_allgatherv(world, send.data(), many, recv.data(), &few, &start, &options),
                 "rank 0 sends itself 3000 bytes where it receives 10");
}

TEST_F(Alone, AChildOfAForkIsRefused) {
  const pid_t child = fork();
  if (child == 0) {
    ibcoll_request* request = nullptr;
    const bool refused =
        ibcoll_abort(context_, "no") == IBCOLL_ERR_INVALID &&
        ibcoll_finalize(context_) == IBCOLL_ERR_INVALID &&
        begin(ibcoll_world(context_), ibcoll_call_barrier(nullptr), &request) == IBCOLL_ERR_INVALID;
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ibcoll_barrier(ibcoll_world(context_), nullptr), IBCOLL_OK) << ibcoll_last_error();
}

TEST(Groups, MayBeFreedBeforeTheirCallsHaveEnded) {
  for (const char* layout : {"3", "2,1", "1,1,1"}) {
    EXPECT_EQ(
        launched(
            layout, 3,
            [](ibcoll_context* context, Complaints& complaints) {
              const int me = ibcoll_rank(context);
              const std::vector<int> ranks = {2, 0, 1};
              for (int round = 0; round < 3; ++round) {
                ibcoll_group* group = nullptr;
                ibcoll_group_create(context, ranks.data(), 3, &group);
                const int place = ibcoll_group_rank(group);
                std::vector<int> send(30000), recv(30000), again(30000);
                for (int i = 0; i < 30000; ++i)
                  send[static_cast<size_t>(i)] = place * 3 + i / 10000;
                ibcoll_request *once = nullptr, *often = nullptr;
                begin(group, ibcoll_call_alltoall(send.data(), recv.data(), 40000, nullptr), &once);
                begin(group, ibcoll_call_alltoall(send.data(), again.data(), 40000, nullptr),
                      &often, IBCOLL_PERSISTENT);
                if (me == round) usleep(20000);
                if (ibcoll_group_free(group) != IBCOLL_OK || ibcoll_start(often) != IBCOLL_OK ||
                    end(often) != IBCOLL_OK || end(once) != IBCOLL_OK) {
                  return complaints.add(me, ibcoll_last_error());
                }
                for (int i = 0; i < 30000; ++i) {
                  const int right = i / 10000 * 3 + place;
                  if (recv[static_cast<size_t>(i)] != right ||
                      again[static_cast<size_t>(i)] != right) {
                    return complaints.add(me, "wrong data");
                  }
                }
              }
            }),
        "")
        << layout;
  }
}

TEST(Failure, EveryLaterCallGivesTheSameError) {
  EXPECT_EQ(launched(
                "2", 2,
                [](ibcoll_context* context, Complaints& complaints) {
                  const int me = ibcoll_rank(context);
                  ibcoll_group* world = ibcoll_world(context);
                  ibcoll_request *often = nullptr, *other = nullptr;
                  const ibcoll_call barrier = ibcoll_call_barrier(nullptr);
                  begin(world, barrier, &often, IBCOLL_PERSISTENT);
                  if (me == 1) {
                    ibcoll_abort(context, "enough of it");
                  } else {
                    ibcoll_start(often);
                    ibcoll_wait(often);
                  }
                  const int rank = me;
                  ibcoll_group* group = nullptr;
                  char memory[8];
                  const std::vector<std::function<ibcoll_status()>> calls = {
                      [&] { return ibcoll_barrier(world, nullptr); },
                      [&] { return ibcoll_start(often); },
                      [&] { return ibcoll_start(often); },
                      [&] { return begin(world, barrier, &other); },
                      [&] { return begin(world, barrier, &other, IBCOLL_PERSISTENT); },
                      [&] { return ibcoll_group_create(context, &rank, 1, &group); },
                      // It would have been refused for its arguments.
                      [&] { return ibcoll_bcast(world, memory, 8, 7, nullptr); },
                  };
                  for (size_t i = 0; i < calls.size(); ++i) {
                    const ibcoll_status status = calls[i]();
                    const std::string line = ibcoll_last_error();
                    if (status != IBCOLL_ERR_PEER_FAILED ||
                        line.find("rank 1 gave up: enough of it") == std::string::npos) {
                      complaints.add(me, fmt::format("call {}: {} {}", i, status, line));
                    }
                  }
                },
                1),
            "");
}

TEST(Failure, TextsOfTheProgramStayOnOneLine) {
  // 300 bytes of it do not travel; what does ends between characters.
  std::string text = "\x1b[31mall\nis\r lost\xff";
  for (int i = 0; i < 60; ++i) text += " \u20ac \u20ac";
  EXPECT_EQ(launched(
                "3", 3,
                [&](ibcoll_context* context, Complaints& complaints) {
                  if (ibcoll_rank(context) == 1) ibcoll_abort(context, text.c_str());
                  ibcoll_barrier(ibcoll_world(context), nullptr);
                  const std::string line = ibcoll_last_error();
                  if (line.find("rank 1 gave up: \\x1b[31mall is\\x0d lost\\xff \u20ac") ==
                          std::string::npos ||
                      line.find('\n') != std::string::npos ||
                      line.find("\\xe2") != std::string::npos)
                    complaints.add(ibcoll_rank(context), line);
                },
                1),
            "");
}

size_t resident_bytes() {
  malloc_trim(0);  // the allocator takes more at a time than what is asked for here
  std::ifstream file("/proc/self/statm");
  size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

/// What a rank keeps for the messages of peers that run ahead depends on how far they did.
constexpr size_t kQueuedBytes = 256 * 1024;

/// Makes, uses and frees `groups` groups `rounds` times over: memory must be flat from the second
/// round on.
void expect_flat_memory(const char* layout, int groups, int rounds) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps what is freed";
#endif
  EXPECT_EQ(launched(layout, 4,
                     [=](ibcoll_context* context, Complaints& complaints) {
                       const int me = ibcoll_rank(context);
                       std::array<int, 4> ranks{0, 1, 2, 3};
                       std::vector<size_t> resident;
                       for (int round = 0; round < rounds; ++round) {
                         for (int i = 0; i < groups; ++i) {
                           std::next_permutation(ranks.begin(), ranks.end());
                           const size_t block = i % 10 == 0 ? 20000 : 100;
                           std::vector<char> send(4 * block, static_cast<char>(me)),
                               recv(4 * block);
                           ibcoll_group* group = nullptr;
                           ibcoll_request* request = nullptr;
                           ibcoll_options options = IBCOLL_OPTIONS_INIT;
                           options.algorithm = i % 3 == 0 ? "bruck" : nullptr;
                           if (ibcoll_group_create(context, ranks.data(), 4, &group) != IBCOLL_OK ||
                               ibcoll_alltoall(group, send.data(), recv.data(), block, &options) !=
                                   IBCOLL_OK ||
                               begin(group, ibcoll_call_bcast(recv.data(), block, i % 4, nullptr),
                                     &request) != IBCOLL_OK ||
                               ibcoll_group_free(group) != IBCOLL_OK || end(request) != IBCOLL_OK) {
                             return complaints.add(me, ibcoll_last_error());
                           }
                         }
                         resident.push_back(resident_bytes());
                       }
                       for (size_t round = 2; round < resident.size(); ++round) {
                         if (resident[round] > resident[1] + resident[1] / 50 + kQueuedBytes) {
                           complaints.add(me, fmt::format("{} KB after round {}, {} KB after the "
                                                          "second one",
                                                          resident[round] / 1024, round + 1,
                                                          resident[1] / 1024));
                         }
                       }
                     }),
            "")
      << layout;
}

TEST(Groups, ComeAndGoWithoutATrace) {
  expect_flat_memory("4", 100, 3);
  expect_flat_memory("2,2", 100, 3);
}

TEST(GroupsFull, ComeAndGoWithoutATrace) {
  expect_flat_memory("4", 1000, 10);
  expect_flat_memory("2,2", 1000, 10);
  expect_flat_memory("1,1,1,1", 1000, 10);
}

}  // namespace
}  // namespace ibcoll
