// Programs as the simulator holds them: nothing is lost, and little is left.

#include <gtest/gtest.h>

#include "engine/algorithms/registry.h"
#include "engine/schedule/lane_cursor.h"
#include "engine/schedule/layout.h"
#include "engine/schedule/op_kinds.h"
#include "studies/simulate/packed_program.h"

namespace ibcoll::sim {
namespace {

constexpr uint64_t kBlockBytes = 1000;

uint64_t bytes_of_block(const Block& block) {
  return static_cast<uint64_t>(100 * (block.origin + 1) + 7 * (block.target + 1));
}

void expect_same(const RankProgram& program, uint32_t pieces, PackedProgram packed,
                 const char* about) {
  const ProgramCursor items(program, pieces);
  std::vector<uint32_t> of_step(program.steps);
  for (int lane = 0; lane < kLanes; ++lane) {
    const LaneCursor& expected = items[lane];
    ASSERT_EQ(packed.lanes[lane].size, expected.size()) << about;
    PackedCursor cursor(std::move(packed.lanes[lane]));
    for (uint32_t item = 0; item < expected.size(); ++item) {
      const Op& op = expected.op(item);
      const PackedItem& what = cursor.at(item);
      ASSERT_EQ(what.kind(), op.kind) << about << ", item " << item;
      ASSERT_EQ(what.relaxed(), op.relaxed);
      ASSERT_EQ(what.to_server(), op.to_server);
      ASSERT_EQ(what.copies(), copies(op));
      ASSERT_EQ(what.exposure(), op.exposure);
      ASSERT_EQ(what.peer(), op.peer);
      ASSERT_EQ(what.threshold(), op.threshold);
      ASSERT_EQ(what.step(), op.step);
      ASSERT_EQ(what.sends_token(), expected.sends_token(item, pieces));
      for (int other = 0; other < kLanes; ++other) {
        ASSERT_EQ(what.after(other), expected.after(item)[other]);
      }
      if (op.kind == OpKind::kPut && program.cut == 1 && !expected.streamed(item)) {
        ASSERT_EQ(what.bytes(), op.count * kBlockBytes) << about << ", item " << item;
      }
      ++of_step[op.step];
      cursor.start(item);
      cursor.finish(item);
    }
    EXPECT_TRUE(cursor.all_complete());
  }
  EXPECT_EQ(packed.items_of_step, of_step) << about;
}

TEST(PackedProgram, HoldsEveryItemOfEveryAlgorithm) {
  for (const char* layout : {"1", "5", "3,1,2", "6x3", "11x1"}) {
    const Shape shape = parse_layout(layout).value();
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.spec->planned || has_graph(algorithm.collective)) continue;
      for (const uint32_t pieces : {1, 3}) {
        Packer packer({kBlockBytes, {}}, pieces);
        for (Rank rank = 0; rank < shape.ranks(); ++rank) {
          const ProgramPtr program = algorithm.build(shape, rank, {});
          expect_same(*program, pieces, packer.pack(*program), algorithm.name.data());
        }
      }
    }
  }
}

TEST(PackedProgram, KnowsTheBytesOfEachBlock) {
  const Shape shape = parse_layout("3,1,2").value();
  const Algorithm& linear = **find_algorithm(Collective::kAlltoallv, "linear");
  Packer packer({0, bytes_of_block}, 1);
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    const ProgramPtr program = linear.build(shape, rank, {});
    PackedProgram packed = packer.pack(*program);
    const OpList& puts = program->lane(Lane::kSend);
    PackedCursor cursor(std::move(packed.lanes[static_cast<int>(Lane::kSend)]));
    for (uint32_t item = 0; item < puts.size(); ++item) {
      if (puts[item].kind != OpKind::kPut) continue;
      EXPECT_EQ(cursor.at(item).bytes(), bytes_of_block({rank, puts[item].peer}));
    }
  }
}

// What makes thousands of ranks possible.
TEST(PackedProgram, TakesLittleWhereStepsAreAlike) {
  const Shape shape = parse_layout("256x8").value();
  for (const char* name : {"ring", "two_level_ring", "linear"}) {
    const ProgramPtr program =
        (**find_algorithm(Collective::kAlltoall, name)).build(shape, 1000, {});
    Packer packer({kBlockBytes, {}}, 1);
    EXPECT_LT(packer.pack(*program).memory_bytes(), program->memory_bytes() / 15) << name;
  }
}

// Items that wait are asked about again and again; those behind them start before.
TEST(PackedCursor, ReachesOverItemsThatWait) {
  RankProgram program;
  program.steps = 1;
  std::vector<Op>& lane = program.lanes[static_cast<int>(Lane::kRecv)].edit();
  for (int i = 0; i < 500; ++i) {
    Op& op = lane.emplace_back();
    op.kind = OpKind::kExpect;
    op.lane = Lane::kRecv;
    op.peer = i * i % 77;
    op.relaxed = i == 0 ? Op::Relaxed::kFirstOfRun : Op::Relaxed::kInRun;
  }
  lane.emplace_back(lane.back()).relaxed = Op::Relaxed::kNo;
  PackedCursor cursor(std::move(Packer({}, 1).pack(program).lanes[static_cast<int>(Lane::kRecv)]));
  constexpr uint32_t kReach = 10;
  const auto odd = [](uint32_t item, const PackedItem& what) {
    EXPECT_EQ(what.peer(), static_cast<int32_t>(item) * static_cast<int32_t>(item) % 77);
    return item % 2 == 1;
  };
  for (const uint32_t expected : {1, 3, 5, 7, 9}) {
    ASSERT_EQ(cursor.pick(kReach, odd), expected);
    cursor.start(expected);
  }
  EXPECT_EQ(cursor.pick(kReach, odd), PackedCursor::kNone);
  const auto any = [](uint32_t, const PackedItem&) { return true; };
  uint32_t started = 5;
  for (uint32_t item = 0; (item = cursor.pick(kReach, any)) < 500; ++started) {
    cursor.start(item);
    cursor.finish(item);
  }
  EXPECT_EQ(started, 500u);
  EXPECT_EQ(cursor.pick(kReach, any), 500u) << "the run is over: the next starts in its turn";
  EXPECT_EQ(cursor.complete(), 1u) << "item 1 has started and is not complete";
}

}  // namespace
}  // namespace ibcoll::sim
