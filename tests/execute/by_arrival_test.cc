// What the executor does otherwise with calls that arrivals make, and with buffers that still fill.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "engine/base/clock.h"
#include "engine/execute/arrival_descriptor.h"
#include "engine/execute/arrival_runs.h"
#include "engine/execute/inquiry.h"
#include "engine/execute/mail.h"
#include "engine/execute/waits.h"
#include "tests/execute/lone_rank.h"

namespace ibcoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kArrivingBytes = 1000;
constexpr int64_t kLateNs = 10'000'000, kDeadlineNs = 1'000'000'000;

class ByArrival : public LoneRank {
 protected:
  ByArrival()
      : LoneRank(Collective::kBcast, kArrivingBytes, 1,
                 {.late_ns = kLateNs, .deadline_ns = kDeadlineNs}) {
    group_.key = kByArrivalKey | 5;
    group_.by_arrival = true;
  }
  /// To both, in pieces.
  void post_bcast(uint32_t pieces) {
    binding_.pieces = pieces;
    builder_.begin_stream();
    for (Rank peer : {1, 2}) builder_.put(peer, {Buffer::kSend, 0, 1}, {Buffer::kRecv, 0, 1});
    builder_.end_stream();
    post();
  }
  /// For longer than the deadline.
  void look_for_long() {
    const int64_t end = now_ns() + kDeadlineNs * 6 / 5;
    while (now_ns() < end && !executor_.failed()) (void)executor_.progress_of_all();
  }
};

TEST_F(ByArrival, CallsAreNeverLate) {
  ::testing::internal::CaptureStderr();
  post_bcast(1);
  look_for_long();
  EXPECT_FALSE(executor_.failed()) << executor_.failed()->message;
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(ByArrival, OthersAre) {
  ::testing::internal::CaptureStderr();
  group_.by_arrival = false;
  group_.key = 5;
  post_bcast(1);
  const int64_t end = now_ns() + 60'000'000'000;
  while (!executor_.failed() && now_ns() < end) (void)executor_.progress_of_all();
  ASSERT_TRUE(executor_.failed());
  EXPECT_THAT(executor_.failed()->message, HasSubstr("IBCOLL_DEADLINE"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("rank 0 was waiting for rank 1"));
}

TEST_F(ByArrival, WhoSleepsOnTheDescriptorHearsOfThoseThatAreLate) {
  ::testing::internal::CaptureStderr();
  group_.by_arrival = false;
  group_.key = 5;
  post_bcast(1);
  auto descriptor = ArrivalDescriptor::create(bell_);
  ASSERT_TRUE(descriptor);
  const int64_t end = now_ns() + 60'000'000'000;
  while (!executor_.failed() && now_ns() < end) {
    (void)executor_.arm(**descriptor);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_TRUE(executor_.failed());
  EXPECT_THAT(executor_.failed()->message, HasSubstr("IBCOLL_DEADLINE"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("rank 0 was waiting for rank 1"));
}

TEST_F(ByArrival, WhatTheLostHaveNotReadIsTakenBack) {
  post_bcast(1);
  local_.read = {1};
  progress();
  EXPECT_FALSE(completion_.done);
  group_.lost = {2};
  progress();
  EXPECT_TRUE(completion_.done);
  EXPECT_THAT(local_.retracted, ElementsAre(2));
}

TEST_F(ByArrival, NothingIsOfferedToTheLost) {
  group_.lost = {1};
  post_bcast(4);
  EXPECT_EQ(local_.bytes_to(1), 0u);
  EXPECT_EQ(local_.bytes_to(2), kArrivingBytes);
  EXPECT_THAT(local_.retracted, IsEmpty());
}

TEST_F(ByArrival, GroupsMayHaveMembersThatAreNotKnown) {
  group_.to_job = {0, -1, 2};
  builder_.put(2, {Buffer::kSend, 0, 1}, {Buffer::kRecv, 0, 1});
  post();
  executor_.end_group(group_, {0, ErrorCode::kCancelled, "enough"});
  progress();
  EXPECT_TRUE(completion_.done);
  ASSERT_NE(completion_.error, nullptr);
  EXPECT_THAT(completion_.error->message, HasSubstr("enough"));
  EXPECT_THAT(local_.retracted, ElementsAre(2));
  EXPECT_THAT(local_.told, ElementsAre(2));
  executor_.leave(group_);
  EXPECT_FALSE(executor_.failed());
}

TEST_F(ByArrival, PiecesAreOfferedAsTheirDataCome) {
  uint64_t available = 0;
  binding_.available = &available;
  post_bcast(4);
  EXPECT_THAT(local_.offered, IsEmpty());
  EXPECT_EQ(describe(*completion_.call, local_),
            "rank 0 was waiting for its own data to come in bcast (test), call 0, step 0");
  for (const auto& [come, sent] :
       std::vector<std::pair<uint64_t, size_t>>{{249, 0}, {250, 250}, {999, 750}, {1000, 1000}}) {
    available = come;
    progress();
    EXPECT_EQ(local_.bytes_to(1), sent) << come;
    EXPECT_EQ(local_.bytes_to(2), sent) << come;
  }
  local_.read = {1, 2};
  progress();
  EXPECT_TRUE(completion_.done);
}

TEST_F(ByArrival, StrandsOvertakeAPeerThatIsLate) {
  local_.full = {1};
  binding_.pieces = 4;
  builder_.begin_strands();
  for (Rank peer : {1, 2}) builder_.put(peer, {Buffer::kSend, 0, 1}, {Buffer::kRecv, 0, 1});
  builder_.end_stream();
  post();
  while (local_.bytes_to(2) != kArrivingBytes) progress();
  EXPECT_EQ(local_.bytes_to(1), 0u);
  EXPECT_EQ(describe(*completion_.call, local_),
            "rank 0 was waiting for rank 1 to be ready to receive in bcast (test), call 0, step 0");
  local_.full = {};
  local_.read = {1, 2};
  progress();
  EXPECT_EQ(local_.bytes_to(1), kArrivingBytes);
  EXPECT_TRUE(completion_.done);
}

TEST_F(ByArrival, StrandsGoInOrderWhereNobodyIsLate) {
  binding_.pieces = 2;
  builder_.begin_strands();
  for (Rank peer : {2, 1}) builder_.put(peer, {Buffer::kSend, 0, 1}, {Buffer::kRecv, 0, 1});
  builder_.end_stream();
  post();
  std::vector<Rank> peers;
  for (const SlowLocal::Offered& offer : local_.offered) peers.push_back(offer.peer);
  EXPECT_THAT(peers, ElementsAre(2, 1, 2, 1));
}

TEST_F(ByArrival, CopiesWaitForTheirDataToo) {
  uint64_t available = kArrivingBytes - 1;
  binding_.available = &available;
  send_[5] = std::byte{3};
  builder_.copy({Buffer::kRecv, 0, 1}, {Buffer::kSend, 0, 1});
  post();
  EXPECT_FALSE(completion_.done);
  EXPECT_EQ(recv_[5], std::byte{0});
  available = kArrivingBytes;
  progress();
  EXPECT_TRUE(completion_.done);
  EXPECT_EQ(recv_[5], std::byte{3});
}

/// Notes what it is given.
class NotedRuns final : public ArrivalRuns {
 public:
  std::vector<uint64_t> taken;
  int advanced = 0;
  bool is_busy = false;

  void take(std::span<const std::byte> mail, bool local) override {
    MailHeader header;
    std::memcpy(&header, mail.data(), sizeof header);
    EXPECT_TRUE(local);
    EXPECT_EQ(header.kind, MailKind::kMulticast);
    taken.push_back(header.group);
  }
  bool advance() override {
    ++advanced;
    return false;
  }
  bool busy() const override { return is_busy; }
  void lost(Rank, const Failure&) override {}
};

std::vector<std::byte> mail_of(uint64_t group) {
  MailHeader header{};
  header.group = group;
  header.kind = MailKind::kMulticast;
  std::vector<std::byte> mail(sizeof header);
  std::memcpy(mail.data(), &header, sizeof header);
  return mail;
}

TEST_F(ByArrival, RunsGetTheirMailsInOrderAndGoOnWhileTheyAreBusy) {
  NotedRuns runs;
  executor_.serve(&runs);
  EXPECT_FALSE(executor_.has_calls());
  EXPECT_TRUE(executor_.listens());
  local_.mails = {mail_of(3), mail_of(4)};
  EXPECT_TRUE(executor_.progress());
  EXPECT_THAT(runs.taken, ElementsAre(3, 4));
  EXPECT_FALSE(executor_.progress());
  EXPECT_EQ(runs.advanced, 0);
  runs.is_busy = true;
  EXPECT_TRUE(executor_.has_calls());
  executor_.progress();
  EXPECT_EQ(runs.advanced, 1);
  executor_.serve(nullptr);
  EXPECT_FALSE(executor_.has_calls());
  executor_.progress();
  EXPECT_EQ(runs.advanced, 1);
}

TEST_F(ByArrival, AFloodOfMailsDoesNotHoldUpARound) {
  NotedRuns runs;
  executor_.serve(&runs);
  local_.mails.assign(1000, mail_of(3));
  executor_.progress();
  EXPECT_LT(runs.taken.size(), 1000u);
  progress();
  EXPECT_EQ(runs.taken.size(), 1000u);
}

/// Of rank 1, on a group of which this rank knows nothing, with what follows its head.
template <class Body>
std::vector<std::byte> mail_with(MailKind kind, const Body& body) {
  MailHeader header{};
  header.group = 77;
  header.from = 1;
  header.kind = kind;
  std::vector<std::byte> mail(sizeof header + sizeof body);
  std::memcpy(mail.data(), &header, sizeof header);
  std::memcpy(mail.data() + sizeof header, &body, sizeof body);
  return mail;
}

TEST_F(ByArrival, WhoAsksOfAGroupThatIsLongOverIsTold) {
  NotedRuns runs;
  executor_.serve(&runs);  // mails are taken in each round
  EndNotice end{};
  end.sender = end.culprit = 1;
  end.code = static_cast<uint8_t>(ErrorCode::kCancelled);
  local_.mails = {mail_with(MailKind::kEnd, end)};
  progress();
  EXPECT_THAT(local_.told, ElementsAre(1)) << "that this rank has heard of the end";
  Inquiry inquiry;
  inquiry.rank = 2;
  local_.mails = {mail_with(MailKind::kInquiry, inquiry)};
  progress();
  EXPECT_THAT(local_.told, ElementsAre(1, 2));
}

TEST_F(ByArrival, MailsThatNobodyTakesAreAnError) {
  local_.mails = {mail_of(3)};
  Completion completion;
  const Status waited = executor_.wait(completion);
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, ErrorCode::kInternal);
  EXPECT_THAT(waited.error().message, HasSubstr("a multicast's mail"));
}

}  // namespace
}  // namespace ibcoll
