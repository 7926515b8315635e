// What a context keeps from call to call stays within limits.

#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <span>

#include "engine/planner/contention_free/plan_store.h"
#include "engine/schedule/layout.h"
#include "tests/job.h"

namespace ibcoll {
namespace {

using testing::JobOptions;
using testing::RankView;
using testing::run_job;

JobOptions one_server(int ranks) {
  JobOptions job;
  job.shape = Shape::single_server(ranks);
  return job;
}

TEST(ProgramCache, KeepsThoseUsedLast) {
  const Algorithm& linear = **find_algorithm(Collective::kAlltoall, "linear");
  std::vector<Shape> shapes;
  for (int ranks = 2; ranks < 20; ++ranks) shapes.push_back(Shape::single_server(ranks));
  ProgramCache all(size_t{1} << 30);
  for (const Shape& shape : shapes) all.find(linear, shape, 0, {});
  EXPECT_EQ(all.size(), shapes.size());
  EXPECT_EQ(all.find(linear, shapes[3], 0, {}), all.find(linear, shapes[3], 0, {}));

  ProgramCache some(all.bytes() / 2);
  const auto first = some.find(linear, shapes[0], 0, {});
  for (const Shape& shape : shapes) {
    some.find(linear, shape, 0, {});
    EXPECT_EQ(some.find(linear, shapes[0], 0, {}), first) << "it is in use all the time";
    EXPECT_LE(some.bytes(), all.bytes() / 2);
  }
  EXPECT_LT(some.size(), shapes.size());

  ProgramCache none(0);
  const auto mine = none.find(linear, shapes[0], 0, {});
  none.find(linear, shapes[1], 0, {});
  EXPECT_EQ(none.size(), 1u);
  EXPECT_EQ(mine->algorithm, "linear") << "who uses a program has a share in it";
}

TEST(PlanStore, KeepsThoseUsedLast) {
  using contention_free::PlanStore;
  const topology::Fabric fabric = topology::parse_fabric_spec("single-switch:6").value();
  const std::vector<int> hosts = {0, 1, 2, 3, 4, 5};
  const auto ask = [&](PlanStore& plans, int servers, int64_t bytes) {
    return plans
        .find(Collective::kAlltoall, parse_layout(fmt::format("{}x2", servers)).value(),
              std::span(hosts).first(servers), 0, bytes)
        .value();
  };
  PlanStore all(fabric);
  for (int servers = 2; servers <= 6; ++servers)
    for (int64_t bytes = 64; bytes < 1 << 20; bytes *= 2) ask(all, servers, bytes);
  EXPECT_EQ(all.size(), 5u * 14);

  PlanStore some(fabric, {.most_bytes = all.bytes() / 4});
  const auto in_use = ask(some, 4, 1000);
  const std::weak_ptr<const TransferPlan> first = ask(some, 3, 1000);
  const uint64_t hash = first.lock()->hash;
  for (int round = 0; round < 3; ++round) {
    for (int servers = 2; servers <= 6; ++servers) {
      for (int64_t bytes = 64; bytes < 1 << 20; bytes *= 2) {
        ask(some, servers, bytes);
        EXPECT_LE(some.bytes(), all.bytes() / 4);
        EXPECT_EQ(ask(some, 4, 1000), in_use) << "it is in use all the time";
      }
    }
  }
  EXPECT_LT(some.size(), all.size() / 2);
  EXPECT_TRUE(first.expired()) << "nobody asks for it any more";
  EXPECT_EQ(ask(some, 3, 1000)->hash, hash) << "planned anew it is the same";

  // A few calls in turn are not planned again and again, however little room there is.
  PlanStore none(fabric, {.most_bytes = 0});
  std::vector<std::shared_ptr<const TransferPlan>> kept;
  for (int servers = 2; servers <= 5; ++servers) kept.push_back(ask(none, servers, 64));
  for (int servers = 2; servers <= 5; ++servers)
    EXPECT_EQ(ask(none, servers, 64), kept[servers - 2]);
  ask(none, 6, 64);
  EXPECT_EQ(none.size(), 4u);
  EXPECT_NE(ask(none, 2, 64), kept[0]);
}

/// A store of plans in a directory that vanishes.
class KeptPlans : public ::testing::Test {
 protected:
  using PlanStore = contention_free::PlanStore;
  KeptPlans() { std::filesystem::create_directory(directory_); }
  ~KeptPlans() override { std::filesystem::remove_all(directory_); }

  static Shape shape(int servers) { return parse_layout(fmt::format("{}x2", servers)).value(); }
  std::span<const int> hosts(int servers) const { return std::span(hosts_).first(servers); }
  void ask(PlanStore& plans, int servers, int64_t bytes) const {
    ASSERT_TRUE(plans.find(Collective::kAlltoall, shape(servers), hosts(servers), 0, bytes));
  }
  int files() const {
    const auto all = std::filesystem::directory_iterator(directory_);
    return static_cast<int>(std::distance(begin(all), end(all)));
  }

  const topology::Fabric fabric_ = topology::parse_fabric_spec("single-switch:6").value();
  const std::vector<int> hosts_ = {0, 1, 2, 3, 4, 5};
  const std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / fmt::format("ibcoll-kept-plans-{}", getpid());
};

TEST_F(KeptPlans, ThoseOfFilesCountAndAreDroppedToo) {
  PlanStore first(fabric_, {.directory = directory_});
  for (int64_t bytes = 64; bytes < 1 << 20; bytes *= 2) ask(first, 4, bytes);
  ASSERT_TRUE(first.save());

  PlanStore all(fabric_, {.directory = directory_});
  ask(all, 4, 64);
  EXPECT_EQ(all.size(), first.size());
  EXPECT_GT(all.bytes(), first.bytes() / 4);
  PlanStore few(fabric_, {.directory = directory_, .most_bytes = 0});
  ask(few, 4, 64);
  EXPECT_EQ(few.size(), 4u);
}

TEST_F(KeptPlans, ThoseThatAreOnlyCheckedCountAndAreDroppedToo) {
  PlanStore plans(fabric_, {.most_bytes = 0});
  for (int64_t bytes = 64; bytes < 1 << 20; bytes *= 2) {
    ASSERT_TRUE(plans.check(Collective::kAlltoall, shape(4), hosts(4), 0, bytes));
    EXPECT_GT(plans.bytes(), 0u);
  }
  EXPECT_EQ(plans.size(), 4u);
}

TEST_F(KeptPlans, AShapeIsWrittenBeforeItIsDropped) {
  PlanStore reader(fabric_, {.directory = directory_, .most_bytes = 0});
  for (int servers = 2; servers <= 6; ++servers) ask(reader, servers, 64);
  EXPECT_EQ(files(), 0) << "another store writes";
  PlanStore writer(fabric_, {.directory = directory_, .saves_dropped = true, .most_bytes = 0});
  ask(writer, 2, 1024);
  for (int servers = 2; servers <= 6; ++servers) ask(writer, servers, 64);
  EXPECT_EQ(files(), 1);
  PlanStore next(fabric_, {.directory = directory_});
  ask(next, 2, 64);
  EXPECT_EQ(next.size(), 2u) << "its file has all plans of the shape";
}

TEST(ScratchPool, KeepsLittleBesideThePieceUsedLast) {
  EXPECT_EQ(run_job(one_server(1),
                    [](const RankView& rank) {
                      ScratchPool& pool = rank.context.world().services().scratch;
                      std::vector<std::byte*> pieces;
                      for (size_t i = 0; i < 100; ++i) {
                        auto piece = pool.take(i % 2 == 0 ? ScratchPool::kKeptBytes / 4 : 5000);
                        if (!rank.good(piece, "take")) return;
                        pieces.push_back(*piece);
                      }
                      for (std::byte* piece : pieces) pool.put(piece);
                      if (pool.kept() > ScratchPool::kKeptBytes)
                        rank.complain("the pool keeps too much");
                      if (rank.context.job().local().heap().used() > 2 * ScratchPool::kKeptBytes)
                        rank.complain("what the pool does not keep was not freed");
                      auto large = pool.take(2 * ScratchPool::kKeptBytes);
                      if (!rank.good(large, "take")) return;
                      pool.put(*large);
                      auto again = pool.take(2 * ScratchPool::kKeptBytes - 1);
                      if (!rank.good(again, "take")) return;
                      if (*again != *large) rank.complain("the piece used last was not kept");
                      pool.put(*again);
                    }),
            "");
}

TEST(ScratchPool, IsSharedByTheBlockingCallsOfAllGroups) {
  EXPECT_EQ(run_job(one_server(3),
                    [](const RankView& rank) {
                      constexpr size_t kBlock = 1 << 20;
                      std::vector<std::byte> send(3 * kBlock), recv(3 * kBlock);
                      std::vector<std::shared_ptr<Group>> groups;
                      std::vector<std::unique_ptr<Call>> calls;
                      size_t used = 0;
                      for (int i = 0; i < 5; ++i) {
                        groups.push_back(rank.context.groups().create({0, 1, 2}).value());
                        calls.push_back(std::make_unique<Call>(*groups.back()));
                        CallArguments arguments;
                        arguments.collective = Collective::kAlltoall;
                        arguments.send = send.data();
                        arguments.recv = recv.data();
                        arguments.block_bytes = kBlock;
                        arguments.options.algorithm = "bruck";
                        if (!rank.good(calls.back()->prepare(arguments), "prepare") ||
                            !rank.good(calls.back()->start(), "start") ||
                            !rank.good(calls.back()->wait(), "wait"))
                          return;
                        calls.back()->release();
                        if (i == 0) used = rank.context.job().local().heap().used();
                      }
                      if (used == 0 || rank.context.job().local().heap().used() != used)
                        rank.complain("every group keeps scratch of its own");
                    }),
            "");
}

TEST(GroupRecords, ForgetOldListsAndTellGroupsOfOneListApart) {
  GroupRecords records;
  GroupState state(Shape::single_server(2));
  std::array<Rank, 2> members{0, 1};
  const GroupIdentity first = records.add(members);
  uint32_t* const calls = records.entered(first, state);
  ++*calls;
  const GroupIdentity second = records.add(members);
  EXPECT_NE(second.key, first.key);
  EXPECT_EQ(second.list, first.list);
  EXPECT_EQ(second.number, 1u);
  EXPECT_EQ(second.calls, 1u);
  // While a group of it is there, a list is not forgotten, nor while few others were made.
  GroupState other(Shape::single_server(2));
  for (Rank i = 0; i < static_cast<Rank>(GroupRecords::kRemembered + 1000); ++i) {
    const GroupIdentity identity = records.add(std::array<Rank, 2>{i + 1, 0});
    records.entered(identity, other);
    records.left(identity, other);
  }
  EXPECT_LE(records.size(), GroupRecords::kRemembered + 1);
  EXPECT_EQ(records.add(members).number, 2u);
}

TEST(GroupRecords, TakeAsLongForAGroupHoweverManyOfItsRanksThereAre) {
  // Where each looked at all before it this would take minutes.
  constexpr size_t kGroups = 200'000;
  GroupRecords records;
  const std::array<Rank, 2> members{0, 1};
  std::deque<GroupState> states;
  std::vector<GroupIdentity> made;
  for (size_t i = 0; i < kGroups; ++i) {
    GroupState& state = states.emplace_back(Shape::single_server(2));
    ASSERT_FALSE(records.has_ended(members, 0));
    made.push_back(records.add(members));
    ASSERT_EQ(made.back().calls, i);
    state.key = made.back().key;
    state.list = made.back().list;
    ++*records.entered(made.back(), state);
    state.calls.take();
    EXPECT_EQ(records.made_several(state.key), i != 0);
    EXPECT_TRUE(records.has_made(state.list, made.back().number, {.group = state.key}));
    EXPECT_FALSE(
        records.has_made(state.list, made.back().number, {.group = state.key, .sequence = 1}));
  }
  records.ended(made[7].list);
  EXPECT_TRUE(records.has_ended(members, 0));
  for (size_t i = 0; i < kGroups; ++i) records.left(made[i], states[i]);
  EXPECT_FALSE(records.has_live(members, 0));
  EXPECT_TRUE(records.has_ended(members, 0));
}

TEST(GroupRecords, KnowWhoMadeGroupsBetweenOtherCalls) {
  const std::array<Rank, 2> members{0, 1};
  const auto history = [&](int calls) {
    GroupRecords records;
    GroupState state(Shape::single_server(2));
    uint32_t* const counted = records.entered(records.add(members), state);
    *counted += static_cast<uint32_t>(calls);
    return records.add(members).history;
  };
  EXPECT_EQ(history(3), history(3));
  EXPECT_NE(history(3), history(4));
}

}  // namespace
}  // namespace ibcoll
