/// Programs in words: above all those that cut blocks into parts.

#include "engine/schedule/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "engine/algorithms/registry.h"
#include "engine/schedule/layout.h"
#include "engine/schedule/verifier.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string described(Collective collective, const Block& whole, uint32_t part, uint32_t cut) {
  RankProgram program;
  program.collective = collective;
  program.root = 3;
  program.cut = cut;
  return describe(part_of(collective, whole, part, cut), program);
}

TEST(Describe, NamesBlocksOfWhichPartsAre) {
  constexpr Rank kCombined = Block::kCombined, kAll = Block::kEveryone;
  EXPECT_EQ(described(Collective::kAlltoall, {0, 2}, 1, 2), "0->2, part 1 of 2");
  EXPECT_EQ(described(Collective::kAlltoall, {5, 0}, 0, 3), "5->0, part 0 of 3");
  EXPECT_EQ(described(Collective::kScatter, {3, 4}, 1, 2), "3->4, part 1 of 2");
  EXPECT_EQ(described(Collective::kGather, {4, 3}, 1, 2), "4->3, part 1 of 2");
  EXPECT_EQ(described(Collective::kBcast, {3, kAll}, 7, 8), "3->all, part 7 of 8");
  EXPECT_EQ(described(Collective::kAllgather, {1, kAll}, 2, 4), "1->all, part 2 of 4");
  EXPECT_EQ(described(Collective::kReduce, {kCombined, 3}, 2, 4), "combined->3, part 2 of 4");
  EXPECT_EQ(described(Collective::kAllreduce, {kCombined, kAll}, 2, 4),
            "combined->all, part 2 of 4");
  EXPECT_EQ(described(Collective::kReduceScatter, {kCombined, 6}, 1, 2),
            "combined->6, part 1 of 2");
}

Programs cut_broadcast(const Shape& shape) {
  AlgorithmOptions options;
  options.cut = 8;
  return build_all(*find_algorithm(Collective::kBcast, "scatter_doubling").value(), shape, options);
}

TEST(Describe, AListingSaysWhatSlotsAreOfBlocksThatAreCut) {
  const Shape shape = parse_layout("4x1").value();
  const Programs cut = cut_broadcast(shape);
  ASSERT_GT(cut[0]->cut, 1u);
  EXPECT_THAT(list(*cut[0]),
              HasSubstr(fmt::format("\nblocks in {0} parts: slot s is part s % {0} of "
                                    "block s / {0}\nlane send:",
                                    cut[0]->cut)));
  const auto whole =
      build_all(*find_algorithm(Collective::kBcast, "binomial").value(), shape, AlgorithmOptions{});
  EXPECT_THAT(list(*whole[0]), Not(HasSubstr("parts")));
}

TEST(Describe, TheVerifierNamesParts) {
  const Shape shape = parse_layout("2x1").value();
  Programs programs =
      build_all(*find_algorithm(Collective::kAllreduce, "ring").value(), shape, AlgorithmOptions{});
  ASSERT_EQ(programs[0]->cut, 2u);
  // Without the last put of rank 0, and what rank 1 expects of it.
  const auto without_last = [&](Rank rank, Lane lane) {
    RankProgram program = *programs[rank];
    const Op last = program.lane(lane).back();
    program.lanes[static_cast<int>(lane)].edit().pop_back();
    std::erase_if(program.streams.edit(), [&](const Stream& stream) {
      return stream.lane == lane && stream.first == program.lane(lane).size();
    });
    programs[rank] = std::make_shared<const RankProgram>(std::move(program));
    return last.dst_first;
  };
  const uint32_t slot = without_last(0, Lane::kSend);
  ASSERT_EQ(without_last(1, Lane::kRecv), slot);
  const auto report = verify(shape, programs);
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(
      report.error().message,
      fmt::format("rank 1: block combined->all, part {0} of 2 never arrives in recv[{0}]", slot));
}

}  // namespace
}  // namespace ibcoll
