// What programs consist of, packed: nothing is lost, and little is left.

#include <gtest/gtest.h>

#include <random>

#include "engine/algorithms/registry.h"
#include "engine/schedule/layout.h"
#include "engine/schedule/program.h"

namespace ibcoll {
namespace {

void expect_same(const Op& op, const Op& expected, const std::string& where) {
  EXPECT_EQ(op.kind, expected.kind) << where;
  EXPECT_EQ(op.lane, expected.lane) << where;
  EXPECT_EQ(op.src_buffer, expected.src_buffer) << where;
  EXPECT_EQ(op.dst_buffer, expected.dst_buffer) << where;
  EXPECT_EQ(op.to_server, expected.to_server) << where;
  EXPECT_EQ(op.ordered, expected.ordered) << where;
  EXPECT_EQ(op.before, expected.before) << where;
  EXPECT_EQ(op.combines, expected.combines) << where;
  EXPECT_EQ(op.relaxed, expected.relaxed) << where;
  EXPECT_EQ(op.exposure, expected.exposure) << where;
  EXPECT_EQ(op.peer, expected.peer) << where;
  EXPECT_EQ(op.src_first, expected.src_first) << where;
  EXPECT_EQ(op.dst_first, expected.dst_first) << where;
  EXPECT_EQ(op.count, expected.count) << where;
  EXPECT_EQ(op.threshold, expected.threshold) << where;
  EXPECT_EQ(op.step, expected.step) << where;
  EXPECT_EQ(op.after, expected.after) << where;
}

void expect_same(const OpList& list, const OpList& expected, const std::string& about) {
  ASSERT_EQ(list.size(), expected.size()) << about;
  size_t place = 0;
  for (const Op& op : list) {
    expect_same(op, expected[place], fmt::format("{}, operation {}", about, place));
    ++place;
  }
  EXPECT_EQ(place, list.size());
}

/// Operations of which each differs from the one before in some field.
OpList irregular(uint32_t size) {
  OpList list;
  std::mt19937 random(7);
  const auto below = [&](uint32_t bound) { return static_cast<uint32_t>(random() % bound); };
  for (uint32_t i = 0; i < size; ++i) {
    Op& op = list.edit().emplace_back();
    op.kind = static_cast<OpKind>(below(static_cast<uint32_t>(OpKind::kGateWait) + 1));
    op.lane = static_cast<Lane>(below(kLanes));
    op.src_buffer = static_cast<Buffer>(below(4));
    op.dst_buffer = static_cast<Buffer>(below(4));
    op.to_server = below(2) != 0;
    op.ordered = below(2) != 0;
    op.before = below(2) != 0;
    op.combines = below(2) != 0;
    op.relaxed = static_cast<Op::Relaxed>(below(3));
    op.exposure = static_cast<uint8_t>(below(256));
    op.peer = static_cast<int32_t>(below(100)) - 1;
    op.src_first = below(2) != 0 ? ~uint32_t{0} - i : i;
    op.dst_first = below(1000);
    op.count = 1u << 31;
    op.threshold = below(3);
    op.step = i / 7;
    op.after = {i, below(i + 1), 0};
  }
  return list;
}

TEST(PackedList, HoldsEveryOperationOfEveryAlgorithm) {
  size_t packed = 0;
  for (const char* layout : {"1", "5", "3,1,2", "7x5", "11x1", "24x8"}) {
    const Shape shape = parse_layout(layout).value();
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.spec->planned || has_graph(algorithm.collective)) continue;
      for (const Rank me : {0, shape.ranks() / 2, shape.ranks() - 1}) {
        const ProgramPtr program = algorithm.build(shape, me, {});
        const ProgramPtr small = pack_lists(program, 0);
        for (const Lane lane : kEveryLane) {
          packed += small->lane(lane).is_packed() ? 1 : 0;
          expect_same(small->lane(lane), program->lane(lane),
                      fmt::format("{} {} on {}, rank {}, lane {}", to_string(algorithm.collective),
                                  algorithm.name, layout, me, to_string(lane)));
        }
        ASSERT_EQ(small->streams.size(), program->streams.size());
        size_t place = 0;
        for (const Stream& stream : small->streams) {
          const Stream expected = program->streams[place++];
          EXPECT_EQ(stream.lane, expected.lane);
          EXPECT_EQ(stream.once, expected.once);
          EXPECT_EQ(stream.first, expected.first);
          EXPECT_EQ(stream.count, expected.count);
          EXPECT_EQ(stream.strands, expected.strands);
        }
        ASSERT_EQ(small->scratch.size(), program->scratch.size());
        place = 0;
        for (const Block& block : small->scratch) EXPECT_EQ(block, program->scratch[place++]);
        EXPECT_LE(small->memory_bytes(), program->memory_bytes());
      }
    }
  }
  EXPECT_GT(packed, 100u);
}

TEST(PackedList, ReadsAnywhereWithWhatStandsNearBy) {
  const OpList plain = irregular(5000), packed = plain.packed();
  ASSERT_TRUE(packed.is_packed());
  const OpReader reader(packed);
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const size_t place = random() % (plain.size() - OpReader::kNear);
    const Op& here = reader[place];
    const Op& near = reader[place + OpReader::kNear];
    expect_same(near, plain[place + OpReader::kNear], fmt::format("operation {} and near", place));
    expect_same(here, plain[place], fmt::format("operation {}", place));
  }
}

TEST(PackedList, IsSharedByItsCopies) {
  const OpList plain = irregular(300);
  OpList list = plain.packed();
  ASSERT_TRUE(list.is_packed());
  const OpList copy = list;
  list = OpList();
  EXPECT_TRUE(list.empty());
  expect_same(copy, plain, "copy");
  expect_same(copy.back(), plain[plain.size() - 1], "last");
}

TEST(PackedList, StaysAsItIsWhereNothingIsGained) {
  EXPECT_FALSE(OpList().packed().is_packed());
  OpList noise = irregular(200);
  std::mt19937 random(3);
  const auto any = [&] { return static_cast<uint32_t>(random()); };
  for (Op& op : noise.edit()) {
    op.peer = static_cast<int32_t>(any());
    op.src_first = any();
    op.dst_first = any();
    op.count = any();
    op.threshold = any();
    op.after = {any(), any(), any()};
  }
  EXPECT_FALSE(noise.packed().is_packed());
}

// What lets a rank keep programs for a hundred thousand others.
TEST(PackedList, TakesLittleWhereStepsAreAlike) {
  const Shape shape = parse_layout("256x8").value();
  for (const char* name : {"ring", "two_level_ring", "linear", "aggregate"}) {
    const ProgramPtr program =
        (**find_algorithm(Collective::kAlltoall, name)).build(shape, 1000, {});
    const ProgramPtr small = pack_lists(program, 100);
    size_t before = 0, after = 0;
    for (const Lane lane : kEveryLane) {
      before += program->lane(lane).memory_bytes();
      after += small->lane(lane).memory_bytes();
    }
    EXPECT_LT(after, before / 8) << name;
  }
}

// Every algorithm, for ranks that have to do with more than a hundred thousand others.
TEST(PackedListFull, ProgramsOfLargeJobsTakeAtMostFourMegabytes) {
  for (const char* layout : {"12800x8", "800x128"}) {
    const Shape shape = parse_layout(layout).value();
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.spec->planned || has_graph(algorithm.collective)) continue;
      for (const Rank me : {0, shape.ranks() / 2 + 3, shape.ranks() - 1}) {
        const ProgramPtr program = pack_lists(algorithm.build(shape, me, {}), 8192);
        EXPECT_LE(program->memory_bytes(), size_t{4} << 20)
            << to_string(algorithm.collective) << ' ' << algorithm.name << " on " << layout
            << ", rank " << me << ": " << program->size() << " operations, "
            << program->streams.size() << " streams, " << program->scratch.size()
            << " slots of scratch";
      }
    }
  }
}

}  // namespace
}  // namespace ibcoll
