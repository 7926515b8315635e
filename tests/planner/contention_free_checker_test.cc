/// The checker of contention-free plans passes none that is damaged, nor do files of plans.

#include <algorithm>
#include <functional>
#include <random>

#include "engine/planner/contention_free/cache.h"
#include "tests/files.h"
#include "tests/planner/contention_free_networks.h"
#include "tests/tool.h"

namespace ibcoll::contention_free {
namespace {

using ::testing::HasSubstr;

// ---- files and the cache ----

TEST(ContentionFreeCache, GivesTheSamePlanAgainAndKeepsItInAFile) {
  const Fabric fabric = network("wan:4,4,long-latency=5ms" + kLan);
  PlanCache cache(request_for(fabric, Collective::kGather, 0));
  const auto first = cache.get(Collective::kAlltoall, 0, uint64_t{100'000}).value();
  EXPECT_EQ(cache.get(Collective::kAlltoall, 0, uint64_t{99'000}).value(), first) << "of one class";
  EXPECT_NE(cache.get(Collective::kAlltoall, 0, uint64_t{200'000}).value(), first);
  EXPECT_NE(cache.get(Collective::kGather, 0, uint64_t{100'000}).value(), first);
  std::vector<uint64_t> sizes = {0, 5, 100, 7'000, 20'000, 1, 2, 3};
  const auto varied = cache.get(Collective::kGather, 0, sizes).value();
  EXPECT_EQ(cache.get(Collective::kGather, 0, sizes).value(), varied);
  sizes[3] = 7'001;
  EXPECT_NE(cache.get(Collective::kGather, 0, sizes).value(), varied);
  EXPECT_EQ(cache.size(), 5u);

  const std::string path = testing_tools::folder() / "plans";
  ASSERT_TRUE(cache.save(path).has_value());
  PlanCache again(request_for(fabric, Collective::kGather, 0));
  ASSERT_TRUE(again.load(path).has_value());
  EXPECT_EQ(again.size(), 5u);
  EXPECT_EQ(again.get(Collective::kAlltoall, 0, uint64_t{100'000}).value()->time_ns,
            first->time_ns);
  EXPECT_EQ(again.size(), 5u);
}

TEST(ContentionFreeCache, RefusesFilesThatAreNotItsOwn) {
  const Fabric fabric = network("single-switch:5" + kLan);
  PlanCache cache(request_for(fabric, Collective::kGather, 0));
  ASSERT_TRUE(cache.get(Collective::kGather, 0, uint64_t{1000}).has_value());
  const std::string path = testing_tools::folder() / "plans";
  ASSERT_TRUE(cache.save(path).has_value());
  const std::string good = testing_tools::content_of(path);
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
  EXPECT_THAT(refused(with("\"version\":6", "\"version\":1"), cache),
              HasSubstr("1: version 1: this reads 6"));
  EXPECT_THAT(refused(with("ibcoll plans", "recipes"), cache), HasSubstr("not a file of plans"));
  EXPECT_THAT(refused(with("\"time_ns\":", "\"time_ns\":1"), cache), HasSubstr("2: "));
  EXPECT_THAT(refused(with("[1,0,1,0,", "[1,9,1,0,"), cache), HasSubstr("not a plan: transfer"));
  EXPECT_THAT(refused(good.substr(0, good.size() / 2), cache), HasSubstr("2: not a JSON object"));
  EXPECT_THAT(refused(good.substr(0, good.find('\n') + 1), cache), HasSubstr("cut short"));
  EXPECT_THAT(refused("", cache), HasSubstr("empty"));
  const Fabric other = network("single-switch:5,bandwidth=2Gbit/s");
  PlanCache others(request_for(other, Collective::kGather, 0));
  EXPECT_THAT(refused(good, others), HasSubstr("another network"));
}

TEST(ContentionFreeCache, SurvivesFilesThatAreDamagedAnywhere) {
  const Fabric fabric = network("single-switch:5" + kLan);
  PlanCache cache(request_for(fabric, Collective::kGather, 0));
  ASSERT_TRUE(cache.get(Collective::kAlltoall, 0, uint64_t{1000}).has_value());
  const std::string path = testing_tools::folder() / "plans";
  ASSERT_TRUE(cache.save(path).has_value());
  const std::string good = testing_tools::content_of(path);
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    PlanCache cut(request_for(fabric, Collective::kGather, 0));
    const std::string part = good.substr(0, random() % (good.size() - 1));
    EXPECT_FALSE(cut.load(testing_tools::file("cut", part)).has_value()) << part.size();
    EXPECT_EQ(cut.size(), 0u);
    // A changed byte may make no difference (a policy's name): what is loaded is right all the
    // same.
    PlanCache flipped(request_for(fabric, Collective::kGather, 0));
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
         t.rate *= 10;  // faster than any host's link, also of what has come over a slow one
         t.end_ns -= static_cast<int64_t>(ns * 9 / 10);
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

void expect_rejected(const PlanInputs& inputs, const Plan& plan, const Damage& damage, uint32_t i,
                     const std::string& what) {
  Plan damaged = plan;
  damage.apply(damaged, i);
  EXPECT_FALSE(check_plan(inputs, damaged).has_value())
      << what << ": " << damage.name << " transfer " << i;
}

TEST(ContentionFreeChecker, RejectsDamagedPlansOfEveryPlanner) {
  std::mt19937 random(7);
  for (const std::string& spec : networks()) {
    const Fabric fabric = network(spec);
    for (const Collective collective : kPlanned) {
      for (const Planner planner : {Planner::kList, Planner::kFixed, Planner::kThesis}) {
        for (const bool ahead : {true, false}) {
          PlanInputs inputs = request_for(fabric, collective, 20'000);
          inputs.planner = planner;
          inputs.tokens_ahead = ahead;
          inputs.policy = static_cast<Policy>(random() % kPolicies);
          if (!ahead && planner != Planner::kList) continue;  // the same
          const Plan plan = planned(inputs);
          for (const Damage& damage : damages()) {
            if (reduces(collective) && damage.name == std::string("astray")) continue;  // may do
            for (int seed = 0; seed < 3; ++seed) {
              const auto i = static_cast<uint32_t>(random() % plan.transfers.size());
              expect_rejected(inputs, plan, damage, i, label(spec, inputs));
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
    PlanInputs inputs = request_for(fabric, Collective::kGather, 20'000);
    inputs.tokens_ahead = ahead;
    inputs.planner = Planner::kList;
    const Plan plan = planned(inputs);
    ASSERT_FALSE(plan.tokens.empty());
    for (size_t i = 0; i < plan.tokens.size(); ++i) {
      Plan damaged = plan;
      damaged.tokens.erase(damaged.tokens.begin() + static_cast<ptrdiff_t>(i));
      EXPECT_FALSE(check_plan(inputs, damaged).has_value()) << i;
    }
  }
}

TEST(ContentionFreeChecker, FindsTwoAtOnceOnALinkEvenWhereTimesAgree) {
  // Both start at once and nothing says otherwise: their times are right, the link is not.
  const Fabric fabric = network("single-switch:3" + kLan);
  const PlanInputs inputs = request_for(fabric, Collective::kGather, 20'000);
  for (const bool ahead : {true, false}) {
    Plan plan;
    plan.collective = Collective::kGather;
    plan.servers = 3;
    plan.piece_bytes = 1;
    plan.tokens_ahead = ahead;
    for (const int from : {1, 2}) {
      plan.transfers.push_back({from, 0, from, 0, 20'000, 0, 180'000, 125e6, Transfer::kNone});
    }
    plan.time_ns = 180'000;
    const Status status = check_plan(inputs, plan);
    ASSERT_FALSE(status.has_value());
    EXPECT_THAT(status.error().message,
                HasSubstr(ahead ? "carries 250000000 B/s of 125000000" : "no tokens order"));
  }
}

TEST(ContentionFreeChecker, FindsWaitsInACycle) {
  const Fabric fabric = network("single-switch:6" + kLan);
  PlanInputs inputs = request_for(fabric, Collective::kGather, 20'000);
  inputs.tokens_ahead = false;
  inputs.planner = Planner::kList;
  Plan plan = planned(inputs);
  const auto last = static_cast<uint32_t>(plan.transfers.size() - 1);
  plan.tokens.insert(plan.tokens.begin(), Token{last, 0, last, false, 0, 0});
  const Status status = check_plan(inputs, plan);
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, HasSubstr("waits in a cycle"));
}

TEST(ContentionFreeChecker, FindsRelayBuffersThatAreTooSmall) {
  const Fabric fabric = network("single-switch:6" + kLan);
  PlanInputs inputs = request_for(fabric, Collective::kGather, 20'000);
  inputs.permitted = {{0, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}};
  Plan plan = planned(inputs);
  ASSERT_GT(plan.relay_buffer_bytes, 0u);
  plan.relay_buffer_bytes -= 1;
  const Status status = check_plan(inputs, plan);
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, HasSubstr("server 1 relays"));
}

/// Random trees, sizes, collectives and servers.
void random_case(uint32_t seed, int most_hosts) {
  std::mt19937 random(seed);
  const int hosts = 2 + static_cast<int>(random() % (most_hosts - 1));
  const Fabric fabric = network(
      fmt::format("random-tree:{},{},seed={},trunk-bandwidth=100Mbit/s:1Gbit/s:3Gbit/s:10Gbit/s{}",
                  hosts, 1 + random() % std::max(1, hosts / 3), random() % 1000, kLan));
  PlanInputs inputs = request_for(fabric, kPlanned[random() % kPlanned.size()], 0);
  inputs.root = static_cast<int>(random() % hosts);
  inputs.tokens_ahead = random() % 2 != 0;
  inputs.planner = static_cast<Planner>(random() % kPlanners);
  if (hosts > 60) {  // the proof by order alone takes long
    inputs.planner = Planner::kList;
    inputs.tokens_ahead = true;
  }
  inputs.policy = static_cast<Policy>(random() % kPolicies);
  inputs.relay = random() % 2 != 0;
  inputs.block_bytes = random() % 200'000;
  const size_t sizes = sizes_of(inputs.collective, static_cast<size_t>(hosts));
  for (size_t i = 0; i < sizes; ++i) {
    inputs.message_bytes.push_back(random() % 5 == 0 ? 0 : random() % (1 << (random() % 22)));
  }
  const Plan plan = planned(inputs);
  expect_right(inputs, plan, fmt::format("seed {}", seed));
  if (plan.transfers.empty()) return;
  const Damage& damage = damages()[random() % damages().size()];
  const auto i = static_cast<uint32_t>(random() % plan.transfers.size());
  if (plan.transfers[i].bytes < 2) return;
  if (reduces(inputs.collective) && damage.name == std::string("astray")) return;
  expect_rejected(inputs, plan, damage, i, fmt::format("seed {}", seed));
}

TEST(ContentionFreeChecker, RandomTreesAndSizes) {
  for (uint32_t seed = 0; seed < 60; ++seed) random_case(seed, 40);
}

TEST(ContentionFreeChecker, RandomTreesAndSizesFull) {
  for (uint32_t seed = 1000; seed < 1030; ++seed) random_case(seed, 200);
}

}  // namespace
}  // namespace ibcoll::contention_free
