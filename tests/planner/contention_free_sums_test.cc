/// Plans of reductions whose results are for several servers: what they reach, and what the checker
/// finds in them.

#include "studies/simulate/plan_run.h"
#include "tests/planner/contention_free_networks.h"

namespace ibcoll::contention_free {
namespace {

using ::testing::HasSubstr;

const char* const kSummingFabrics[] = {
    "single-switch:12", "fat-tree:4,2", "tree:8x3,hosts=20", "dragonfly:2,4,2", "torus:4x4",
};

TEST(ContentionFreeSums, ComeNearTheBound) {
  for (const char* spec : kSummingFabrics) {
    const Fabric fabric = network(spec);
    for (const Collective collective : {Collective::kReduceScatter, Collective::kAllreduce}) {
      for (const uint64_t bytes : {64 << 10, 1 << 20}) {
        const uint64_t block =
            collective == Collective::kAllreduce ? bytes * fabric.hosts() : bytes;
        const PlanInputs inputs = request_for(fabric, collective, block);
        const Plan plan = planned(inputs);
        expect_right(inputs, plan, label(spec, inputs));
        const double ratio = static_cast<double>(plan.time_ns) / static_cast<double>(plan.bound_ns);
        printf("%-60s %.3f of the bound\n", label(spec, inputs).c_str(), ratio);
        EXPECT_LE(ratio, 1.7) << label(spec, inputs);
      }
    }
  }
}

/// Every transfer the other way round, last ones first.
TEST(ContentionFreeSums, AReduceScatterTakesWhatAnAllgatherDoes) {
  for (const char* spec : kSummingFabrics) {
    const Fabric fabric = network(spec);
    const auto time = [&](Collective collective) {
      return static_cast<double>(planned(request_for(fabric, collective, 256 << 10)).time_ns);
    };
    EXPECT_LE(time(Collective::kReduceScatter), 1.25 * time(Collective::kAllgather)) << spec;
  }
}

TEST(ContentionFreeSums, SimulationsAgreeWithPlans) {
  for (const char* spec : kSummingFabrics) {
    const Fabric fabric = network(spec);
    for (const Collective collective : {Collective::kReduceScatter, Collective::kAllreduce}) {
      const PlanInputs inputs = request_for(fabric, collective, 1 << 20);
      const Plan plan = planned(inputs);
      const auto times = sim::simulate_plan(fabric, {}, plan);
      ASSERT_TRUE(times) << times.error().message;
      EXPECT_NEAR(times->time_us, static_cast<double>(plan.time_ns) * 1e-3, 0.15 * times->time_us)
          << label(spec, inputs);
    }
  }
}

TEST(ContentionFreeSums, MessagesHaveWhatRanksHaveForAServer) {
  const Fabric fabric = network("single-switch:4" + kLan);
  PlanInputs inputs = request_for(fabric, Collective::kReduceScatter, 1000);
  inputs.server_ranks = {3, 1, 2, 4};
  const Plan scatter = planned(inputs);
  expect_right(inputs, scatter, "3,1,2,4");
  for (const Transfer& t : scatter.transfers) {
    EXPECT_EQ(t.bytes, 1000u * inputs.server_ranks[t.target]);
  }
  inputs.message_bytes = {0, 7, 100'000, 20};
  const Plan unequal = planned(inputs);
  expect_right(inputs, unequal, "unequal");
  EXPECT_EQ(unequal.transfers.size(), 3u * 3);  // nothing is for server 0
  inputs.message_bytes.clear();
  inputs.collective = Collective::kAllreduce;
  inputs.block_bytes = 1002;
  const Plan all = planned(inputs);
  expect_right(inputs, all, "allreduce");
  EXPECT_EQ(all.transfers.size(), 2u * 4 * 3);
  for (const Transfer& t : all.transfers) EXPECT_EQ(t.bytes, 251u);
}

std::string refusal(const PlanInputs& inputs, const Plan& plan) {
  const Status right = check_plan(inputs, plan);
  return right ? "" : right.error().message;
}

TEST(ContentionFreeSums, TheCheckerFindsResultsThatAreNotComplete) {
  const Fabric fabric = network("single-switch:5" + kLan);
  for (const bool ahead : {true, false}) {
    PlanInputs inputs = request_for(fabric, Collective::kAllreduce, 100'000);
    inputs.tokens_ahead = ahead;
    const Plan good = planned(inputs);
    expect_right(inputs, good, "good");
    const auto first = std::find_if(good.transfers.begin(), good.transfers.end(),
                                    [](const Transfer& t) { return t.origin == t.from; });
    ASSERT_NE(first, good.transfers.end());
    const auto at = static_cast<size_t>(first - good.transfers.begin());
    Plan plan = good;
    plan.transfers[at].forwards = Transfer::kNone;
    EXPECT_THAT(refusal(inputs, plan), HasSubstr("does not wait for what its sender receives"));
    plan = good;  // of what is for another server
    for (uint32_t i = 0; i < plan.transfers.size(); ++i) {
      const Transfer& t = plan.transfers[i];
      if (t.to == first->from && t.target != first->from) plan.transfers[at].forwards = i;
    }
    EXPECT_THAT(refusal(inputs, plan), HasSubstr("which is not for its sender"));
    plan = good;  // a part goes round between two servers
    const auto part = std::find_if(plan.transfers.begin(), plan.transfers.end(), [](const auto& t) {
      return t.origin == kEveryone && t.to == t.target;
    });
    part->target =
        (part->target + 1) % 5 == part->from ? (part->target + 2) % 5 : (part->target + 1) % 5;
    EXPECT_NE(refusal(inputs, plan), "");
  }
}

}  // namespace
}  // namespace ibcoll::contention_free
