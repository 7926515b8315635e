// Groups that end before their members are done with them: cancelled, or past a call's deadline.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "tests/api_job.h"
#include "tests/exchange.h"

namespace ibcoll {
namespace {

using testing::Exchange;
using testing::job_of;
using testing::JobOptions;
using testing::RankView;
using testing::run_job;
using testing::SharedFlags;

constexpr size_t kLarge = 1'000'000;

class GroupEnds : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  void run(const std::function<void(const RankView&)>& body, JobOptions job = job_of(GetParam())) {
    job.context.deadline_ns = 20'000'000'000;  // fails instead of hanging
    flags_ = &SharedFlags::create();
    EXPECT_EQ(run_job(job, body), "");
  }
  int ranks() const {
    int sum = 0;
    for (const int ranks : GetParam()) sum += ranks;
    return sum;
  }

  SharedFlags* flags_ = nullptr;
};

std::vector<Rank> everybody(const RankView& rank) {
  std::vector<Rank> all(static_cast<size_t>(rank.context.size()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Rank>(i);
  return all;
}

std::shared_ptr<Group> make_group(const RankView& rank, uint64_t id) {
  auto group = rank.context.groups().create(everybody(rank), id);
  return rank.good(group, "group") ? *group : nullptr;
}

CallArguments alltoall(const std::vector<std::byte>& send, std::vector<std::byte>& recv,
                       int ranks) {
  CallArguments arguments;
  arguments.collective = Collective::kAlltoall;
  arguments.send = send.data();
  arguments.recv = recv.data();
  arguments.block_bytes = recv.size() / static_cast<size_t>(ranks);
  return arguments;
}

void cancel(Group& group) {
  const Rank me = group.rank_in_job();
  group.services().executor.end_group(
      group.state(), {me, ErrorCode::kCancelled, fmt::format("rank {} has cancelled it", me)});
}

/// Complains unless the group's error is this one.
void expect_over(const RankView& rank, const Status& status, ErrorCode code,
                 const std::string& text) {
  if (status) return rank.complain("the call has ended well");
  const Error& error = status.error();
  if (error.code != code || error.scope != Scope::kGroup ||
      error.message.find(text) == std::string::npos)
    rank.complain(fmt::format("another error (scope {}): {}: {}", static_cast<int>(error.scope),
                              to_string(error.code), error.message));
}

/// A call that has got all that it waits for may end well, with what it should have got; a later
/// one does not.
void expect_over_soon(const RankView& rank, Group& group, size_t bytes, ErrorCode code,
                      const std::string& text) {
  for (uint32_t i = 0; i < 100; ++i) {
    Exchange exchange(group, bytes, i);
    Status status = exchange.post();
    if (status) status = exchange.call().wait();
    if (!status) return expect_over(rank, status, code, text);
    if (!exchange.right()) return rank.complain("wrong data in a call that ended well");
  }
  rank.complain("the group is not over");
}

/// An alltoall that is expected to fail.
Status make(Group& group) {
  Exchange exchange(group, 100, 0);
  IBCOLL_TRY(exchange.post());
  return exchange.call().wait();
}

/// Other groups go on.
void expect_others_go_on(const RankView& rank) {
  for (uint32_t i = 0; i < 3; ++i) {
    Exchange exchange(rank.context.world(), i * 7000, 1000 + i);
    if (!rank.good(exchange.post(), "post") || !rank.good(exchange.call().wait(), "wait")) return;
    if (!exchange.right()) return rank.complain("wrong data in the world's call");
  }
}

TEST_P(GroupEnds, AreToldToAllMembersAndToNobodyElse) {
  for (const size_t bytes : {size_t{8}, size_t{10'000}, kLarge}) {
    run([&](const RankView& rank) {
      const auto group = make_group(rank, 1);
      if (!group) return;
      const Rank me = rank.context.rank();
      if (me == 0) {
        Exchange exchange(*group, bytes, 0);
        if (!rank.good(exchange.post(), "post")) return;
        cancel(*group);
        flags_->raise(0);
        expect_over(rank, exchange.call().wait(), ErrorCode::kCancelled, "rank 0 has cancelled");
        exchange.fill();  // its memory is the program's again
      } else {
        if (me == 1) flags_->await(0, 1);  // so that rank 0's call can't end well
        expect_over_soon(rank, *group, bytes, ErrorCode::kCancelled, "rank 0 has cancelled");
      }
      Exchange refused(*group, bytes, 0);
      expect_over(rank, refused.post(), ErrorCode::kCancelled, "rank 0 has cancelled");
      expect_others_go_on(rank);
      // Groups of the same ranks are told apart by another identifier only.
      if (rank.context.groups().create(everybody(rank), 1)) rank.complain("made it again");
      const auto other = make_group(rank, 2);
      if (!other) return;
      Exchange again(*other, bytes, 1);
      if (rank.good(again.post(), "post") && rank.good(again.call().wait(), "wait") &&
          !again.right())
        rank.complain("wrong data");
    });
  }
}

TEST_P(GroupEnds, OfMemberThatMakesItLater) {
  run([&](const RankView& rank) {
    if (rank.context.rank() == 1) {
      flags_->await(0, 1);
      expect_others_go_on(rank);  // takes what has come
      const auto group = make_group(rank, 1);
      if (!group) return;
      return expect_over_soon(rank, *group, 100, ErrorCode::kCancelled, "has cancelled");
    }
    const auto group = make_group(rank, 1);
    if (!group) return;
    if (rank.context.rank() == 0) cancel(*group);
    flags_->raise(0);
    expect_others_go_on(rank);
  });
}

TEST_P(GroupEnds, WithAllThatWasStartedAndAllThatWaitsForIt) {
  run([&](const RankView& rank) {
    const auto group = make_group(rank, 1);
    if (!group) return;
    if (rank.context.rank() == 1) return expect_others_go_on(rank);
    std::vector<std::unique_ptr<Exchange>> calls;
    for (uint32_t i = 0; i < 40; ++i) {
      calls.push_back(std::make_unique<Exchange>(*group, i % 2 == 0 ? 100 : 20'000, i));
      if (!rank.good(calls.back()->post(), "post")) return;
    }
    if (rank.context.rank() == 0) cancel(*group);
    for (auto& call : calls)
      expect_over(rank, call->call().wait(), ErrorCode::kCancelled, "rank 0 has cancelled");
    expect_others_go_on(rank);
  });
}

TEST_P(GroupEnds, WhenADeadlinePasses) {
  run([&](const RankView& rank) {
    const auto group = make_group(rank, 1);
    if (!group) return;
    const Rank me = rank.context.rank();
    // Making so much takes long, and all are to confirm within 2 s that the group is over.
    Exchange exchange(*group, kLarge, 0);
    flags_->raise(1);
    flags_->await(1, ranks());
    if (me == 1) flags_->await(0, 1);
    if (me == 0) exchange.set_time_limit(500'000'000);
    const std::string text = "the deadline of 0.5 s has passed: rank 0 was waiting for rank";
    Status status = exchange.post();
    if (me != 0) {
      if (status) status = exchange.call().wait();
      if (!status) {
        expect_over(rank, status, ErrorCode::kDeadline, text);
      } else if (!exchange.right()) {
        rank.complain("wrong data in a call that ended well");
      } else {
        expect_over_soon(rank, *group, 8, ErrorCode::kDeadline, text);
      }
      return expect_others_go_on(rank);
    }
    if (!rank.good(status, "post")) return;
    Call& call = exchange.call();
    // A program that only tests learns it, too.
    Result<bool> done = call.test();
    while (done && !*done) {
      if (group->state().over) flags_->raise(0);  // rank 1 has to confirm it
      done = call.test();
    }
    flags_->raise(0);
    if (done) return rank.complain("the call has ended well");
    expect_over(rank, tl::unexpected<Error>(done.error()), ErrorCode::kDeadline, text);
    expect_others_go_on(rank);
  });
}

TEST_P(GroupEnds, NotWhereADeadlineIsKept) {
  run([&](const RankView& rank) {
    std::vector<std::byte> send(100 * static_cast<size_t>(ranks())), recv(send.size());
    CallArguments arguments = alltoall(send, recv, ranks());
    arguments.time_limit_ns = 15'000'000'000;
    Call call(rank.context.world());
    for (int i = 0; i < 100; ++i) {
      if (!rank.good(call.prepare(arguments), "prepare") || !rank.good(call.start(), "start") ||
          !rank.good(call.wait(), "wait"))
        return;
    }
  });
}

TEST_P(GroupEnds, LeaveNothingBehindHoweverManyThereAre) {
  run([&](const RankView& rank) {
    // Messages that nobody reads hold places in rings, tickets, cells and registrations.
    for (uint64_t round = 0; round < 200; ++round) {
      const auto group = make_group(rank, 1 + round);
      if (!group) return;
      std::array<Exchange, 3> calls = {Exchange(*group, 20'000, 0), Exchange(*group, kLarge / 4, 1),
                                       Exchange(*group, 100, 2)};
      const bool late = rank.context.rank() == static_cast<Rank>(round) % rank.context.size();
      if (!late) {
        for (Exchange& call : calls) {
          if (const Status posted = call.post(); !posted)  // others were faster
            expect_over(rank, posted, ErrorCode::kCancelled, "has cancelled");
        }
      }
      cancel(*group);
      for (Exchange& call : calls) {
        const bool started = call.call().under_way() || call.right();
        if (const Status waited = call.call().wait(); !waited)
          expect_over(rank, waited, ErrorCode::kCancelled, "has cancelled");
        else if (started && !call.right())
          rank.complain("wrong data in a call that ended well");
      }
    }
    expect_others_go_on(rank);
  });
}

const std::vector<int> kLayouts[] = {{2}, {3}, {1, 1}, {2, 1}, {2, 2, 1}};
INSTANTIATE_TEST_SUITE_P(Layouts, GroupEnds, ::testing::ValuesIn(kLayouts));

using GroupEndsInAServer = GroupEnds;

/// What was offered is taken back without the peer, which may be anywhere; and the peer does not
/// take what its sender has written there since.
TEST_P(GroupEndsInAServer, NeedNobodyElse) {
  run([&](const RankView& rank) {
    const auto group = make_group(rank, 1);
    if (!group) return;
    std::vector<std::unique_ptr<Exchange>> calls;
    for (uint32_t i = 0; i < 12; ++i)  // more than a ring has tickets
      calls.push_back(std::make_unique<Exchange>(*group, kLarge / 8, i));
    if (rank.context.rank() == 0) {
      for (auto& call : calls) {
        if (!rank.good(call->post(), "post")) return;
      }
      cancel(*group);
      for (auto& call : calls)
        expect_over(rank, call->call().wait(), ErrorCode::kCancelled, "has cancelled");
      calls.clear();  // unmapped
      flags_->raise(0);
    } else {
      flags_->await(0, 1);
      expect_over_soon(rank, *group, kLarge / 8, ErrorCode::kCancelled, "has cancelled");
    }
    expect_others_go_on(rank);
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, GroupEndsInAServer,
                         ::testing::Values(std::vector<int>{2}, std::vector<int>{4}));

/// Calls of a group whose ranks are all there.
void expect_right(const RankView& rank, Group& group, uint32_t calls) {
  for (uint32_t i = 0; i < calls; ++i) {
    Exchange exchange(group, i % 3 * 30'000, i);
    if (!rank.good(exchange.post(), "post") || !rank.good(exchange.call().wait(), "wait")) return;
    if (!exchange.right()) return rank.complain("wrong data");
  }
}

TEST(GroupEndsAfterDeaths, AreThoseOfTheRanksThatDied) {
  for (const bool tests : {false, true}) {
    int status = 0;
    SharedFlags& posted = SharedFlags::create();
    testing::Complaints closing(5);
    const std::string complaints = run_job(
        job_of({5}),
        [&](const RankView& rank) {
          const Rank me = rank.context.rank();
          Context& context = rank.context;
          Group& world = context.world();
          expect_right(rank, world, 3);
          std::shared_ptr<Group> three, four;
          if (me < 3) three = *context.groups().create({0, 1, 2}, 1);
          if (me < 4) four = *context.groups().create({0, 1, 2, 3}, 1);
          if (me == 4) {
            posted.await(0, 4);
            raise(SIGKILL);
          }
          Exchange under_way(world, 30'000, 9);
          if (!rank.good(under_way.post(), "post")) return;
          posted.raise(0);
          Result<bool> done = false;
          while (tests && done && !*done) done = under_way.call().test();
          const Status waited = under_way.call().wait();
          expect_over(rank, waited, ErrorCode::kPeerFailed, "rank 4 (pid");
          expect_over(rank, under_way.post(), ErrorCode::kPeerFailed, "killed by signal 9");
          expect_right(rank, *four, 20);
          if (context.groups().create({me, 4})) rank.complain("made a group of one that has died");
          auto later = context.groups().create({3, 2, 1, 0}, 7);
          if (rank.good(later, "group")) expect_right(rank, **later, 20);
          // Another one.
          if (me == 3) raise(SIGKILL);
          expect_over(rank, make(*four), ErrorCode::kPeerFailed, "rank 3");
          expect_over(rank, make(**later), ErrorCode::kPeerFailed, "rank 3");
          expect_right(rank, *three, 20);
          later->reset();
          three.reset();
          four.reset();
          if (const Status closed = context.close(); !closed)
            closing.add(me, closed.error().message);
        },
        &status);
    EXPECT_EQ(complaints, "");
    EXPECT_EQ(status, 128 + SIGKILL);
    for (Rank rank = 0; rank < 3; ++rank)
      EXPECT_THAT(closing.of(rank), ::testing::HasSubstr("rank 4 (pid")) << rank;
  }
}

TEST(GroupEndsAfterDeaths, AreNotThoseOfRanksThatLeaveInOrder) {
  int status = 0;
  const std::string complaints = run_job(
      job_of({4}),
      [](const RankView& rank) {
        const Rank me = rank.context.rank();
        if (me == 3) raise(SIGKILL);
        expect_over(rank, make(rank.context.world()), ErrorCode::kPeerFailed, "rank 3");
        const auto three = *rank.context.groups().create({0, 1, 2}, 1);
        expect_right(rank, *three, 3);
        if (me == 0) return;  // leaves, and its process ends
        const auto two = *rank.context.groups().create({1, 2}, 1);
        if (me == 1) usleep(100'000);  // the other one waits, and looks at who is there
        expect_right(rank, *two, 3);
        if (three->state().over)
          rank.complain("all calls had ended: " + three->state().over->message);
      },
      &status);
  // Of nothing but the death, when they leave.
  EXPECT_THAT(complaints, ::testing::StartsWith("rank 0: close: rank 3 (pid"));
  EXPECT_THAT(complaints, ::testing::HasSubstr("rank 1: close: rank 3 (pid"));
  EXPECT_THAT(complaints, ::testing::HasSubstr("rank 2: close: rank 3 (pid"));
}

TEST(GroupEndsOfSilentPeers, EndTheJobAfterADeadline) {
  SharedFlags* const flags = &SharedFlags::create();
  testing::Complaints errors(2);
  run_job(job_of({1, 1}), [&](const RankView& rank) {
    Group& world = rank.context.world();
    Exchange warm(world, 10'000, 0);
    if (!rank.good(warm.post(), "post") || !rank.good(warm.call().wait(), "wait")) return;
    if (rank.context.rank() == 1) return flags->await(0, 1);
    std::vector<std::byte> send(20'000), recv(send.size());
    CallArguments arguments = alltoall(send, recv, 2);
    arguments.time_limit_ns = 50'000'000;
    Call call(world);
    if (!rank.good(call.prepare(arguments), "prepare") || !rank.good(call.start(), "start")) return;
    const Status waited = call.wait();
    flags->raise(0);
    if (waited) return rank.complain("has ended well");
    errors.add(
        0, fmt::format("{}: {}", static_cast<int>(waited.error().scope), waited.error().message));
  });
  EXPECT_THAT(errors.of(0), ::testing::HasSubstr("3: rank 1 has not confirmed the end of a group"));
}

}  // namespace
}  // namespace ibcoll
