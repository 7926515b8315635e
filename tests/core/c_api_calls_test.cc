// The C interface: what an ibcoll_call may say, how long a request and what it was given are
// needed, structs of other versions, and values that enums do not have.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <ibcoll/ibcoll.hpp>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/expect_invalid.h"

namespace ibcoll {
namespace {

using testing::expect_invalid;
using ::testing::HasSubstr;

/// A job of this process alone.
class CApiCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(ibcoll_init(&context_), IBCOLL_OK) << ibcoll_last_error();
    world_ = ibcoll_world(context_);
  }
  void TearDown() override { EXPECT_EQ(ibcoll_finalize(context_), IBCOLL_OK); }
  /// Why there can be no such call.
  void expect_refused(const ibcoll_call* call, const std::string& text) {
    ibcoll_request* request = nullptr;
    expect_invalid(ibcoll_call_init(world_, call, &request), text);
    EXPECT_EQ(request, nullptr);
    expect_invalid(ibcoll_group_call(world_, call), text);
  }
  ibcoll_context* context_ = nullptr;
  ibcoll_group* world_ = nullptr;
};

/// The first `bytes` bytes of a struct, which say so, with nothing after them; past its end there
/// are zeros.
template <class Struct>
class Sized {
 public:
  Sized(const Struct& whole, size_t bytes) : memory_(new std::byte[bytes]{}) {
    std::memcpy(memory_.get(), &whole, std::min(bytes, sizeof whole));
    std::memcpy(memory_.get(), &bytes, sizeof bytes);
  }
  Struct* get() { return reinterpret_cast<Struct*>(memory_.get()); }
  std::byte& operator[](size_t i) { return memory_[i]; }

 private:
  std::unique_ptr<std::byte[]> memory_;
};

TEST_F(CApiCalls, RequestsAreKeptUntilTheyAreFreed) {
  int64_t from = 7, to = 0;
  const ibcoll_call call = ibcoll_call_alltoall(&from, &to, sizeof to, nullptr);
  ibcoll_request* request = nullptr;
  ASSERT_EQ(ibcoll_call_init(world_, &call, &request), IBCOLL_OK) << ibcoll_last_error();
  EXPECT_EQ(to, 0) << "nothing is sent before the start";
  ASSERT_EQ(ibcoll_start(request), IBCOLL_OK);
  ASSERT_EQ(ibcoll_wait(request), IBCOLL_OK);
  EXPECT_EQ(to, 7);
  int done = 0;
  EXPECT_EQ(ibcoll_wait(request), IBCOLL_OK);
  EXPECT_EQ(ibcoll_test(request, &done), IBCOLL_OK);
  EXPECT_EQ(done, 1);
  expect_invalid(ibcoll_start(request), "IBCOLL_PERSISTENT");
  EXPECT_EQ(ibcoll_call_free(request), IBCOLL_OK);
}

TEST_F(CApiCalls, OneThatWasNeverStartedMayBeFreed) {
  const ibcoll_call call = ibcoll_call_barrier(nullptr);
  std::array<ibcoll_request*, 2> requests{};
  ASSERT_EQ(ibcoll_call_init(world_, &call, requests.data()), IBCOLL_OK);
  EXPECT_EQ(ibcoll_wait_all(2, requests.data()), IBCOLL_OK);
  EXPECT_EQ(ibcoll_call_free(requests[0]), IBCOLL_OK);
}

TEST_F(CApiCalls, AFunctionForEachCollective) {
  std::array<int64_t, 8> sent{};
  int64_t from = 5;
  const int64_t count = sizeof from, place = 0;
  const std::array<ibcoll_call, 11> calls = {
      ibcoll_call_alltoall(&from, &sent[0], sizeof from, nullptr),
      ibcoll_call_alltoallv(&from, &count, &place, &sent[1], &count, &place, nullptr),
      ibcoll_call_allgather(&from, &sent[2], sizeof from, nullptr),
      ibcoll_call_allgatherv(&from, count, &sent[3], &count, &place, nullptr),
      ibcoll_call_gather(&from, &sent[4], sizeof from, 0, nullptr),
      ibcoll_call_gatherv(&from, count, &sent[5], &count, &place, 0, nullptr),
      ibcoll_call_scatter(&from, &sent[6], sizeof from, 0, nullptr),
      ibcoll_call_scatterv(&from, &count, &place, &sent[7], count, 0, nullptr),
      ibcoll_call_bcast(&from, sizeof from, 0, nullptr),
      ibcoll_call_reduce(&from, &sent[0], 1, IBCOLL_INT64, IBCOLL_SUM, 0, nullptr),
      ibcoll_call_barrier(nullptr)};
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(calls[i].collective), i);
    ibcoll_request* request = nullptr;
    ASSERT_EQ(ibcoll_call_init(world_, &calls[i], &request), IBCOLL_OK) << ibcoll_last_error();
    EXPECT_EQ(ibcoll_start(request), IBCOLL_OK) << ibcoll_last_error();
    EXPECT_EQ(ibcoll_wait(request), IBCOLL_OK) << ibcoll_last_error();
    EXPECT_EQ(ibcoll_call_free(request), IBCOLL_OK) << ibcoll_last_error();
  }
  EXPECT_THAT(sent, ::testing::Each(5));
}

TEST_F(CApiCalls, MembersThatACollectiveHasNoArgumentForAreNotLookedAt) {
  int64_t number = 5;
  ibcoll_call call = ibcoll_call_bcast(&number, sizeof number, 0, nullptr);
  call.send = IBCOLL_IN_PLACE;
  call.elements = SIZE_MAX;
  call.own_count = -1;
  call.send_counts = call.recv_counts = &number;
  call.type = static_cast<ibcoll_type>(15);
  ibcoll_request* request = nullptr;
  ASSERT_EQ(ibcoll_call_init(world_, &call, &request), IBCOLL_OK) << ibcoll_last_error();
  EXPECT_EQ(ibcoll_call_free(request), IBCOLL_OK);
  call.collective = IBCOLL_BARRIER;
  call.recv = nullptr;
  ASSERT_EQ(ibcoll_call_init(world_, &call, &request), IBCOLL_OK) << ibcoll_last_error();
  EXPECT_EQ(ibcoll_call_free(request), IBCOLL_OK);
}

TEST_F(CApiCalls, ValuesThatEnumsDoNotHaveAreRefusedByNumber) {
  int64_t from = 0, to = 0;
  const ibcoll_call right = ibcoll_call_reduce(&from, &to, 1, IBCOLL_INT64, IBCOLL_SUM, 0, nullptr);
  // By way of memory: no compiler has to make such a value.
  const auto with = [&](size_t offset, int value) {
    ibcoll_call call = right;
    std::memcpy(reinterpret_cast<std::byte*>(&call) + offset, &value, sizeof value);
    return call;
  };
  for (const int value : {-1, IBCOLL_NEIGHBOR_ALLTOALLW + 1, 266}) {
    const ibcoll_call call = with(offsetof(ibcoll_call, collective), value);
    expect_refused(&call, "there is no collective " + std::to_string(value));
  }
  for (const int value : {-1, 25, 256}) {
    const ibcoll_call call = with(offsetof(ibcoll_call, type), value);
    expect_refused(&call, "there is no element type " + std::to_string(value));
  }
  for (const int value : {-1, 14, 256}) {
    const ibcoll_call call = with(offsetof(ibcoll_call, op), value);
    expect_refused(&call, "there is no operator " + std::to_string(value));
  }
  const ibcoll_call flagged = with(offsetof(ibcoll_call, flags), 6);
  expect_refused(&flagged, "0x6");
  // As a number, which is how C passes it.
  const auto text_of = reinterpret_cast<const char* (*)(int)>(ibcoll_status_text);
  for (const int value : {-1, 12, 99})
    EXPECT_EQ(text_of(value), "unknown status " + std::to_string(value));
  EXPECT_STREQ(ibcoll_status_text(IBCOLL_ERR_INTERNAL), "internal error");
}

TEST_F(CApiCalls, ACallOfAnOlderVersionIsTaken) {
  int64_t from = 3, to = 0;
  const ibcoll_call call = ibcoll_call_alltoall(&from, &to, sizeof to, nullptr);
  Sized<ibcoll_call> shorter(call, offsetof(ibcoll_call, elements));
  ibcoll_request* request = nullptr;
  ASSERT_EQ(ibcoll_call_init(world_, shorter.get(), &request), IBCOLL_OK) << ibcoll_last_error();
  EXPECT_EQ(ibcoll_start(request), IBCOLL_OK);
  EXPECT_EQ(ibcoll_wait(request), IBCOLL_OK);
  EXPECT_EQ(to, 3);
  EXPECT_EQ(ibcoll_call_free(request), IBCOLL_OK);
}

TEST_F(CApiCalls, OptionsOfAnOlderVersionAreTaken) {
  int64_t from = 3, to = 0;
  ibcoll_options options = IBCOLL_OPTIONS_INIT;
  options.pieces = 5000;
  options.recv_bytes = 1;
  // What lies behind the end is not looked at, what lies before it is.
  Sized<ibcoll_options> shorter(options, offsetof(ibcoll_options, pieces));
  EXPECT_EQ(ibcoll_alltoall(world_, &from, &to, sizeof to, shorter.get()), IBCOLL_OK)
      << ibcoll_last_error();
  Sized<ibcoll_options> longer(options, offsetof(ibcoll_options, send_bytes));
  expect_invalid(ibcoll_alltoall(world_, &from, &to, sizeof to, longer.get()), "5000");
}

TEST_F(CApiCalls, StructsOfANewerVersionAreTakenWhereTheyAskForNothingNew) {
  int64_t from = 3, to = 0;
  const ibcoll_options options = IBCOLL_OPTIONS_INIT;
  Sized<ibcoll_options> newer(options, sizeof options + 16);
  EXPECT_EQ(ibcoll_alltoall(world_, &from, &to, sizeof to, newer.get()), IBCOLL_OK)
      << ibcoll_last_error();
  newer[sizeof options + 15] = std::byte{1};
  expect_invalid(ibcoll_alltoall(world_, &from, &to, sizeof to, newer.get()),
                 "the ibcoll_options of " + std::to_string(sizeof options + 16) + " bytes");
  const ibcoll_call call = ibcoll_call_barrier(nullptr);
  Sized<ibcoll_call> newer_call(call, sizeof call + 8);
  newer_call[sizeof call] = std::byte{1};
  expect_refused(newer_call.get(),
                 "the ibcoll_call of " + std::to_string(sizeof call + 8) + " bytes");
}

TEST_F(CApiCalls, SizesThatNoVersionHasAreRefused) {
  ibcoll_options options = IBCOLL_OPTIONS_INIT;
  ibcoll_call call = ibcoll_call_barrier(nullptr);
  ibcoll_counters counters = IBCOLL_COUNTERS_INIT;
  ibcoll_launch_options launch = IBCOLL_LAUNCH_OPTIONS_INIT;
  for (const size_t size : {size_t{0}, size_t{7}, size_t{1} << 40}) {
    options.struct_size = call.struct_size = counters.struct_size = launch.struct_size = size;
    const std::string text = "struct_size " + std::to_string(size) + " of an ";
    expect_invalid(ibcoll_barrier(world_, &options), text + "ibcoll_options");
    expect_refused(&call, text + "ibcoll_call");
    expect_invalid(ibcoll_get_counters(context_, &counters), text + "ibcoll_counters");
    const auto main = [](ibcoll_context*, void*) { return 0; };
    expect_invalid(ibcoll_launch(&launch, main, nullptr, nullptr), text + "ibcoll_launch_options");
  }
}

TEST_F(CApiCalls, WhatIsReservedMustBeZero) {
  ibcoll_options options = IBCOLL_OPTIONS_INIT;
  ibcoll_call call = ibcoll_call_barrier(nullptr);
  options.reserved = call.reserved = 3;
  expect_invalid(ibcoll_barrier(world_, &options), "reserved in an ibcoll_options is 3");
  expect_refused(&call, "reserved in an ibcoll_call is 3");
}

TEST_F(CApiCalls, NamesThatAreRefusedStayOnOneLine) {
  ibcoll_options options = IBCOLL_OPTIONS_INIT;
  options.algorithm = "ring\n\x1b[2J\xfe";
  expect_invalid(ibcoll_barrier(world_, &options), "'ring \\x1b[2J\\xfe'");
}

TEST_F(CApiCalls, FlagsAreZeroOrOne) {
  ibcoll_options options = IBCOLL_OPTIONS_INIT;
  ibcoll_multicast_options multicast = IBCOLL_MULTICAST_OPTIONS_INIT;
  ibcoll_launch_options launch = IBCOLL_LAUNCH_OPTIONS_INIT;
  launch.ranks = 1;
  const uint64_t members = 1;
  const auto main = [](ibcoll_context*, void*) { return 0; };
  for (const int value : {-1, 2, 256}) {
    const std::string text = " is " + std::to_string(value) + ": it must be 0 or 1";
    options.ordered = multicast.acknowledged = launch.bind = value;
    launch.keep_survivors = 0;
    expect_invalid(ibcoll_barrier(world_, &options), "ordered" + text);
    expect_invalid(ibcoll_multicast(context_, &members, 1, &value, 4, &multicast, nullptr),
                   "acknowledged" + text);
    expect_invalid(ibcoll_launch(&launch, main, nullptr, nullptr), "bind" + text);
    launch.bind = 1;
    launch.keep_survivors = value;
    expect_invalid(ibcoll_launch(&launch, main, nullptr, nullptr), "keep_survivors" + text);
  }
  options.ordered = 1;
  EXPECT_EQ(ibcoll_barrier(world_, &options), IBCOLL_OK) << ibcoll_last_error();
}

TEST_F(CApiCalls, AnEmptySpanIsNoBuffer) {
  const group world = context(context_).world();
  std::vector<int> send{1}, recv;
  recv.reserve(1);  // there is an address, but nothing of the caller's lies there
  EXPECT_THROW(world.allgather<int>(send, std::span(recv)), error);
}

TEST_F(CApiCalls, CountersAreGivenAsFarAsThereIsRoom) {
  ibcoll_counters counters = IBCOLL_COUNTERS_INIT;
  counters.data_bytes = 77;
  Sized<ibcoll_counters> shorter(counters, offsetof(ibcoll_counters, data_bytes));
  EXPECT_EQ(ibcoll_get_counters(context_, shorter.get()), IBCOLL_OK) << ibcoll_last_error();
  EXPECT_EQ(shorter.get()->data_messages, 0u);
  Sized<ibcoll_counters> longer(counters, sizeof counters + 8);
  longer[sizeof counters] = std::byte{5};
  EXPECT_EQ(ibcoll_get_counters(context_, longer.get()), IBCOLL_OK) << ibcoll_last_error();
  EXPECT_EQ(longer.get()->data_bytes, 0u);
  EXPECT_EQ(longer[sizeof counters], std::byte{0});
  EXPECT_EQ(longer.get()->struct_size, sizeof counters + 8);
}

/// Persistent calls of all collectives with counts, whose arrays are overwritten before they start.
int counts_may_go(context& c) {
  ibcoll_group* world = c.world().handle();
  const int me = c.rank(), root = 1;
  std::vector<int64_t> counts(4, sizeof(int)), places = {0, 4, 8, 12};
  std::vector<int> mine(4, me), all(4), here(1), gathered(4), crossed(4), in_place(4, me);
  const int64_t *n = counts.data(), *at = places.data();
  // Only the root's arrays are looked at.
  const int64_t* const of_root = me == root ? n : reinterpret_cast<const int64_t*>(8);
  const int64_t* const at_root = me == root ? at : reinterpret_cast<const int64_t*>(8);
  std::array<ibcoll_call, 5> calls = {
      ibcoll_call_alltoallv(mine.data(), n, at, crossed.data(), n, at, nullptr),
      ibcoll_call_alltoallv(IBCOLL_IN_PLACE, nullptr, nullptr, in_place.data(), n, at, nullptr),
      ibcoll_call_allgatherv(mine.data(), 4, all.data(), n, at, nullptr),
      ibcoll_call_gatherv(mine.data(), 4, gathered.data(), of_root, at_root, root, nullptr),
      ibcoll_call_scatterv(mine.data(), of_root, at_root, here.data(), 4, root, nullptr)};
  std::array<ibcoll_request*, 5> requests{};
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].flags = IBCOLL_PERSISTENT;
    detail::check(ibcoll_call_init(world, &calls[i], &requests[i]));
  }
  std::fill(counts.begin(), counts.end(), -1);
  std::fill(places.begin(), places.end(), -1);
  for (int round = 0; round < 3; ++round) {
    std::fill(in_place.begin(), in_place.end(), me);
    for (ibcoll_request* request : requests) detail::check(ibcoll_start(request));
    detail::check(ibcoll_wait_all(5, requests.data()));
    const std::vector<int> right = {0, 1, 2, 3};
    if (crossed != right || in_place != right || all != right) return 1;
    if (me == root && gathered != right) return 2;
    if (here[0] != root) return 3;
  }
  for (ibcoll_request* request : requests) detail::check(ibcoll_call_free(request));
  return 0;
}

TEST(Calls, PersistentOnesCopyTheirCounts) {
  for (const char* layout : {"4", "2,2", "1,1,1,1"})
    EXPECT_EQ(launch(4, counts_may_go, layout), 0) << layout;
}

TEST_F(CApiCalls, ACppRequestFreesItselfWhenItIsDone) {
  const group world(world_);
  std::vector<int> from(1, 4), to(1);
  request once = world.ialltoall<int>(from, to), often = world.alltoall_init<int>(from, to);
  once.wait();
  EXPECT_TRUE(once.test());
  EXPECT_THROW(once.start(), error);
  for (int i = 0; i < 2; ++i) {
    often.start();
    often.wait();
  }
  EXPECT_EQ(to[0], 4);
}

}  // namespace
}  // namespace ibcoll
