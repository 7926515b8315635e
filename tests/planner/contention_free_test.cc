/// Contention-free plans: what they reach.

#include <map>

#include "studies/simulate/plan_run.h"
#include "tests/planner/contention_free_networks.h"
#include "tests/tool.h"
#include "topology/distort.h"

namespace ibcoll::contention_free {
namespace {

using ::testing::HasSubstr;

TEST(ContentionFree, EveryCollectiveOnEveryNetworkIsRight) {
  for (const std::string& spec : networks()) {
    const Fabric fabric = network(spec);
    for (const Collective collective : kPlanned) {
      for (const uint64_t bytes : {100, 5'000, 100'000}) {
        for (const bool ahead : {true, false}) {
          PlanInputs inputs = request_for(fabric, collective, bytes);
          inputs.root = fabric.hosts() / 3;
          inputs.planner = Planner::kList;
          inputs.tokens_ahead = ahead;
          expect_right(inputs, planned(inputs), label(spec, inputs));
        }
      }
    }
  }
}

TEST(ContentionFree, GroupPlannersAreRightWithEveryPolicyAndRelaying) {
  for (const std::string& spec : networks()) {
    const Fabric fabric = network(spec);
    for (size_t place = 0; place < kPlanned.size(); ++place) {
      for (const Planner planner : {Planner::kThesis, Planner::kFixed}) {
        for (const uint64_t bytes : {100, 20'000}) {
          PlanInputs inputs = request_for(fabric, kPlanned[place], bytes);
          inputs.planner = planner;
          if (planner == Planner::kFixed && bytes == 100) continue;  // has no rule for small ones
          // Every policy is met often enough.
          inputs.policy = static_cast<Policy>((place + bytes % 7 + spec.size()) % kPolicies);
          Plan plan = planned(inputs);
          expect_right(inputs, plan, label(spec, inputs));
          inputs.relay = false;
          const Plan without = planned(inputs);
          expect_right(inputs, without, label(spec, inputs) + " without relaying");
          EXPECT_LE(plan.time_ns, without.time_ns) << label(spec, inputs);
        }
      }
    }
  }
}

TEST(ContentionFree, TheDefaultIsTheBestOfAll) {
  for (const std::string& spec : networks()) {
    const Fabric fabric = network(spec);
    PlanInputs inputs = request_for(fabric, Collective::kGather, 3'000);
    inputs.root = 1;
    const Plan best = planned(inputs);
    for (const Planner planner : {Planner::kThesis, Planner::kFixed, Planner::kList}) {
      inputs.planner = planner;
      EXPECT_LE(static_cast<double>(best.time_ns), 1.01 * planned(inputs).time_ns) << spec;
    }
  }
}

/// Table "What a reproduction showed" of the method, time over lower bound.
TEST(ContentionFree, TheThesisBehavesAsReproduced) {
  const auto ratio = [](const std::string& spec, Collective collective, Planner planner,
                        uint64_t bytes, bool relay) {
    const Fabric fabric = network(spec + kLan);
    PlanInputs inputs = request_for(fabric, collective, bytes);
    inputs.planner = planner;
    inputs.relay = relay;
    const Plan plan = planned(inputs);
    expect_right(inputs, plan, label(spec, inputs));
    return static_cast<double>(plan.time_ns) / static_cast<double>(plan.bound_ns);
  };
  const char* one = "single-switch:64";
  const char* two = "wan:32,32,long-latency=5ms";
  const Planner thesis = Planner::kThesis;
  EXPECT_NEAR(ratio(one, Collective::kGather, thesis, 1 << 10, false), 5.7, 0.2);
  EXPECT_NEAR(ratio(one, Collective::kGather, thesis, 20 << 10, false), 1.25, 0.02);
  EXPECT_NEAR(ratio(one, Collective::kGather, thesis, 100 << 10, false), 1.05, 0.01);
  EXPECT_LE(ratio(one, Collective::kGather, thesis, 20 << 10, true), 1.06);
  EXPECT_NEAR(ratio(two, Collective::kGather, thesis, 100 << 10, false), 7.3, 0.1);
  const double without = ratio(two, Collective::kGather, thesis, 300 << 10, false);
  EXPECT_NEAR(without, 3.1, 0.05);
  EXPECT_LE(ratio(two, Collective::kGather, thesis, 300 << 10, true), 0.6 * without);
  EXPECT_NEAR(ratio(one, Collective::kAlltoall, thesis, 100 << 10, false), 2.03, 0.01);
  EXPECT_NEAR(ratio(one, Collective::kAlltoall, Planner::kFixed, 100 << 10, false), 1.05, 0.01);
}

TEST(ContentionFree, MinSyncIsNoSlowerThanRandom) {
  double product = 1;
  for (const char* spec : {"single-switch:24", "tree:14x3,hosts=36", "wan:12,12,long-latency=5ms",
                           "random-tree:30,8,seed=4"}) {
    const Fabric fabric = network(spec + kLan);
    for (const Collective collective : {Collective::kGather, Collective::kAlltoall}) {
      for (const uint64_t bytes : {2 << 10, 20 << 10, 100 << 10}) {
        PlanInputs inputs = request_for(fabric, collective, bytes);
        inputs.planner = Planner::kThesis;
        inputs.relay = false;
        const double sync = static_cast<double>(planned(inputs).time_ns);
        inputs.policy = Policy::kRandom;
        product *= sync / static_cast<double>(planned(inputs).time_ns);
      }
    }
  }
  EXPECT_LE(product, 1.0);
}

double over_bound(const std::string& spec, Collective collective, uint64_t bytes) {
  const Fabric fabric = network(spec);
  const PlanInputs inputs = request_for(fabric, collective, bytes);
  const Plan plan = planned(inputs);
  expect_right(inputs, plan, label(spec, inputs));
  return static_cast<double>(plan.time_ns) / static_cast<double>(plan.bound_ns);
}

TEST(ContentionFree, GatherInOneClusterReachesTheBound) {
  for (const char* spec : {"single-switch:64", "tree:14x5,hosts=64", "fat-tree:4,3",
                           "tree:14x5,hosts=64,trunk-bandwidth=10Gbit/s"}) {
    for (const uint64_t bytes : {20 << 10, 100 << 10, 1 << 20}) {
      EXPECT_LE(over_bound(spec + kLan, Collective::kGather, bytes), 1.06) << spec << " " << bytes;
    }
  }
}

TEST(ContentionFree, AlltoallReachesTheBound) {
  for (const char* spec : {"single-switch:64", "tree:14x5,hosts=64", "fat-tree:4,3",
                           "tree:14x5,hosts=64,trunk-bandwidth=10Gbit/s"}) {
    for (const uint64_t bytes : {100 << 10, 1 << 20}) {
      EXPECT_LE(over_bound(spec + kLan, Collective::kAlltoall, bytes), 1.06)
          << spec << " " << bytes;
    }
  }
}

// Links between switches have to be kept at work while servers have short messages for each other.
TEST(ContentionFree, ShortAlltoallsComeNearTheBoundBehindTrunks) {
  const std::string trunks = kLan + ",trunk-bandwidth=10Gbit/s";
  for (const auto& [spec, most] :
       {std::pair("tree:14x3", 1.122), {"tree:14x5,hosts=64", 1.071}, {"tree:14x6", 1.051}}) {
    for (const uint64_t bytes : {5 << 10, 10 << 10}) {
      EXPECT_LE(over_bound(spec + trunks, Collective::kAlltoall, bytes), most)
          << spec << " " << bytes;
    }
  }
  EXPECT_LE(over_bound("twelve-clusters:2", Collective::kAlltoall, 1 << 20), 1.075);
}

// Tokens meet packets on their way, which no plan knows. Were each late by one, all would be.
TEST(ContentionFree, PacketsThatTokensMeetMakeNothingLate) {
  const std::string trunks = kLan + ",trunk-bandwidth=10Gbit/s";
  for (const std::string& spec :
       {"single-switch:24" + kLan, "tree:14x3" + trunks, "tree:14x5,hosts=64" + trunks}) {
    const Fabric fabric = network(spec);
    for (const uint64_t bytes : {5 << 10, 10 << 10, 100 << 10}) {
      const Plan plan = planned(request_for(fabric, Collective::kAlltoall, bytes));
      const auto times = sim::simulate_plan(fabric, {}, plan);
      ASSERT_TRUE(times.has_value());
      const double planned_us = static_cast<double>(plan.time_ns) * 1e-3;
      EXPECT_LE(times->time_us, 1.01 * planned_us) << spec << " " << bytes;
    }
  }
}

// On a network that is faster than it was planned for, no clock holds transfers back for long.
TEST(ContentionFree, ClocksDoNotHoldBackFasterNetworks) {
  const Fabric slow = network("single-switch:16,bandwidth=1Gbit/s,latency=10us");
  const Fabric fast = network("single-switch:16,bandwidth=2Gbit/s,latency=10us");
  const Plan plan = planned(request_for(slow, Collective::kAlltoall, 100 << 10));
  const auto times = sim::simulate_plan(fast, {}, plan);
  ASSERT_TRUE(times.has_value());
  EXPECT_LE(times->time_us, 0.57 * static_cast<double>(plan.time_ns) * 1e-3);
}

TEST(ContentionFree, TwoClustersReachTheBound) {
  for (const char* trunk : {"", ",trunk-bandwidth=10Gbit/s"}) {
    const std::string spec = "wan:32,32,long-latency=5ms" + kLan + trunk;
    for (const uint64_t bytes : {100 << 10, 300 << 10, 1 << 20}) {
      EXPECT_LE(over_bound(spec, Collective::kAlltoall, bytes), 1.08) << spec << " " << bytes;
      EXPECT_LE(over_bound(spec, Collective::kGather, bytes), 1.08) << spec << " " << bytes;
    }
  }
}

TEST(ContentionFree, TwelveClustersComeNearTheBound) {
  for (const int count : {2, 3, 5}) {
    const std::string spec = fmt::format("twelve-clusters:{}", count);
    EXPECT_LE(over_bound(spec, Collective::kAlltoall, 100 << 10), 1.15) << spec;
    EXPECT_LE(over_bound(spec, Collective::kGather, 100 << 10), 1.15) << spec;
  }
}

TEST(ContentionFree, TwelveClustersComeNearTheBoundFull) {
  for (int count = 1; count <= 12; ++count) {
    const std::string spec = fmt::format("twelve-clusters:{}", count);
    for (const uint64_t bytes : {100 << 10, 1 << 20}) {
      EXPECT_LE(over_bound(spec, Collective::kAlltoall, bytes), 1.15) << spec << " " << bytes;
      EXPECT_LE(over_bound(spec, Collective::kGather, bytes), 1.15) << spec << " " << bytes;
    }
  }
}

TEST(ContentionFree, BroadcastCrossesALinkOnceWhereItIsLarge) {
  for (const char* spec : {"single-switch:20", "tree:14x3,hosts=30", "random-tree:40,12,seed=2"}) {
    const Fabric fabric = network(spec + kLan);
    for (const Collective collective :
         {Collective::kBcast, Collective::kReduce, Collective::kAllgather}) {
      const Plan plan = planned(request_for(fabric, collective, 4 << 20));
      std::map<std::tuple<int, int, int>, int> times;
      for (const Transfer& t : plan.transfers) {
        fabric.visit_route(t.from, t.to, [&](int link) { ++times[{t.origin, t.target, link}]; });
      }
      for (const auto& [where, count] : times) {
        // In an allgather a server may send its data two ways.
        const topology::Link& link = fabric.link(std::get<2>(where));
        const bool own = collective == Collective::kAllgather && fabric.is_host(link.from);
        EXPECT_LE(count, own ? 2 : 1) << spec << to_string(collective);
      }
    }
  }
}

TEST(ContentionFree, SmallBroadcastTakesLogarithmicTime) {
  const Fabric fabric = network("single-switch:64" + kLan);
  const Plan plan = planned(request_for(fabric, Collective::kBcast, 64));
  EXPECT_LE(plan.time_ns, 6 * 21'000);
}

TEST(ContentionFree, RanksOfAServerCountAsOne) {
  const Fabric fabric = network("single-switch:4" + kLan);
  PlanInputs inputs = request_for(fabric, Collective::kAlltoall, 1000);
  inputs.server_ranks = {3, 1, 2, 4};
  const Plan plan = planned(inputs);
  expect_right(inputs, plan, "3,1,2,4");
  for (const Transfer& t : plan.transfers) {
    EXPECT_EQ(t.bytes, 1000u * inputs.server_ranks[t.from] * inputs.server_ranks[t.to]);
  }
}

TEST(ContentionFree, OnlyPermittedPairsAreUsed) {
  const Fabric fabric = network("wan:4,4,long-latency=5ms" + kLan);
  for (const Collective collective : kPlanned) {
    PlanInputs inputs = request_for(fabric, collective, 50'000);
    inputs.root = 6;
    // Only servers 0 and 4 may talk across; inside a cluster all may.
    inputs.permitted.emplace();
    for (int a = 0; a < 8; ++a) {
      for (int b = a + 1; b < 8; ++b) {
        if (a / 4 == b / 4 || (a == 0 && b == 4)) inputs.permitted->push_back({b, a});
      }
    }
    const Plan plan = planned(inputs);
    expect_right(inputs, plan, to_string(collective));
    for (const Transfer& t : plan.transfers) {
      EXPECT_TRUE(t.from / 4 == t.to / 4 || t.from + t.to == 4) << t.from << " " << t.to;
    }
    if (collective == Collective::kAlltoall) {
      EXPECT_GT(plan.relayed_bytes, 0u);
      EXPECT_GT(plan.relay_buffer_bytes, 0u);
    }
  }
}

TEST(ContentionFree, TheSameRequestGivesTheSamePlan) {
  const Fabric fabric = network("twelve-clusters:2");
  const PlanInputs inputs = request_for(fabric, Collective::kAlltoall, 30'000);
  const Plan a = planned(inputs), b = planned(inputs);
  ASSERT_EQ(a.transfers.size(), b.transfers.size());
  ASSERT_EQ(a.tokens.size(), b.tokens.size());
  for (size_t i = 0; i < a.transfers.size(); ++i) {
    EXPECT_EQ(std::tuple(a.transfers[i].from, a.transfers[i].to, a.transfers[i].start_ns),
              std::tuple(b.transfers[i].from, b.transfers[i].to, b.transfers[i].start_ns));
  }
}

TEST(ContentionFree, NothingToSendIsAnEmptyPlan) {
  const Fabric fabric = network("single-switch:4" + kLan);
  for (const Collective collective : kPlanned) {
    const PlanInputs inputs = request_for(fabric, collective, 0);
    const Plan plan = planned(inputs);
    EXPECT_TRUE(plan.transfers.empty());
    expect_right(inputs, plan, to_string(collective));
  }
  PlanInputs alone = request_for(fabric, Collective::kAlltoall, 100);
  alone.server_ranks = {5};
  EXPECT_TRUE(planned(alone).transfers.empty());
}

std::string refusal(const PlanInputs& inputs) {
  const auto plan = plan_transfers(inputs);
  if (plan) return "";
  EXPECT_EQ(plan.error().code, ErrorCode::kInvalidArgument);
  return plan.error().message;
}

TEST(ContentionFree, RefusesWhatCannotBePlanned) {
  const Fabric fabric = network("single-switch:4" + kLan);
  const PlanInputs good = request_for(fabric, Collective::kGather, 100);
  PlanInputs bad = good;
  bad.collective = Collective::kScan;
  EXPECT_THAT(refusal(bad), HasSubstr("no plans of scan: one of gather, scatter, alltoall"));
  bad = good;
  bad.server_ranks.assign(5, 1);
  EXPECT_THAT(refusal(bad), HasSubstr("server 4 is host 4: the network"));
  bad = good;
  bad.hosts = {0, 1, 1, 2};
  EXPECT_THAT(refusal(bad), HasSubstr("servers 1 and 2 are both host 1"));
  bad = good;
  bad.hosts = {0, 1};
  EXPECT_THAT(refusal(bad), HasSubstr("2 hosts for 4 servers"));
  bad = good;
  bad.root = 4;
  EXPECT_THAT(refusal(bad), HasSubstr("root 4: there are servers 0 to 3"));
  bad = good;
  bad.server_ranks[2] = 0;
  EXPECT_THAT(refusal(bad), HasSubstr("server 2 has 0 ranks"));
  bad = good;
  bad.message_bytes = {1, 2, 3};
  EXPECT_THAT(refusal(bad), HasSubstr("3 sizes of messages: gather of 4 servers takes 4"));
  bad = good;
  bad.permitted = {{0, 1}, {1, 2}};
  EXPECT_THAT(refusal(bad), HasSubstr("no way between servers 0 and 3"));
  bad = good;
  bad.permitted = {{0, 9}};
  EXPECT_THAT(refusal(bad), HasSubstr("permitted pair 0-9"));
  bad = good;
  bad.block_bytes = uint64_t{1} << 60;
  EXPECT_THAT(refusal(bad), HasSubstr("bytes a block: at most"));
}

// ---- simulation ----

TEST(ContentionFree, SimulationsAgreeWithPlansWhereAllHostsAreAlike) {
  for (const std::string& spec : networks()) {
    // Elsewhere senders that are faster than their routes fill buffers that others need.
    if (spec.rfind("random-tree", 0) == 0) continue;
    const Fabric fabric = network(spec);
    for (const Collective collective : kPlanned) {
      for (const Planner planner : {Planner::kList, Planner::kFixed}) {
        // Messages alike: of an allreduce they are slices.
        const int slices = collective == Collective::kAllreduce ? fabric.hosts() : 1;
        PlanInputs inputs = request_for(fabric, collective, uint64_t{50'000} * slices);
        inputs.planner = planner;
        const Plan plan = planned(inputs);
        const auto times = sim::simulate_plan(fabric, {}, plan);
        ASSERT_TRUE(times.has_value()) << times.error().message;
        EXPECT_NEAR(times->time_us, static_cast<double>(plan.time_ns) * 1e-3, 0.1 * times->time_us)
            << label(spec, inputs);
      }
    }
  }
}

TEST(ContentionFree, UnevenRatesFillAWideLink) {
  // Ten of 1 Gbit/s, a little more or less, on 10 Gbit/s: nearly ten at once.
  const Fabric fabric = network("wan:10,10,trunk-bandwidth=10Gbit/s" + kLan);
  const auto uneven = topology::distort(fabric, 0.04, 1);
  for (const bool ahead : {true, false}) {
    PlanInputs inputs = request_for(*uneven, Collective::kAlltoall, 100'000);
    inputs.planner = Planner::kList;
    inputs.tokens_ahead = ahead;
    const Plan plan = planned(inputs);
    expect_right(inputs, plan, "uneven");
    EXPECT_LE(static_cast<double>(plan.time_ns), 1.25 * static_cast<double>(plan.bound_ns));
  }
}

}  // namespace
}  // namespace ibcoll::contention_free
