/// Contention-free plans: what they reach, and that the checker passes them and nothing damaged.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "engine/planner/contention_free/cache.h"
#include "engine/planner/contention_free/check.h"
#include "engine/planner/contention_free/plan.h"
#include "engine/simulate/plan_run.h"
#include "tests/tool.h"
#include "topology/distort.h"
#include "topology/spec.h"

namespace ibcoll::contention_free {
namespace {

using ::testing::HasSubstr;
using topology::Fabric;

const std::string kLan = ",bandwidth=1Gbit/s,latency=10us";

Fabric network(const std::string& spec) {
  auto fabric = topology::open_fabric(spec);
  EXPECT_TRUE(fabric.has_value()) << spec;
  return *fabric;
}

/// The networks that plans are made for, small enough for many plans.
const std::vector<std::string>& networks() {
  static const std::vector<std::string> kNetworks = {
      "single-switch:12" + kLan,
      "tree:7x3,hosts=18" + kLan,
      "tree:7x3,hosts=18,trunk-bandwidth=3Gbit/s" + kLan,
      "fat-tree:4,2" + kLan,
      "fat-tree:2,4" + kLan,
      "wan:8,8,long-latency=5ms" + kLan,
      "wan:8,8,long-latency=5ms,trunk-bandwidth=10Gbit/s" + kLan,
      "wan:9,4,long-latency=5ms,trunk-bandwidth=3Gbit/s" + kLan,
      "wan:5,8,6,3,long-latency=5ms,trunk-bandwidth=1Gbit/s:10Gbit/s:2Gbit/s:3Gbit/s" + kLan,
      "random-tree:20,8,seed=3,trunk-bandwidth=300Mbit/s:1Gbit/s:10Gbit/s" + kLan,
      "random-tree:26,9,seed=5,trunk-bandwidth=1Gbit/s:2.5Gbit/s" + kLan,
  };
  return kNetworks;
}

const std::vector<Kind> kAllKinds = {Kind::kGather,    Kind::kScatter, Kind::kAlltoall,
                                     Kind::kAllgather, Kind::kBcast,   Kind::kReduce};

PlanRequest request_for(const Fabric& fabric, Kind kind, uint64_t bytes) {
  PlanRequest request;
  request.kind = kind;
  request.server_ranks.assign(fabric.hosts(), 1);
  request.block_bytes = bytes;
  request.fabric = &fabric;
  return request;
}

Plan planned(const PlanRequest& request) {
  auto plan = plan_transfers(request);
  EXPECT_TRUE(plan.has_value()) << (plan ? "" : plan.error().message);
  return plan ? *std::move(plan) : Plan{};
}

void expect_right(const PlanRequest& request, const Plan& plan, const std::string& what) {
  const Status right = check_plan(request, plan);
  EXPECT_TRUE(right.has_value()) << what << ": " << (right ? "" : right.error().message);
}

std::string label(const std::string& spec, const PlanRequest& request) {
  return fmt::format("{} {} {} {}", spec, to_string(request.kind), to_string(request.planner),
                     request.block_bytes);
}

TEST(ContentionFree, EveryKindOnEveryNetworkIsRight) {
  for (const std::string& spec : networks()) {
    const Fabric fabric = network(spec);
    for (const Kind kind : kAllKinds) {
      for (const uint64_t bytes : {100, 5'000, 100'000}) {
        for (const bool ahead : {true, false}) {
          PlanRequest request = request_for(fabric, kind, bytes);
          request.root = fabric.hosts() / 3;
          request.planner = Planner::kList;
          request.tokens_ahead = ahead;
          expect_right(request, planned(request), label(spec, request));
        }
      }
    }
  }
}

TEST(ContentionFree, GroupPlannersAreRightWithEveryPolicyAndRelaying) {
  for (const std::string& spec : networks()) {
    const Fabric fabric = network(spec);
    for (const Kind kind : kAllKinds) {
      for (const Planner planner : {Planner::kThesis, Planner::kFixed}) {
        for (const uint64_t bytes : {100, 20'000}) {
          PlanRequest request = request_for(fabric, kind, bytes);
          request.planner = planner;
          if (planner == Planner::kFixed && bytes == 100) continue;  // has no rule for small ones
          // Every policy is met often enough.
          request.policy = static_cast<Policy>(
              (static_cast<int>(kind) + static_cast<int>(bytes % 7) + spec.size()) % kPolicies);
          Plan plan = planned(request);
          expect_right(request, plan, label(spec, request));
          request.relay = false;
          const Plan without = planned(request);
          expect_right(request, without, label(spec, request) + " without relaying");
          EXPECT_LE(plan.time_ns, without.time_ns) << label(spec, request);
        }
      }
    }
  }
}

TEST(ContentionFree, TheDefaultIsTheBestOfAll) {
  for (const std::string& spec : networks()) {
    const Fabric fabric = network(spec);
    PlanRequest request = request_for(fabric, Kind::kGather, 3'000);
    request.root = 1;
    const Plan best = planned(request);
    for (const Planner planner : {Planner::kThesis, Planner::kFixed, Planner::kList}) {
      request.planner = planner;
      EXPECT_LE(static_cast<double>(best.time_ns), 1.01 * planned(request).time_ns) << spec;
    }
  }
}

/// Table "What a reproduction showed" of the method, time over lower bound.
TEST(ContentionFree, TheThesisBehavesAsReproduced) {
  const auto ratio = [](const std::string& spec, Kind kind, Planner planner, uint64_t bytes,
                        bool relay) {
    const Fabric fabric = network(spec + kLan);
    PlanRequest request = request_for(fabric, kind, bytes);
    request.planner = planner;
    request.relay = relay;
    const Plan plan = planned(request);
    expect_right(request, plan, label(spec, request));
    return static_cast<double>(plan.time_ns) / static_cast<double>(plan.bound_ns);
  };
  const char* one = "single-switch:64";
  const char* two = "wan:32,32,long-latency=5ms";
  const Planner thesis = Planner::kThesis;
  EXPECT_NEAR(ratio(one, Kind::kGather, thesis, 1 << 10, false), 5.7, 0.2);
  EXPECT_NEAR(ratio(one, Kind::kGather, thesis, 20 << 10, false), 1.25, 0.02);
  EXPECT_NEAR(ratio(one, Kind::kGather, thesis, 100 << 10, false), 1.05, 0.01);
  EXPECT_LE(ratio(one, Kind::kGather, thesis, 20 << 10, true), 1.06);
  EXPECT_NEAR(ratio(two, Kind::kGather, thesis, 100 << 10, false), 7.3, 0.1);
  const double without = ratio(two, Kind::kGather, thesis, 300 << 10, false);
  EXPECT_NEAR(without, 3.1, 0.05);
  EXPECT_LE(ratio(two, Kind::kGather, thesis, 300 << 10, true), 0.6 * without);
  EXPECT_NEAR(ratio(one, Kind::kAlltoall, thesis, 100 << 10, false), 2.03, 0.01);
  EXPECT_NEAR(ratio(one, Kind::kAlltoall, Planner::kFixed, 100 << 10, false), 1.05, 0.01);
}

TEST(ContentionFree, MinSyncIsNoSlowerThanRandom) {
  double product = 1;
  for (const char* spec : {"single-switch:24", "tree:14x3,hosts=36", "wan:12,12,long-latency=5ms",
                           "random-tree:30,8,seed=4"}) {
    const Fabric fabric = network(spec + kLan);
    for (const Kind kind : {Kind::kGather, Kind::kAlltoall}) {
      for (const uint64_t bytes : {2 << 10, 20 << 10, 100 << 10}) {
        PlanRequest request = request_for(fabric, kind, bytes);
        request.planner = Planner::kThesis;
        request.relay = false;
        const double sync = static_cast<double>(planned(request).time_ns);
        request.policy = Policy::kRandom;
        product *= sync / static_cast<double>(planned(request).time_ns);
      }
    }
  }
  EXPECT_LE(product, 1.0);
}

double over_bound(const std::string& spec, Kind kind, uint64_t bytes) {
  const Fabric fabric = network(spec);
  const PlanRequest request = request_for(fabric, kind, bytes);
  const Plan plan = planned(request);
  expect_right(request, plan, label(spec, request));
  return static_cast<double>(plan.time_ns) / static_cast<double>(plan.bound_ns);
}

TEST(ContentionFree, GatherInOneClusterReachesTheBound) {
  for (const char* spec : {"single-switch:64", "tree:14x5,hosts=64", "fat-tree:4,3",
                           "tree:14x5,hosts=64,trunk-bandwidth=10Gbit/s"}) {
    for (const uint64_t bytes : {20 << 10, 100 << 10, 1 << 20}) {
      EXPECT_LE(over_bound(spec + kLan, Kind::kGather, bytes), 1.06) << spec << " " << bytes;
    }
  }
}

TEST(ContentionFree, AlltoallReachesTheBound) {
  for (const char* spec : {"single-switch:64", "tree:14x5,hosts=64", "fat-tree:4,3",
                           "tree:14x5,hosts=64,trunk-bandwidth=10Gbit/s"}) {
    for (const uint64_t bytes : {100 << 10, 1 << 20}) {
      EXPECT_LE(over_bound(spec + kLan, Kind::kAlltoall, bytes), 1.06) << spec << " " << bytes;
    }
  }
}

TEST(ContentionFree, TwoClustersReachTheBound) {
  for (const char* trunk : {"", ",trunk-bandwidth=10Gbit/s"}) {
    const std::string spec = "wan:32,32,long-latency=5ms" + kLan + trunk;
    for (const uint64_t bytes : {100 << 10, 300 << 10, 1 << 20}) {
      EXPECT_LE(over_bound(spec, Kind::kAlltoall, bytes), 1.08) << spec << " " << bytes;
      EXPECT_LE(over_bound(spec, Kind::kGather, bytes), 1.08) << spec << " " << bytes;
    }
  }
}

TEST(ContentionFree, TwelveClustersComeNearTheBound) {
  for (const int count : {2, 3, 5}) {
    const std::string spec = fmt::format("twelve-clusters:{}", count);
    EXPECT_LE(over_bound(spec, Kind::kAlltoall, 100 << 10), 1.15) << spec;
    EXPECT_LE(over_bound(spec, Kind::kGather, 100 << 10), 1.15) << spec;
  }
}

TEST(ContentionFree, TwelveClustersComeNearTheBoundFull) {
  for (int count = 1; count <= 12; ++count) {
    const std::string spec = fmt::format("twelve-clusters:{}", count);
    for (const uint64_t bytes : {100 << 10, 1 << 20}) {
      EXPECT_LE(over_bound(spec, Kind::kAlltoall, bytes), 1.15) << spec << " " << bytes;
      EXPECT_LE(over_bound(spec, Kind::kGather, bytes), 1.15) << spec << " " << bytes;
    }
  }
}

TEST(ContentionFree, BroadcastCrossesALinkOnceWhereItIsLarge) {
  for (const char* spec : {"single-switch:20", "tree:14x3,hosts=30", "random-tree:40,12,seed=2"}) {
    const Fabric fabric = network(spec + kLan);
    for (const Kind kind : {Kind::kBcast, Kind::kReduce, Kind::kAllgather}) {
      const Plan plan = planned(request_for(fabric, kind, 4 << 20));
      std::map<std::tuple<int, int, int>, int> times;
      for (const Transfer& t : plan.transfers) {
        fabric.visit_route(t.from, t.to, [&](int link) { ++times[{t.origin, t.target, link}]; });
      }
      for (const auto& [where, count] : times) {
        // In an allgather a server may send its data two ways.
        const topology::Link& link = fabric.link(std::get<2>(where));
        const bool own = kind == Kind::kAllgather && fabric.is_host(link.from);
        EXPECT_LE(count, own ? 2 : 1) << spec << to_string(kind);
      }
    }
  }
}

TEST(ContentionFree, SmallBroadcastTakesLogarithmicTime) {
  const Fabric fabric = network("single-switch:64" + kLan);
  const Plan plan = planned(request_for(fabric, Kind::kBcast, 64));
  EXPECT_LE(plan.time_ns, 6 * 21'000);
}

TEST(ContentionFree, RanksOfAServerCountAsOne) {
  const Fabric fabric = network("single-switch:4" + kLan);
  PlanRequest request = request_for(fabric, Kind::kAlltoall, 1000);
  request.server_ranks = {3, 1, 2, 4};
  const Plan plan = planned(request);
  expect_right(request, plan, "3,1,2,4");
  for (const Transfer& t : plan.transfers) {
    EXPECT_EQ(t.bytes, 1000u * request.server_ranks[t.from] * request.server_ranks[t.to]);
  }
}

TEST(ContentionFree, OnlyPermittedPairsAreUsed) {
  const Fabric fabric = network("wan:4,4,long-latency=5ms" + kLan);
  for (const Kind kind : kAllKinds) {
    PlanRequest request = request_for(fabric, kind, 50'000);
    request.root = 6;
    // Only servers 0 and 4 may talk across; inside a cluster all may.
    request.permitted.emplace();
    for (int a = 0; a < 8; ++a) {
      for (int b = a + 1; b < 8; ++b) {
        if (a / 4 == b / 4 || (a == 0 && b == 4)) request.permitted->push_back({b, a});
      }
    }
    const Plan plan = planned(request);
    expect_right(request, plan, to_string(kind));
    for (const Transfer& t : plan.transfers) {
      EXPECT_TRUE(t.from / 4 == t.to / 4 || t.from + t.to == 4) << t.from << " " << t.to;
    }
    if (kind == Kind::kAlltoall) {
      EXPECT_GT(plan.relayed_bytes, 0u);
      EXPECT_GT(plan.relay_buffer_bytes, 0u);
    }
  }
}

TEST(ContentionFree, TheSameRequestGivesTheSamePlan) {
  const Fabric fabric = network("twelve-clusters:2");
  const PlanRequest request = request_for(fabric, Kind::kAlltoall, 30'000);
  const Plan a = planned(request), b = planned(request);
  ASSERT_EQ(a.transfers.size(), b.transfers.size());
  ASSERT_EQ(a.tokens.size(), b.tokens.size());
  for (size_t i = 0; i < a.transfers.size(); ++i) {
    EXPECT_EQ(std::tuple(a.transfers[i].from, a.transfers[i].to, a.transfers[i].start_ns),
              std::tuple(b.transfers[i].from, b.transfers[i].to, b.transfers[i].start_ns));
  }
}

TEST(ContentionFree, NothingToSendIsAnEmptyPlan) {
  const Fabric fabric = network("single-switch:4" + kLan);
  for (const Kind kind : kAllKinds) {
    const PlanRequest request = request_for(fabric, kind, 0);
    const Plan plan = planned(request);
    EXPECT_TRUE(plan.transfers.empty());
    expect_right(request, plan, to_string(kind));
  }
  PlanRequest alone = request_for(fabric, Kind::kAlltoall, 100);
  alone.server_ranks = {5};
  EXPECT_TRUE(planned(alone).transfers.empty());
}

std::string refusal(const PlanRequest& request) {
  const auto plan = plan_transfers(request);
  if (plan) return "";
  EXPECT_EQ(plan.error().code, ErrorCode::kInvalidArgument);
  return plan.error().message;
}

TEST(ContentionFree, RefusesWhatCannotBePlanned) {
  const Fabric fabric = network("single-switch:4" + kLan);
  const PlanRequest good = request_for(fabric, Kind::kGather, 100);
  PlanRequest bad = good;
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
    for (const Kind kind : kAllKinds) {
      for (const Planner planner : {Planner::kList, Planner::kFixed}) {
        PlanRequest request = request_for(fabric, kind, 50'000);
        request.planner = planner;
        const Plan plan = planned(request);
        const auto times = sim::simulate_plan(fabric, {}, plan);
        ASSERT_TRUE(times.has_value()) << times.error().message;
        EXPECT_NEAR(times->time_us, static_cast<double>(plan.time_ns) * 1e-3, 0.1 * times->time_us)
            << label(spec, request);
      }
    }
  }
}

TEST(ContentionFree, UnevenRatesFillAWideLink) {
  // Ten of 1 Gbit/s, a little more or less, on 10 Gbit/s: nearly ten at once.
  const Fabric fabric = network("wan:10,10,trunk-bandwidth=10Gbit/s" + kLan);
  const auto uneven = topology::distort(fabric, 0.04, 1);
  for (const bool ahead : {true, false}) {
    PlanRequest request = request_for(*uneven, Kind::kAlltoall, 100'000);
    request.planner = Planner::kList;
    request.tokens_ahead = ahead;
    const Plan plan = planned(request);
    expect_right(request, plan, "uneven");
    EXPECT_LE(static_cast<double>(plan.time_ns), 1.25 * static_cast<double>(plan.bound_ns));
  }
}

// ---- files and the cache ----

TEST(ContentionFreeCache, GivesTheSamePlanAgainAndKeepsItInAFile) {
  const Fabric fabric = network("wan:4,4,long-latency=5ms" + kLan);
  PlanCache cache(request_for(fabric, Kind::kGather, 0));
  const auto first = cache.get(Kind::kAlltoall, 0, uint64_t{100'000}).value();
  EXPECT_EQ(cache.get(Kind::kAlltoall, 0, uint64_t{99'000}).value(), first) << "of one class";
  EXPECT_NE(cache.get(Kind::kAlltoall, 0, uint64_t{200'000}).value(), first);
  EXPECT_NE(cache.get(Kind::kGather, 0, uint64_t{100'000}).value(), first);
  std::vector<uint64_t> sizes = {0, 5, 100, 7'000, 20'000, 1, 2, 3};
  const auto varied = cache.get(Kind::kGather, 0, sizes).value();
  EXPECT_EQ(cache.get(Kind::kGather, 0, sizes).value(), varied);
  sizes[3] = 7'001;
  EXPECT_NE(cache.get(Kind::kGather, 0, sizes).value(), varied);
  EXPECT_EQ(cache.size(), 5u);

  const std::string path = testing_tools::folder() / "plans";
  ASSERT_TRUE(cache.save(path).has_value());
  PlanCache again(request_for(fabric, Kind::kGather, 0));
  ASSERT_TRUE(again.load(path).has_value());
  EXPECT_EQ(again.size(), 5u);
  EXPECT_EQ(again.get(Kind::kAlltoall, 0, uint64_t{100'000}).value()->time_ns, first->time_ns);
  EXPECT_EQ(again.size(), 5u);
}

TEST(ContentionFreeCache, RefusesFilesThatAreNotItsOwn) {
  const Fabric fabric = network("single-switch:5" + kLan);
  PlanCache cache(request_for(fabric, Kind::kGather, 0));
  ASSERT_TRUE(cache.get(Kind::kGather, 0, uint64_t{1000}).has_value());
  const std::string path = testing_tools::folder() / "plans";
  ASSERT_TRUE(cache.save(path).has_value());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string good = text.str();
  const auto refused = [&](const std::string& content, PlanCache& by) {
    const Status status = by.load(testing_tools::file("changed", content));
    return status ? "" : status.error().message;
  };
  const auto with = [&](const std::string& what, const std::string& by) {
    std::string changed = good;
    const size_t at = changed.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return changed.replace(at, what.size(), by);
  };
  EXPECT_THAT(refused(with("\"version\":1", "\"version\":2"), cache), HasSubstr("1: version 2"));
  EXPECT_THAT(refused(with("ibcoll plans", "recipes"), cache), HasSubstr("not a file of plans"));
  EXPECT_THAT(refused(with("\"time_ns\":", "\"time_ns\":1"), cache), HasSubstr("2: "));
  EXPECT_THAT(refused(with("[1,0,1,0,", "[1,9,1,0,"), cache), HasSubstr("not a plan: transfer"));
  EXPECT_THAT(refused(good.substr(0, good.size() / 2), cache), HasSubstr("2: not a JSON object"));
  EXPECT_THAT(refused(good.substr(0, good.find('\n') + 1), cache), HasSubstr("cut short"));
  EXPECT_THAT(refused("", cache), HasSubstr("empty"));
  const Fabric other = network("single-switch:5,bandwidth=2Gbit/s");
  PlanCache others(request_for(other, Kind::kGather, 0));
  EXPECT_THAT(refused(good, others), HasSubstr("another network"));
}

TEST(ContentionFreeCache, SurvivesFilesThatAreDamagedAnywhere) {
  const Fabric fabric = network("single-switch:5" + kLan);
  PlanCache cache(request_for(fabric, Kind::kGather, 0));
  ASSERT_TRUE(cache.get(Kind::kAlltoall, 0, uint64_t{1000}).has_value());
  const std::string path = testing_tools::folder() / "plans";
  ASSERT_TRUE(cache.save(path).has_value());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string good = text.str();
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    PlanCache cut(request_for(fabric, Kind::kGather, 0));
    const std::string part = good.substr(0, random() % (good.size() - 1));
    EXPECT_FALSE(cut.load(testing_tools::file("cut", part)).has_value()) << part.size();
    EXPECT_EQ(cut.size(), 0u);
    // A changed byte may make no difference (a policy's name): what is loaded is right all the
    // same.
    PlanCache flipped(request_for(fabric, Kind::kGather, 0));
    std::string changed = good;
    changed[random() % good.size()] = static_cast<char>(32 + random() % 90);
    const Status status = flipped.load(testing_tools::file("flipped", changed));
    EXPECT_EQ(flipped.size(), status ? 1u : 0u);
  }
}

TEST(ContentionFreeCache, SizeClassesRoundUpByAQuarterAtMost) {
  for (uint64_t bytes = 1; bytes < 100'000; bytes += 7) {
    const uint64_t up = PlanCache::size_class(bytes);
    EXPECT_GE(up, bytes);
    EXPECT_LE(up, bytes + bytes / 4);
    EXPECT_EQ(PlanCache::size_class(up), up);
  }
}

// ---- the checker ----

struct Damage {
  const char* name;
  std::function<void(Plan&, uint32_t)> apply;
};

/// What must not pass, whichever transfer it hits.
const std::vector<Damage>& damages() {
  static const std::vector<Damage> kDamages = {
      {"dropped",
       [](Plan& plan, uint32_t i) {
         // Names of later ones move down; tokens that name it go with it.
         plan.transfers.erase(plan.transfers.begin() + i);
         const auto down = [&](uint32_t& index) {
           if (index != Transfer::kNone && index > i) --index;
         };
         for (Transfer& t : plan.transfers) {
           if (t.forwards == i) t.forwards = Transfer::kNone;
           down(t.forwards);
         }
         plan.tokens.erase(std::remove_if(plan.tokens.begin(), plan.tokens.end(),
                                          [&](const Token& t) {
                                            return t.after == i || t.before == i || t.anchor == i;
                                          }),
                           plan.tokens.end());
         for (Token& t : plan.tokens) {
           down(t.after);
           down(t.before);
           down(t.anchor);
         }
       }},
      {"doubled",
       [](Plan& plan, uint32_t i) {
         Transfer twice = plan.transfers[i];
         twice.start_ns = std::max(plan.transfers.back().start_ns, twice.start_ns) + 1;
         twice.end_ns += twice.start_ns - plan.transfers[i].start_ns;
         plan.transfers.push_back(twice);
         plan.time_ns = std::max(plan.time_ns, twice.end_ns);
       }},
      {"later",
       [](Plan& plan, uint32_t i) {
         plan.transfers[i].start_ns += 5'000;
         plan.transfers[i].end_ns += 5'000;
       }},
      {"earlier",
       [](Plan& plan, uint32_t i) {
         plan.transfers[i].start_ns -= 5'000;
         plan.transfers[i].end_ns -= 5'000;
       }},
      {"too fast",
       [](Plan& plan, uint32_t i) {
         Transfer& t = plan.transfers[i];
         const double ns = static_cast<double>(t.bytes) / t.rate * 1e9;
         t.rate *= 1.5;
         t.end_ns -= static_cast<int64_t>(ns / 3);
       }},
      {"faster than its rate", [](Plan& plan, uint32_t i) { plan.transfers[i].end_ns -= 1'000; }},
      {"truncated",
       [](Plan& plan, uint32_t i) {
         Transfer& t = plan.transfers[i];
         t.bytes -= 1;
       }},
      {"astray",
       [](Plan& plan, uint32_t i) {
         Transfer& t = plan.transfers[i];
         do t.to = (t.to + 1) % plan.servers;
         while (t.to == t.from);
       }},
  };
  return kDamages;
}

void expect_rejected(const PlanRequest& request, const Plan& plan, const Damage& damage, uint32_t i,
                     const std::string& what) {
  Plan damaged = plan;
  damage.apply(damaged, i);
  EXPECT_FALSE(check_plan(request, damaged).has_value())
      << what << ": " << damage.name << " transfer " << i;
}

TEST(ContentionFreeChecker, RejectsDamagedPlansOfEveryPlanner) {
  std::mt19937 random(7);
  for (const std::string& spec : networks()) {
    const Fabric fabric = network(spec);
    for (const Kind kind : kAllKinds) {
      for (const Planner planner : {Planner::kList, Planner::kFixed, Planner::kThesis}) {
        for (const bool ahead : {true, false}) {
          PlanRequest request = request_for(fabric, kind, 20'000);
          request.planner = planner;
          request.tokens_ahead = ahead;
          request.policy = static_cast<Policy>(random() % kPolicies);
          if (!ahead && planner != Planner::kList) continue;  // the same
          const Plan plan = planned(request);
          for (const Damage& damage : damages()) {
            if (kind == Kind::kReduce && damage.name == std::string("astray")) continue;  // may do
            for (int seed = 0; seed < 3; ++seed) {
              const auto i = static_cast<uint32_t>(random() % plan.transfers.size());
              expect_rejected(request, plan, damage, i, label(spec, request));
            }
          }
        }
      }
    }
  }
}

TEST(ContentionFreeChecker, RejectsPlansWithoutATokenThatIsNeeded) {
  // On one switch every token keeps two transfers apart that nothing else does.
  const Fabric fabric = network("single-switch:6" + kLan);
  for (const bool ahead : {true, false}) {
    PlanRequest request = request_for(fabric, Kind::kGather, 20'000);
    request.tokens_ahead = ahead;
    request.planner = Planner::kList;
    const Plan plan = planned(request);
    ASSERT_FALSE(plan.tokens.empty());
    for (size_t i = 0; i < plan.tokens.size(); ++i) {
      Plan damaged = plan;
      damaged.tokens.erase(damaged.tokens.begin() + static_cast<ptrdiff_t>(i));
      EXPECT_FALSE(check_plan(request, damaged).has_value()) << i;
    }
  }
}

TEST(ContentionFreeChecker, FindsTwoAtOnceOnALinkEvenWhereTimesAgree) {
  // Both start at once and nothing says otherwise: their times are right, the link is not.
  const Fabric fabric = network("single-switch:3" + kLan);
  const PlanRequest request = request_for(fabric, Kind::kGather, 20'000);
  for (const bool ahead : {true, false}) {
    Plan plan;
    plan.kind = Kind::kGather;
    plan.servers = 3;
    plan.piece_bytes = 1;
    plan.tokens_ahead = ahead;
    for (const int from : {1, 2}) {
      plan.transfers.push_back({from, 0, from, 0, 20'000, 0, 180'000, 125e6, Transfer::kNone});
    }
    plan.time_ns = 180'000;
    const Status status = check_plan(request, plan);
    ASSERT_FALSE(status.has_value());
    EXPECT_THAT(status.error().message,
                HasSubstr(ahead ? "carries 250000000 B/s of 125000000" : "no tokens order"));
  }
}

TEST(ContentionFreeChecker, FindsWaitsInACircle) {
  const Fabric fabric = network("single-switch:6" + kLan);
  PlanRequest request = request_for(fabric, Kind::kGather, 20'000);
  request.tokens_ahead = false;
  request.planner = Planner::kList;
  Plan plan = planned(request);
  const auto last = static_cast<uint32_t>(plan.transfers.size() - 1);
  plan.tokens.insert(plan.tokens.begin(), Token{last, 0, last, false, 0, 0});
  const Status status = check_plan(request, plan);
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, HasSubstr("waits in a circle"));
}

TEST(ContentionFreeChecker, FindsRelayBuffersThatAreTooSmall) {
  const Fabric fabric = network("single-switch:6" + kLan);
  PlanRequest request = request_for(fabric, Kind::kGather, 20'000);
  request.permitted = {{0, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}};
  Plan plan = planned(request);
  ASSERT_GT(plan.relay_buffer_bytes, 0u);
  plan.relay_buffer_bytes -= 1;
  const Status status = check_plan(request, plan);
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, HasSubstr("server 1 relays"));
}

/// Random trees, sizes, kinds and servers.
void random_case(uint32_t seed, int most_hosts) {
  std::mt19937 random(seed);
  const int hosts = 2 + static_cast<int>(random() % (most_hosts - 1));
  const Fabric fabric = network(
      fmt::format("random-tree:{},{},seed={},trunk-bandwidth=100Mbit/s:1Gbit/s:3Gbit/s:10Gbit/s{}",
                  hosts, 1 + random() % std::max(1, hosts / 3), random() % 1000, kLan));
  PlanRequest request = request_for(fabric, kAllKinds[random() % kAllKinds.size()], 0);
  request.root = static_cast<int>(random() % hosts);
  request.tokens_ahead = random() % 2 != 0;
  request.planner = static_cast<Planner>(random() % kPlanners);
  if (hosts > 60) {  // the proof by order alone takes long
    request.planner = Planner::kList;
    request.tokens_ahead = true;
  }
  request.policy = static_cast<Policy>(random() % kPolicies);
  request.relay = random() % 2 != 0;
  request.block_bytes = random() % 200'000;
  size_t sizes = 0;
  if (request.kind == Kind::kAlltoall) sizes = static_cast<size_t>(hosts) * hosts;
  if (request.kind == Kind::kGather || request.kind == Kind::kScatter ||
      request.kind == Kind::kAllgather) {
    sizes = hosts;
  }
  for (size_t i = 0; i < sizes; ++i) {
    request.message_bytes.push_back(random() % 5 == 0 ? 0 : random() % (1 << (random() % 22)));
  }
  const Plan plan = planned(request);
  expect_right(request, plan, fmt::format("seed {}", seed));
  if (plan.transfers.empty()) return;
  const Damage& damage = damages()[random() % damages().size()];
  const auto i = static_cast<uint32_t>(random() % plan.transfers.size());
  if (plan.transfers[i].bytes < 2) return;
  if (request.kind == Kind::kReduce && damage.name == std::string("astray")) return;
  expect_rejected(request, plan, damage, i, fmt::format("seed {}", seed));
}

TEST(ContentionFreeChecker, RandomTreesAndSizes) {
  for (uint32_t seed = 0; seed < 60; ++seed) random_case(seed, 40);
}

TEST(ContentionFreeChecker, RandomTreesAndSizesFull) {
  for (uint32_t seed = 1000; seed < 1030; ++seed) random_case(seed, 200);
}

}  // namespace
}  // namespace ibcoll::contention_free
