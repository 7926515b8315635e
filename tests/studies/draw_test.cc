/// Drawings of schedules.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/algorithms/registry.h"
#include "engine/schedule/describe.h"
#include "engine/schedule/layout.h"
#include "engine/schedule/verifier.h"
#include "studies/drawing/draw.h"
#include "studies/drawing/svg.h"
#include "studies/drawing/timeline.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

Programs alltoall_programs(const char* algorithm, const Shape& shape,
                           AlgorithmOptions options = {}) {
  return build_all(*find_algorithm(Collective::kAlltoall, algorithm).value(), shape, options);
}

TEST(Drawing, TimeIsWhatTheScheduleAllows) {
  // Four ranks that send one block at a time to three servers: three blocks long, plus latencies.
  const Shape shape = parse_layout("4x1").value();
  const auto end = [&](const char* name, Pacing pacing) {
    double end = 0;
    const Programs programs = alltoall_programs(name, shape, {pacing, 1});
    for (const Activity& activity : timeline(shape, programs)) {
      end = std::max(end, activity.arrival);
    }
    return end;
  };
  EXPECT_DOUBLE_EQ(end("linear", Pacing::kFree), 0.25 + 3 + 0.25);
  // Each further step waits for the block to land and for the token to come back.
  EXPECT_DOUBLE_EQ(end("two_level_ring", Pacing::kGateToken), 3 * (0.25 + 1 + 0.25));
}

TEST(Drawing, ShowsEveryPut) {
  const Shape shape = parse_layout("3,1,2").value();
  const Programs programs = alltoall_programs("two_level_ring", shape);
  const std::string svg = draw(shape, programs, "a <title>");
  EXPECT_THAT(svg, HasSubstr("a &lt;title&gt;"));
  for (const auto& program : programs) {
    for (const Op& op : program->lane(Lane::kSend)) {
      if (op.kind != OpKind::kPut) continue;
      EXPECT_THAT(svg, HasSubstr(xml_escape(describe(op))));
    }
  }
}

TEST(Drawing, ManyRanksStaySmall) {
  const Shape shape = parse_layout("24x8").value();
  const Programs programs = alltoall_programs("two_level_ring", shape);
  EXPECT_LT(draw(shape, programs, "").size(), 600'000u);
}

}  // namespace
}  // namespace ibcoll
