// What ibcoll_init_with refuses, and errors that all ranks of a host's job must get alike.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <string>

#include "tests/shared_host.h"

namespace ibcoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::SharedHost;

/// What ibcoll_init_with says of a bootstrap of a job of one that is changed by `change`.
std::string refusal(const std::function<void(ibcoll_bootstrap&)>& change,
                    ibcoll_status expected = IBCOLL_ERR_INVALID) {
  SharedHost::Member member(SharedHost::create(), 0, 1);
  ibcoll_bootstrap given = member.blocking();
  change(given);
  ibcoll_context* context = nullptr;
  const ibcoll_status status = ibcoll_init_with(&given, &context);
  EXPECT_EQ(status, expected);
  return status == IBCOLL_OK ? "" : ibcoll_last_error();
}

TEST(Hosted, WhatCanNotBeRightIsRefusedByValue) {
  ibcoll_context* context = nullptr;
  EXPECT_EQ(ibcoll_init_with(nullptr, &context), IBCOLL_ERR_INVALID);
  const ibcoll_bootstrap given{};
  EXPECT_EQ(ibcoll_init_with(&given, nullptr), IBCOLL_ERR_INVALID);
  const auto with_size = [](size_t size) {
    return refusal([&](ibcoll_bootstrap& b) { b.struct_size = size; });
  };
  EXPECT_THAT(with_size(0), HasSubstr("struct_size 0 of an ibcoll_bootstrap"));
  EXPECT_THAT(with_size(24), HasSubstr("struct_size 24"));
  EXPECT_THAT(with_size(1 << 20), HasSubstr("struct_size 1048576"));
  EXPECT_THAT(refusal([](ibcoll_bootstrap& b) { b.size = 0; }), HasSubstr("a job of 0 ranks"));
  EXPECT_THAT(refusal([](ibcoll_bootstrap& b) { b.size = -3; }), HasSubstr("a job of -3 ranks"));
  EXPECT_THAT(refusal([](ibcoll_bootstrap& b) { b.rank = 1; }), HasSubstr("rank 1 of a job of 1"));
  EXPECT_THAT(refusal([](ibcoll_bootstrap& b) { b.rank = -1; }), HasSubstr("rank -1"));
  EXPECT_THAT(refusal([](ibcoll_bootstrap& b) { b.allgather = nullptr; }),
              HasSubstr("allgather_post"));
  SharedHost::Member member(SharedHost::create(), 0, 1);
  EXPECT_THAT(refusal([&](ibcoll_bootstrap& b) {
                b = member.posting();
                b.allgather_test = nullptr;
              }),
              HasSubstr("allgather_test"));
}

TEST(Hosted, OlderAndNewerStructsAreTaken) {
  // The first version ended with allgather: what lies behind it is not looked at.
  SharedHost::Member member(SharedHost::create(), 0, 1);
  ibcoll_bootstrap old = member.blocking();
  old.struct_size = offsetof(ibcoll_bootstrap, allgather_post);
  old.allgather_post = reinterpret_cast<decltype(old.allgather_post)>(1);
  ibcoll_context* context = nullptr;
  ASSERT_EQ(ibcoll_init_with(&old, &context), IBCOLL_OK) << ibcoll_last_error();
  EXPECT_EQ(ibcoll_finalize(context), IBCOLL_OK);

  struct Newer {
    ibcoll_bootstrap known;
    uint64_t more;
  } newer{member.blocking(), 0};
  newer.known.struct_size = sizeof newer;
  ASSERT_EQ(ibcoll_init_with(&newer.known, &context), IBCOLL_OK) << ibcoll_last_error();
  EXPECT_EQ(ibcoll_finalize(context), IBCOLL_OK);
  newer.more = 1;
  EXPECT_EQ(ibcoll_init_with(&newer.known, &context), IBCOLL_ERR_INVALID);
  EXPECT_THAT(ibcoll_last_error(), HasSubstr("does not know"));
}

TEST(Hosted, TheHostsErrorComesOutWithItsNumber) {
  EXPECT_THAT(refusal(
                  [](ibcoll_bootstrap& b) {
                    b.allgather = [](void*, const void*, size_t, void*) { return 4711; };
                  },
                  IBCOLL_ERR_SYSTEM),
              HasSubstr("allgather has failed with error 4711"));
  const auto fails_in_test = [](ibcoll_bootstrap& b) {
    b.allgather = nullptr;
    b.allgather_post = [](void*, const void*, size_t, void*, void**) { return 0; };
    b.allgather_test = [](void*, void*, int*) { return -5; };
  };
  EXPECT_THAT(refusal(fails_in_test, IBCOLL_ERR_SYSTEM),
              HasSubstr("allgather_test has failed with error -5"));
}

TEST(Hosted, RanksThatDisagreeOnTheSizeAreNamed) {
  // The last two are sizes of which the rank told can't be one.
  for (const auto& [who, told] : {std::pair(1, 2), {1, 5}, {2, 2}, {1, 0}}) {
    SharedHost& host = SharedHost::create();
    const std::string all = run_ranks(3, [&, who = who, told = told](int rank) -> std::string {
      SharedHost::Member member(host, rank, 3);
      ibcoll_bootstrap given = member.blocking();
      if (rank == who) given.size = told;
      ibcoll_context* context = nullptr;
      return ibcoll_init_with(&given, &context) == IBCOLL_ERR_MISMATCH ? ibcoll_last_error()
                                                                       : "no mismatch";
    });
    const std::string line = fmt::format("it has 3 ranks says rank 0, {} says rank {}", told, who);
    for (const char* rank : {"rank 0: ", "rank 1: ", "rank 2: "})
      EXPECT_THAT(all, AllOf(HasSubstr(rank), HasSubstr(line)));
    EXPECT_THAT(all, ::testing::Not(HasSubstr("no mismatch")));
  }
}

TEST(Hosted, ARankThatCanNotJoinIsEverybodysError) {
  SharedHost& host = SharedHost::create();
  const std::string all = run_ranks(3, [&](int rank) -> std::string {
    if (rank == 1) setenv("IBCOLL_CONTROL_TIMEOUT", "soon", 1);
    SharedHost::Member member(host, rank, 3);
    const ibcoll_bootstrap given = member.blocking();
    ibcoll_context* context = nullptr;
    return ibcoll_init_with(&given, &context) == IBCOLL_OK ? "joined" : ibcoll_last_error();
  });
  for (const char* rank : {"rank 0: ", "rank 1: ", "rank 2: "})
    EXPECT_THAT(all, HasSubstr(std::string(rank) + "ibcoll: invalid argument: "));
  EXPECT_THAT(all, HasSubstr("IBCOLL_CONTROL_TIMEOUT"));
}

/// A member whose first allgather reaches the others and fails all the same.
struct FailingMember : SharedHost::Member {
  using Member::Member;
  ibcoll_bootstrap failing() {
    ibcoll_bootstrap given = blocking();
    given.allgather = [](void* self, const void* mine, size_t bytes, void* all) {
      auto& member = *static_cast<FailingMember*>(self);
      const int error = member.blocking().allgather(self, mine, bytes, all);
      return error == 0 && member.calls() == 1 ? 17 : error;
    };
    return given;
  }
};

TEST(Hosted, AHostThatFailsOnOneRankIsEverybodysErrorAtOnce) {
  SharedHost& host = SharedHost::create();
  const auto begin = std::chrono::steady_clock::now();
  const std::string all = run_ranks(3, [&](int rank) -> std::string {
    FailingMember member(host, rank, 3);
    const ibcoll_bootstrap given = rank == 1 ? member.failing() : member.blocking();
    ibcoll_context* context = nullptr;
    return ibcoll_init_with(&given, &context) == IBCOLL_OK ? "joined" : ibcoll_last_error();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(50)) << "not a minute";
  EXPECT_THAT(
      all,
      HasSubstr("rank 1: ibcoll: system error: the host's allgather has failed with error 17"));
  for (const char* rank : {"rank 0: ", "rank 2: "})
    EXPECT_THAT(all, HasSubstr(std::string(rank) +
                               "ibcoll: a rank failed: the host's allgather failed on rank 1"));
}

TEST(Hosted, ARankThatCanNotReadItsSettingsIsEverybodysError) {
  SharedHost& host = SharedHost::create();
  const std::string all = run_ranks(3, [&](int rank) -> std::string {
    if (rank == 1) setenv("IBCOLL_LATE", "soon", 1);
    SharedHost::Member member(host, rank, 3);
    const ibcoll_bootstrap given = member.blocking();
    ibcoll_context* context = nullptr;
    return ibcoll_init_with(&given, &context) == IBCOLL_OK ? "joined" : ibcoll_last_error();
  });
  EXPECT_EQ(std::string::npos, all.find("joined")) << all;
  EXPECT_EQ(std::string::npos, all.find("has left")) << all;
  EXPECT_THAT(all, HasSubstr("IBCOLL_LATE"));
}

}  // namespace
}  // namespace ibcoll
