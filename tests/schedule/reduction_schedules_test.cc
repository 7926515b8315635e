// Reductions as programs: in which order the verifier lets them combine, and what two-level
// allreduce moves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/algorithms/registry.h"
#include "engine/schedule/builder.h"
#include "engine/schedule/layout.h"
#include "engine/schedule/verifier.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

TEST(ReductionSchedules, FollowOneTreeWhereTheyAreOrdered) {
  // (0 (1 2)) is in the order of ranks, but not what others make of three ranks.
  const Shape shape = Shape::single_server(3);
  const Slice sent{Buffer::kSend, 0, 1}, received{Buffer::kRecv, 0, 1};
  const auto verified = [&](bool ordered) {
    Programs programs;
    for (Rank me = 0; me < 3; ++me) {
      ProgramBuilder program(Collective::kReduce, "test", shape, me, {});
      if (me == 2) program.put(1, sent, {Buffer::kScratch, 0, 1});
      if (me == 1) {
        const Block combined{Block::kCombined, 0};
        const Slice sum = program.add_scratch({&combined, 1});
        program.expect(2, sum);
        program.reduce(sum, sent, {.ordered = ordered, .before = true});
        program.begin_step(1);
        program.put(0, sum, received);
      }
      if (me == 0) {
        program.begin_step(1);
        program.expect(1, received);
        program.reduce(received, sent, {.ordered = ordered, .before = true});
      }
      programs.push_back(program.finish());
    }
    const auto result = verify(shape, programs);
    return result ? "" : result.error().message;
  };
  EXPECT_EQ(verified(false), "");
  EXPECT_THAT(verified(true), HasSubstr("the tree of ordered reductions does not combine ranks 1 "
                                        "to 1 with 2 to 2"));
}

TEST(ReductionSchedules, OfScansTakeNothingOfRanksBehind) {
  const Shape shape = Shape::single_server(2);
  const Slice sent{Buffer::kSend, 0, 1}, received{Buffer::kRecv, 0, 1};
  Programs programs;
  for (Rank me = 0; me < 2; ++me) {
    ProgramBuilder program(Collective::kScan, "test", shape, me, {});
    program.put(1 - me, sent, received);
    program.expect(1 - me, received);
    program.reduce(received, sent, {});
    programs.push_back(program.finish());
  }
  const auto result = verify(shape, programs);
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message,
              HasSubstr("rank 0: the data of rank 1 is in what is combined in recv[0]"));
}

TEST(ReductionSchedules, OfTwoLevelAllreduceSendEachPartTwice) {
  // 2 (Ns - 1) / Ns of the block out of each server, whatever its size.
  for (const char* name : {"two_level", "two_level_ring"}) {
    for (const char* layout : {"4x2", "3x4", "3,1,2", "5,2"}) {
      const Shape shape = parse_layout(layout).value();
      const auto algorithm = find_algorithm(Collective::kAllreduce, name).value();
      const auto programs = build_all(*algorithm, shape, {});
      ASSERT_TRUE(verify(shape, programs)) << name << " on " << layout;
      const auto servers = static_cast<uint32_t>(shape.servers());
      std::vector<uint32_t> out(servers), in(servers);
      for (const auto& program : programs) {
        for (const Op& op : program->lane(Lane::kSend)) {
          if (op.kind != OpKind::kPut) continue;
          out[static_cast<size_t>(shape.server_of(program->me))] += op.count;
          in[static_cast<size_t>(shape.server_of(op.peer))] += op.count;
        }
      }
      const uint32_t bound = 2 * (servers - 1) * programs[0]->cut / servers;
      EXPECT_EQ(out, std::vector<uint32_t>(servers, bound)) << name << " on " << layout;
      EXPECT_EQ(in, out) << name << " on " << layout;
    }
  }
}

TEST(ReductionSchedules, OnOneServerReadEachElementOnce) {
  const Shape shape = Shape::single_server(4);
  const auto algorithm = find_algorithm(Collective::kAllreduce, "two_level").value();
  const auto programs = build_all(*algorithm, shape, {});
  ASSERT_TRUE(verify(shape, programs));
  for (const auto& program : programs) {
    EXPECT_TRUE(program->scratch.empty());
    std::vector<int> read(4);
    for (const Op& op : program->lane(Lane::kLocal)) {
      if (op.kind == OpKind::kExpect) ++read[op.dst_first];
    }
    // Three others' data of its own slot, which it combines; the sums of the three others.
    for (Rank slot = 0; slot < 4; ++slot) EXPECT_EQ(read[slot], slot == program->me ? 3 : 1);
  }
}

}  // namespace
}  // namespace ibcoll
