// Which contender wins where every measurement is disturbed, and the rules that come of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "studies/measure/candidates.h"
#include "studies/measure/tuning.h"

namespace ibcoll::measure {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Rounds of contenders that take `times`, each disturbed by up to `noise` of it, and all of a
/// round by up to `drift`.
void run(Race& race, const std::vector<double>& times, int rounds, double noise, double drift) {
  std::mt19937 random(7);
  const auto factor = [&](double most) {
    return 1 + most * static_cast<double>(random()) / static_cast<double>(std::mt19937::max());
  };
  for (int round = 0; round < rounds; ++round) {
    const double all = factor(drift);
    std::vector<double> measured;
    for (const size_t one : race.running()) measured.push_back(times[one] * all * factor(noise));
    race.add_round(measured);
  }
}

TEST(Race, TheFastestWins) {
  Race race(6);
  run(race, {10, 12, 9, 7, 8, 40}, 15, 0.05, 5);
  EXPECT_EQ(race.choice(), 3u);
  EXPECT_NEAR(race.score(3), 0.7, 0.05) << "whatever disturbs whole rounds";
  EXPECT_THAT(race.running(), Contains(0u)) << "what there is already stays";
  EXPECT_THAT(race.running(), Not(Contains(5u)));
  EXPECT_EQ(race.running().size(), 3u);
}

TEST(Race, WhatThereIsStaysWhereNoneIsSurelyBetter) {
  Race close(3);
  run(close, {10, 9.8, 11}, 15, 0.01, 0);
  EXPECT_EQ(close.fastest(), 1u);
  EXPECT_EQ(close.choice(), 0u) << "by less than is worth a rule";
  Race noisy(2);
  for (const double other : {5., 15., 6., 14., 9., 15., 5.})
    noisy.add_round(std::vector{10., other});
  EXPECT_EQ(noisy.fastest(), 1u);
  EXPECT_EQ(noisy.choice(), 0u) << "slower in three of seven rounds";
}

TEST(Race, OneSlowRoundDropsNobody) {
  Race race(3);
  race.add_round(std::vector{10., 500., 11.});
  run(race, {10, 5, 11}, 10, 0, 0);
  EXPECT_EQ(race.choice(), 1u);
}

TEST(Race, WhoIsKeptRunsToTheEnd) {
  const std::vector<size_t> kept{4};
  Race race(6, kept);
  run(race, {10, 9, 8, 7, 90, 11}, 15, 0, 0);
  EXPECT_THAT(race.running(), Contains(4u));
  EXPECT_THAT(race.ratios(4, race.fastest()),
              ::testing::Each(::testing::DoubleNear(90. / 7, 1e-9)));
}

TEST(Race, OfOneIsOver) {
  Race race(1);
  race.add_round(std::vector{3.});
  EXPECT_EQ(race.choice(), 0u);
  EXPECT_EQ(race.median_time(0), 3);
}

Shape layout(std::vector<int> servers) {
  return Shape::from_layout(servers, Placement::kBlock).value();
}

TEST(Candidates, AreAllDifferentAndOfEveryAlgorithm) {
  for (const Shape& shape :
       {layout({1}), layout({3}), layout({2, 2}), layout({3, 1, 2}), layout({1, 1, 1, 1, 1})}) {
    for (const Collective collective : kCollectives) {
      for (const int64_t bytes : {int64_t{0}, int64_t{8}, int64_t{1} << 20}) {
        const int64_t block = is_unequal(collective) ? -1 : bytes;
        const Rule own = own_choice(collective, shape, block);
        std::vector<Rule> all = other_choices(own, shape, block);
        all.push_back(own);
        for (size_t i = 0; i < all.size(); ++i)
          for (size_t j = 0; j < i; ++j)
            EXPECT_FALSE(same_choice(all[i], all[j])) << all[i].describe();
        for (const Algorithm& algorithm : algorithms()) {
          if (algorithm.collective != collective) continue;
          EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Rule& rule) {
            return rule.algorithm == &algorithm;
          })) << algorithm.name;
        }
        // What is tried can be written down and read again.
        for (const Rule& rule : all) {
          EXPECT_TRUE(rule.window == 1 || rule.pacing == Pacing::kFree)
              << rule.describe() << ": the window counts only where steps are free";
          RuleSection section;
          section.job.layout = shape.describe();
          section.rules = {rule};
          const auto read = parse_rules(to_text(section));
          ASSERT_TRUE(read) << read.error().message;
          EXPECT_TRUE(same_choice(read->front().rules.front(), rule)) << rule.describe();
        }
      }
    }
  }
}

TEST(Candidates, OwnChoiceIsTheEngines) {
  const Shape shape = layout({2, 2});
  const Choice choice = choose({Collective::kBcast, shape, 1 << 20});
  const Rule own = own_choice(Collective::kBcast, shape, 1 << 20);
  EXPECT_EQ(own.algorithm->name, choice.algorithm);
  EXPECT_EQ(own.pieces, 0u) << "as the engine chooses";
}

/// A point at which contender `choice` of these wins.
TunePoint point(Collective collective, int64_t bytes, size_t choice, double score = 0.5) {
  TunePoint found;
  found.collective = collective;
  found.bytes = bytes;
  const Shape shape = layout({2, 2});
  size_t judged = 0;
  const Traffic traffic(collective, shape.ranks(), bytes);
  found.rule_bytes = traffic.mean_bytes();
  found.contenders = contenders_of(traffic, shape, own_choice_of(traffic, shape), nullptr, &judged);
  found.score.assign(found.contenders.size(), 1.2);
  found.score[0] = 1;
  if (choice != 0) found.score[choice] = score;
  found.choice = choice;
  return found;
}

std::vector<Rule> rules_from(const std::vector<TunePoint>& points) {
  std::vector<std::string> notes;
  const RuleSection section = rules_of(points, {}, notes);
  EXPECT_EQ(notes.size(), section.rules.size());
  return section.rules;
}

TEST(RulesOfPoints, NeighboursWithOneChoiceAreOneRange) {
  const Collective alltoall = Collective::kAlltoall;
  const std::vector<Rule> rules =
      rules_from({point(alltoall, 16, 1), point(alltoall, 64, 1), point(alltoall, 256, 0),
                  point(alltoall, 1024, 2), point(alltoall, 4096, 2)});
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[0].from, 0);
  EXPECT_EQ(rules[0].to, 128);
  EXPECT_EQ(rules[1].from, 513);
  EXPECT_EQ(rules[1].to, 4096);
}

TEST(RulesOfPoints, GoByTheSizeThatCallsGoBy) {
  for (const Collective collective : {Collective::kAllgatherv, Collective::kReduceScatter}) {
    const std::vector<Rule> rules = rules_from({point(collective, 4096, 1)});
    ASSERT_EQ(rules.size(), 1u);
    EXPECT_EQ(rules[0].to, (2048 + 4096 + 6144 + 2048) / 4) << "the mean over four ranks";
  }
}

TEST(RulesOfPoints, WhereTheEngineDoesAsWellThereIsNone) {
  EXPECT_TRUE(
      rules_from({point(Collective::kBcast, 8, 0), point(Collective::kBarrier, 0, 0)}).empty());
}

TEST(RulesOfPoints, BlocksThatDifferHaveOneRuleForAllSizes) {
  const Collective alltoallv = Collective::kAlltoallv;
  const std::vector<Rule> rules =
      rules_from({point(alltoallv, 8, 1, 0.5), point(alltoallv, 4096, 1, 0.9)});
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_EQ(rules[0].from, 0);
  EXPECT_EQ(rules[0].to, INT64_MAX);
  EXPECT_TRUE(rules_from({point(alltoallv, 8, 1, 0.5), point(alltoallv, 4096, 1, 1.3)}).empty())
      << "what loses at one size is no gain";
}

TEST(RulesOfPoints, OfAnyPointsCanBeReadAgain) {
  std::mt19937 random(3);
  for (int run = 0; run < 200; ++run) {
    std::vector<TunePoint> points;
    for (const Collective collective : {Collective::kAlltoall, Collective::kBcast,
                                        Collective::kAllgatherv, Collective::kBarrier}) {
      for (const int64_t bytes : sizes_of(collective, {0, 1, 2, 3, 9, 1000, 100'000})) {
        TunePoint one = point(collective, bytes, 0);
        points.push_back(point(collective, bytes, random() % one.contenders.size()));
      }
    }
    std::vector<std::string> notes;
    RulesJob job;
    job.layout = "2x2";
    const RuleSection section = rules_of(points, job, notes);
    const auto read = parse_rules(to_text(section, notes));
    ASSERT_TRUE(read) << read.error().message << "\n" << to_text(section, notes);
    const Rules rules = Rules::create(read->front(), layout({2, 2})).value();
    const TunePoint* before = nullptr;
    for (const TunePoint& one : points) {
      if (is_unequal(one.collective) && !has_sizes(one.collective)) continue;
      // Of those that calls can't tell apart the first one counts.
      const bool apart = before == nullptr || before->collective != one.collective ||
                         before->rule_bytes != one.rule_bytes;
      before = &one;
      if (!apart) continue;
      const Rule* const found = rules.find(one.collective, layout({2, 2}), one.rule_bytes);
      ASSERT_EQ(found != nullptr, one.choice != 0) << one.bytes;
      if (found != nullptr) {
        EXPECT_TRUE(same_choice(*found, one.contenders[one.choice]));
      }
    }
  }
}

TEST(Judgement, CountsWhatIsNearAndNamesTheWorst) {
  std::vector<TunePoint> points(3);
  points[0].regret = 1.04;
  points[1].regret = 1.2;
  points[1].sure_regret = 1;
  points[2].collective = Collective::kBcast;
  points[2].bytes = 4096;
  points[2].regret = points[2].sure_regret = 1.5;
  const Judgement all = judge(points);
  EXPECT_EQ(all.points, 3u);
  EXPECT_EQ(all.within, 2u);
  EXPECT_EQ(all.worst, 1.5);
  EXPECT_EQ(all.worst_at, "bcast of 4K");
}

TEST(SizesOf, AreWholeElementsAndEachOnce) {
  EXPECT_THAT(sizes_of(Collective::kBarrier, {1, 2}), ElementsAre(0));
  EXPECT_THAT(sizes_of(Collective::kAlltoall, {64, 1, 1}), ElementsAre(1, 64));
  EXPECT_THAT(sizes_of(Collective::kReduce, {1, 5, 9}), ElementsAre(8, 16));
}

}  // namespace
}  // namespace ibcoll::measure
