// What programs consist of, packed: nothing is lost, and little is left.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "engine/algorithms/registry.h"
#include "engine/schedule/layout.h"
#include "engine/schedule/program.h"

namespace ibcoll {
namespace {

template <class T>
void expect_same(const PackedList<T>& list, const PackedList<T>& expected,
                 const std::string& about) {
  ASSERT_EQ(list.size(), expected.size()) << about;
  size_t place = 0;
  for (const T& value : list) {
    EXPECT_TRUE(value == expected[place]) << about << ", entry " << place;
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

TEST(PackedList, HoldsAllOfTheProgramsOfAllAlgorithms) {
  for (const char* layout : {"1", "5", "3,1,2", "7x5", "11x1", "24x8"}) {
    const Shape shape = parse_layout(layout).value();
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.spec->planned || has_graph(algorithm.collective)) continue;
      for (const Rank me : {0, shape.ranks() / 2, shape.ranks() - 1}) {
        const ProgramPtr program = algorithm.build(shape, me, {});
        const ProgramPtr packed = pack_lists(program, 0);
        const std::string about = fmt::format(
            "{} {} on {}, rank {}", to_string(algorithm.collective), algorithm.name, layout, me);
        for (const Lane lane : kEveryLane) {
          EXPECT_EQ(packed->lane(lane).is_packed(), !program->lane(lane).empty()) << about;
          expect_same(packed->lane(lane), program->lane(lane), about);
        }
        EXPECT_EQ(packed->streams.is_packed(), !program->streams.empty()) << about;
        expect_same(packed->streams, program->streams, about);
        expect_same(packed->scratch, program->scratch, about);
        EXPECT_EQ(packed->hash, program->hash);
        EXPECT_EQ(packed->algorithm, program->algorithm);
        EXPECT_EQ(packed->strands, program->strands);
        EXPECT_EQ(packed->size(), program->size());
      }
    }
  }
}

TEST(PackedList, ReadsAnywhereWithWhatStandsNearBy) {
  const OpList plain = irregular(5000), packed = plain.packed();
  const OpReader reader(packed);
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const size_t place = random() % (plain.size() - OpReader::kNear);
    const Op& here = reader[place];
    const Op& near = reader[place + OpReader::kNear];
    EXPECT_TRUE(near == plain[place + OpReader::kNear]) << "near operation " << place;
    EXPECT_TRUE(here == plain[place]) << "operation " << place;
  }
}

TEST(PackedList, IsReadByReadersOfOthersBefore) {
  const OpList lists[] = {irregular(200), irregular(70).packed(), irregular(3000).packed(),
                          irregular(10), irregular(64).packed()};
  OpReader reader;
  for (int round = 0; round < 3; ++round) {
    for (const OpList& list : lists) {
      reader.open(list);
      for (size_t i = 0; i < list.size(); i += 1 + i % 5) EXPECT_TRUE(reader[i] == list[i]);
    }
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
  EXPECT_TRUE(copy.back() == plain[plain.size() - 1]);
  EXPECT_FALSE(OpList().packed().is_packed());
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

// Of every algorithm that needs neither a plan nor a graph, for ranks that have to do with more
// than a hundred thousand others.
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
