/// Fabrics whose figures are wrong: what is believed of them, and what plans made for them cost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "studies/simulate/plan_run.h"
#include "studies/simulate/plan_study.h"
#include "tests/planner/contention_free_networks.h"
#include "topology/distort.h"

namespace ibcoll::contention_free {
namespace {

constexpr uint64_t kBlockBytes = 100 << 10;

/// Bandwidths by kind of cable: of hosts or not.
std::map<bool, std::set<double>> bandwidths(const Fabric& fabric) {
  std::map<bool, std::set<double>> found;
  for (int l = 0; l < fabric.links(); ++l) {
    const topology::Link& link = fabric.link(l);
    found[fabric.is_host(link.from) || fabric.is_host(link.to)].insert(link.bandwidth);
  }
  return found;
}

void expect_same_figures(const Fabric& a, const Fabric& b, const std::string& what) {
  ASSERT_EQ(a.links(), b.links());
  for (int l = 0; l < a.links(); ++l) {
    EXPECT_EQ(a.link(l).bandwidth, b.link(l).bandwidth) << what;
    EXPECT_EQ(a.link(l).latency_ns, b.link(l).latency_ns) << what;
  }
}

TEST(WrongFigures, AreWithinWhatIsSaidAndTheSameForASeed) {
  const Fabric fabric = network("fat-tree:4,2" + kLan);
  const Fabric wrong = *topology::distort(fabric, 0.3, 7);
  for (int l = 0; l < fabric.links(); ++l) {
    EXPECT_NEAR(wrong.link(l).bandwidth, fabric.link(l).bandwidth, 0.3 * fabric.link(l).bandwidth);
    EXPECT_NEAR(static_cast<double>(wrong.link(l).latency_ns), 10'000, 3'001);
    EXPECT_EQ(wrong.link(l).bandwidth, wrong.link(Fabric::reverse(l)).bandwidth);
  }
  expect_same_figures(wrong, *topology::distort(fabric, 0.3, 7), "again");
  EXPECT_GT(bandwidths(wrong)[true].size(), 10u);
  EXPECT_FALSE(topology::distort(fabric, 1, 7).has_value());
}

TEST(WrongFigures, LinksThatMayBeAlikeAreMerged) {
  const Fabric fabric = network("tree:7x3,hosts=20,trunk-bandwidth=3Gbit/s" + kLan);
  const Fabric merged = *topology::merge_alike(*topology::distort(fabric, 0.2, 5), 0.2);
  for (int l = 0; l < merged.links(); ++l) {
    EXPECT_NEAR(merged.link(l).bandwidth, fabric.link(l).bandwidth, 0.2 * fabric.link(l).bandwidth);
  }
  EXPECT_EQ(bandwidths(merged)[true].size(), 1u);
  EXPECT_EQ(bandwidths(merged)[false].size(), 1u);
  EXPECT_FALSE(topology::merge_alike(fabric, 1).has_value());
}

TEST(WrongFigures, ASingleTrunkIsTakenForWider) {
  const Fabric fabric = network("wan:8,8,trunk-bandwidth=10Gbit/s" + kLan);
  const Fabric merged = *topology::merge_alike(fabric, 0.3);
  EXPECT_NEAR(*bandwidths(merged)[false].begin(), 1.2 * 1.25e9, 1);
  EXPECT_NEAR(*bandwidths(merged)[true].begin(), 1.25e8, 1);
}

TEST(WrongFigures, WhatCablesWereBuiltForIsBelieved) {
  for (const std::string& spec :
       {"single-switch:12" + kLan,
        "wan:5,8,6,3,trunk-bandwidth=1Gbit/s:10Gbit/s:2Gbit/s:3Gbit/s" + kLan,
        "random-tree:26,9,seed=5,trunk-bandwidth=1Gbit/s:2.5Gbit/s" + kLan,
        std::string("twelve-clusters:12")}) {
    const Fabric fabric = network(spec);
    expect_same_figures(*topology::believe(fabric, std::nullopt), fabric, spec);
  }
  // A few figures may well all differ.
  const Fabric few = *topology::distort(network("single-switch:5" + kLan), 0.3, 1);
  expect_same_figures(*topology::believe(few, std::nullopt), few, "few");
}

TEST(WrongFigures, MeasuredOnesAreMergedUnlessToldOtherwise) {
  const Fabric measured = *topology::distort(network("tree:7x3,hosts=20" + kLan), 0.25, 3);
  const Fabric believed = *topology::believe(measured, std::nullopt);
  EXPECT_EQ(bandwidths(believed)[true].size(), 1u);
  EXPECT_EQ(bandwidths(believed)[false].size(), 1u);
  expect_same_figures(*topology::believe(measured, 0.0), measured, "told that they are right");
  expect_same_figures(*topology::believe(measured, 0.25), *topology::merge_alike(measured, 0.25),
                      "told how wrong they are");
}

TEST(WrongFigures, HowWrongIsReadFromText) {
  EXPECT_EQ(topology::parse_error("auto", "--error").value(), std::nullopt);
  EXPECT_EQ(topology::parse_error("0.25", "--error").value(), 0.25);
  for (const char* text : {"", "1", "-0.1", "0.3x", "much", "nan"}) {
    const auto error = topology::parse_error(text, "--error");
    ASSERT_FALSE(error.has_value()) << text;
    EXPECT_THAT(error.error().message, ::testing::HasSubstr("--error '"));
  }
}

/// Plans with figures wrong by `r` take at most 1.3 times as long as with the right ones, and
/// nothing waits for longer than was stated.
void expect_robust(const std::string& spec, Collective collective, double r, uint64_t seed) {
  const Fabric fabric = network(spec);
  PlanInputs inputs = request_for(fabric, collective, kBlockBytes);
  sim::PlanStudy study;
  study.fabric = study.believed = &fabric;
  const auto right = sim::study_plan(study, inputs);
  ASSERT_TRUE(right.has_value());
  const Fabric said = *topology::distort(fabric, r, seed);
  const auto believed = topology::believe(said, std::nullopt);
  ASSERT_TRUE(believed.has_value());
  study.said = &said;
  study.believed = &*believed;
  study.wrong = r;
  study.check = true;
  const auto wrong = sim::study_plan(study, inputs);
  ASSERT_TRUE(wrong.has_value());
  const std::string what = fmt::format("{} {} {} {}", spec, to_string(collective), r, seed);
  EXPECT_EQ(wrong->violation, "") << what;
  EXPECT_LE(*wrong->simulated_us, 1.3 * *right->simulated_us) << what;
  EXPECT_LE(*wrong->waited_us, *wrong->jitter_us + 0.001) << what;
  EXPECT_EQ(wrong->plan.bound_ns, right->plan.bound_ns) << what;
}

TEST(WrongFigures, CostLittleAndTheJitterIsStated) {
  for (const char* spec :
       {"single-switch:12", "tree:5x3,hosts=14", "tree:5x3,hosts=14,trunk-bandwidth=4Gbit/s",
        "wan:6,6,long-latency=5ms", "wan:6,6,long-latency=5ms,trunk-bandwidth=4Gbit/s"}) {
    for (const Collective collective : {Collective::kGather, Collective::kAlltoall})
      expect_robust(spec + kLan, collective, 0.3, 2);
  }
}

/// Transfers of two clusters meet where hosts are as fast as planned, and the way between is
/// longer.
TEST(WrongFigures, TheJitterIsStatedWhereOneFigureAloneIsWrong) {
  expect_robust("wan:8,8,long-latency=5ms,trunk-bandwidth=10Gbit/s" + kLan, Collective::kAlltoall,
                0.2, 2);
}

TEST(WrongFigures, CostLittleAndTheJitterIsStatedFull) {
  for (const char* spec :
       {"single-switch:20", "tree:7x3,hosts=20", "tree:7x3,hosts=20,trunk-bandwidth=5Gbit/s",
        "fat-tree:4,2", "wan:8,8,long-latency=5ms",
        "wan:8,8,long-latency=5ms,trunk-bandwidth=10Gbit/s",
        "random-tree:20,8,seed=3,trunk-bandwidth=300Mbit/s:1Gbit/s:10Gbit/s"}) {
    for (const Collective collective : {Collective::kGather, Collective::kAlltoall}) {
      for (const double r : {0.1, 0.2, 0.3}) {
        for (uint64_t seed = 1; seed <= 2; ++seed) expect_robust(spec + kLan, collective, r, seed);
      }
    }
  }
}

/// Four links there and four back, of 10 us; and its slack: three packets at each host.
TEST(WrongFigures, OnNarrowLinksNothingWaitsForLongerThanATokensWayAndBack) {
  constexpr double kWayAndBackUs = 80, kSlackUs = 2 * 3 * 1024 / 125.0;
  for (const char* spec : {"single-switch:16", "tree:7x3,hosts=20", "fat-tree:4,2"}) {
    const Fabric fabric = network(spec + kLan);
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const auto believed = topology::believe(*topology::distort(fabric, 0.3, seed), std::nullopt);
      const auto plan = plan_transfers(request_for(*believed, Collective::kAlltoall, kBlockBytes));
      ASSERT_TRUE(plan.has_value());
      const auto times = sim::simulate_plan(fabric, {}, *plan);
      ASSERT_TRUE(times.has_value());
      EXPECT_LE(times->waited_us, kWayAndBackUs + kSlackUs) << spec << " " << seed;
    }
  }
}

}  // namespace
}  // namespace ibcoll::contention_free
