// Rules: the file, what is wrong with it, and which jobs and calls it fits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <random>

#include "engine/algorithms/imported.h"
#include "engine/tuner/choose.h"
#include "engine/tuner/rules.h"
#include "tests/job.h"
#include "tests/sweep.h"
#include "tests/tuner/rules_text.h"

namespace ibcoll {
namespace {

using namespace ibcoll::testing;
using ::testing::HasSubstr;
using ::testing::Not;

/// A section that says all there is to say.
RuleSection full_section() {
  RuleSection section;
  section.job = {"2x2", "loopback", 1, "A processor \"of\" some kind", 8, "0.9"};
  const auto algorithm = [](Collective collective, std::string_view name) {
    return find_algorithm(collective, name).value();
  };
  const Algorithm* const ring = algorithm(Collective::kAlltoall, "two_level_ring");
  section.rules = {
      {Collective::kAlltoall, "", 0, 1000, ring, Pacing::kFree, 2, 0},
      {Collective::kAlltoall, "", 1001, INT64_MAX, ring, {}, 1, 0},
      {Collective::kAlltoall, "1x2", 5, 5, algorithm(Collective::kAlltoall, "linear"), {}, 1, 0},
      {Collective::kBcast, "", 65536, INT64_MAX, algorithm(Collective::kBcast, "chain"), {}, 1, 7},
      {Collective::kBarrier,
       "3,1 cyclic",
       0,
       INT64_MAX,
       algorithm(Collective::kBarrier, "dissemination"),
       {},
       1,
       0}};
  return section;
}

TEST(RulesFile, ComesBackAsItWasWritten) {
  const RuleSection section = full_section();
  const std::string text = to_text(section, {"3 us", ""});
  const auto read = parse_rules(text + " \r\n\n" + to_text(section));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 2u) << "files may be joined";
  for (const RuleSection& back : *read) {
    EXPECT_EQ(back.job.differences(section.job), "");
    EXPECT_EQ(section.job.differences(back.job), "");
    EXPECT_EQ(to_text(back), to_text(section));
  }
  EXPECT_THAT(text, HasSubstr("3 us"));
}

TEST(RulesFile, ThatIsCutOffAnywhereIsRefused) {
  const std::string text = to_text(full_section());
  for (size_t bytes = 0; bytes + 1 < text.size(); ++bytes) {
    const auto read = parse_rules(text.substr(0, bytes));
    ASSERT_FALSE(read) << text.substr(0, bytes);
    EXPECT_EQ(read.error().code, ErrorCode::kInput);
    EXPECT_THAT(read.error().message, Not(HasSubstr("\n")));
  }
}

TEST(RulesFile, WithAnyBytesInItIsReadOrRefused) {
  const std::string whole = to_text(full_section(), {"3 us"});
  std::mt19937 random(11);
  int refused = 0;
  for (int run = 0; run < 5000; ++run) {
    std::string text = whole;
    for (uint32_t changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t place = random() % text.size();
      if (random() % 2 == 0)
        text[place] = static_cast<char>(random());
      else
        text.erase(place, random() % 8);
    }
    const auto read = parse_rules(text);
    if (!read) {
      ++refused;
      EXPECT_THAT(read.error().message, ::testing::StartsWith("line "));
      continue;
    }
    for (const RuleSection& section : *read) (void)Rules::create(section, shape_of({2, 2}));
  }
  EXPECT_GT(refused, 2500);
}

TEST(RulesFile, DamageNamesTheLineAndWhatIsWrong) {
  const auto line = [](const std::string& rest) {
    return with_head(R"({"collective": "alltoall", "algorithm": "two_level_ring")" + rest + "}");
  };
  const std::vector<std::pair<std::string, std::string>> all = {
      {"", "no rules in it: ib_tune writes them"},
      {"hello", "line 1: is not JSON, at byte 1"},
      {"[1]", "line 1: is not a JSON object"},
      {R"({"collective": "alltoall"})", "line 1: no rules: the first line must have"},
      {R"({"ibcoll_rules": 2, "layout": "2x2"})", "rules of format 2: this ibcoll reads format 1"},
      {R"({"ibcoll_rules": 1})", "line 1: 'layout' is missing"},
      {R"({"ibcoll_rules": 1, "layout": 4})", "line 1: 'layout' is not a text"},
      {R"({"ibcoll_rules": 1, "layout": "2x2", "machines": 0})", "'machines' is 0: it must be"},
      {R"({"ibcoll_rules": 1, "layout": "2x2", "rules": 1})", "0 rules where the head says 1"},
      {with_head("[]"), "line 2: is not a JSON object"},
      {with_head(R"({"collective": "alltoal", "algorithm": "ring"})"),
       "line 2: unknown collective"},
      {with_head(R"({"collective": "alltoall", "algorithm": "rung"})"),
       "line 2: unknown alltoall algorithm 'rung': one of"},
      {with_head(R"({"collective": "alltoall", "algorithm": "dissemination"})"),
       "unknown alltoall algorithm 'dissemination'"},
      {with_head(R"({"collective": "alltoall"})"), "line 2: 'algorithm' is missing"},
      {line(R"(, "from": -1)"), "line 2: 'from' is -1: it must be a whole number from 0 to"},
      {line(R"(, "from": 1.5)"), "'from' is 1.5: it must be a whole number"},
      {line(R"(, "to": "1K")"), "'to' is \"1K\": it must be a whole number"},
      {line(R"(, "to": 99999999999999999999)"), "it must be a whole number"},
      {line(R"(, "from": 5, "to": 4)"), "'from' is 5 and 'to' is less, 4"},
      {line(R"(, "form": 5)"), "line 2: unknown field 'form': one of"},
      {line(R"(, "pieces": 5000)"), "'pieces' is 5000: it must be a whole number from 0 to 4096"},
      {line(R"(, "pacing": "slow")"), "slow"},
      {line(R"(, "window": -3)"), "'window' is -3"},
      {line(R"(, "layout": "0x2")"), "line 2: "},
      {line(R"(, "layout": "2x2 arbitrary")"), "arbitrary"},
      {with_head(R"({"collective": "alltoall", "algorithm": "linear", "pacing": "gate"})"),
       "'pacing' and 'window' are not for linear, which is not paced"},
      {with_head(R"({"collective": "alltoallv", "algorithm": "ring", "to": 5})"),
       "rules of alltoallv are for all sizes"},
      {line("") + "\n" + R"({"collective": "alltoall", "algorithm": "linear", "from": 7})",
       "line 3: a second rule for alltoall of 7 bytes"},
      {line(R"(, "layout": "2x1")") + "\n" +
           line(R"(, "layout": "1,1")").substr(with_head("").size()),
       "line 3: a second rule for alltoall of 0 bytes, of layout 1,1, which is 2x1"},
      {line("") + "\n" + line(R"(, "layout": "2,2")").substr(with_head("").size()),
       "line 3: a second rule for alltoall of 0 bytes, of layout 2,2, which is 2x2"},
      {with_head(R"({"collective": "alltoall", "algorithm": "contention_free", "pieces": 2})"),
       "line 2: 'pieces' are not for contention_free, whose plan has them"},
  };
  for (const auto& [text, what] : all) {
    const auto read = parse_rules(text);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().message, HasSubstr(what)) << text;
    EXPECT_THAT(read.error().message, Not(HasSubstr("\n")));
    EXPECT_EQ(read.error().code, ErrorCode::kInput);
  }
}

TEST(RulesFile, SaysWhatDiffersFromAJob) {
  const RulesJob rules = full_section().job;
  RulesJob job = rules;
  job.layout = "4x2";
  job.transport = "verbs";
  EXPECT_EQ(rules.differences(job), "layout 2x2, not 4x2; transport loopback, not verbs");
  RulesJob silent;
  silent.layout = "4x2";
  EXPECT_EQ(silent.differences(job), "") << "what is not said fits all";
}

TEST(Rules, AreForTheirSizesAndShapes) {
  const Shape job = shape_of({2, 2});
  const Rules rules = Rules::create(full_section(), job).value();
  const auto window = [&](Collective collective, const Shape& shape, int64_t bytes) {
    const Rule* const rule = rules.find(collective, shape, bytes);
    return rule == nullptr ? -1 : static_cast<int>(rule->window);
  };
  EXPECT_EQ(window(Collective::kAlltoall, job, 0), 2);
  EXPECT_EQ(window(Collective::kAlltoall, job, 1000), 2);
  EXPECT_EQ(window(Collective::kAlltoall, job, 1001), 1);
  EXPECT_EQ(window(Collective::kAlltoall, shape_of({2}), 5), 1);
  EXPECT_EQ(window(Collective::kAlltoall, shape_of({2}), 4), -1);
  EXPECT_EQ(window(Collective::kAlltoall, shape_of({2}), 6), -1);
  EXPECT_EQ(window(Collective::kBcast, job, 65535), -1);
  EXPECT_EQ(window(Collective::kBcast, job, 65536), 1);
  EXPECT_EQ(window(Collective::kAlltoallv, job, -1), -1);
  EXPECT_EQ(window(Collective::kBarrier, job, 0), -1);
  EXPECT_EQ(Rules().find(Collective::kBarrier, job, 0), nullptr);
}

TEST(Rules, GoBeforeTheEnginesOwnChoice) {
  const Shape job = shape_of({2, 2});
  const Rules rules = Rules::create(full_section(), job).value();
  const auto choose_by = [&](Collective collective, int64_t bytes, const NamedChoice& named = {}) {
    return choose({collective, job, bytes}, {.named = named, .rules = &rules, .rule_bytes = bytes});
  };
  const Choice by_rule = choose_by(Collective::kAlltoall, 8);
  EXPECT_EQ(by_rule.source, ChoiceSource::kRule);
  EXPECT_EQ(by_rule.algorithm, "two_level_ring");
  EXPECT_EQ(by_rule.options.pacing, Pacing::kFree);
  EXPECT_EQ(by_rule.options.window, 2u);
  EXPECT_EQ(choose_by(Collective::kBcast, 1 << 20).pieces, 7u);
  const Choice own = choose_by(Collective::kAllgather, 8);
  EXPECT_EQ(own.source, ChoiceSource::kTable);
  EXPECT_EQ(own.algorithm, choose({Collective::kAllgather, job, 8}).algorithm);

  const Choice named = choose_by(Collective::kAlltoall, 8, {.algorithm = "bruck"});
  EXPECT_EQ(named.source, ChoiceSource::kNamed) << "what the call names goes before rules";
  EXPECT_EQ(named.algorithm, "bruck");
  EXPECT_EQ(named.options.window, 1u);
  const Choice part = choose_by(Collective::kAlltoall, 8, {.pacing = Pacing::kToken, .pieces = 3});
  EXPECT_EQ(part.algorithm, "two_level_ring");
  EXPECT_EQ(part.options.pacing, Pacing::kToken) << "and so does a part of it";
  EXPECT_EQ(part.pieces, 3u);
}

TEST(Rules, CountOnlyWhereTheirAlgorithmCanBeHad) {
  const Shape job = shape_of({2, 2});
  RuleSection section;
  section.job.layout = "2x2";
  for (const auto& [collective, name] : {std::pair(Collective::kAllreduce, "two_level_ring"),
                                         {Collective::kAlltoall, "contention_free"}}) {
    Rule rule;
    rule.collective = collective;
    rule.algorithm = find_algorithm(collective, name).value();
    section.rules.push_back(rule);
  }
  const Rules rules = Rules::create(section, job).value();
  const auto source = [&](const CallFacts& facts) {
    return choose(facts, {.rules = &rules, .rule_bytes = facts.block_bytes}).source;
  };
  CallFacts reduction{Collective::kAllreduce, job, 8}, exchange{Collective::kAlltoall, job, 8};
  EXPECT_EQ(source(reduction), ChoiceSource::kRule);
  EXPECT_EQ(source(exchange), ChoiceSource::kRule);
  reduction.ordered = true;
  exchange.plans = false;
  EXPECT_EQ(source(reduction), ChoiceSource::kTable) << "it can't keep the order of ranks";
  EXPECT_EQ(source(exchange), ChoiceSource::kTable) << "there are no plans set by set";
}

TEST(Rules, CountOnlyForRootsThatTheirAlgorithmHasProgramsFor) {
  const Shape job = shape_of({2, 2});
  AlgorithmOptions to_last;
  to_last.root = 3;
  Programs programs;
  for (const ProgramPtr& own :
       build_all(*find_algorithm(Collective::kGather, "binomial").value(), job, to_last)) {
    RankProgram program = *own;
    program.algorithm = "for_the_last";
    programs.push_back(std::make_shared<const RankProgram>(std::move(program)));
  }
  ASSERT_TRUE(add_imported(job, programs));
  RuleSection section;
  section.job.layout = "2x2";
  Rule rule;
  rule.collective = Collective::kGather;
  rule.algorithm = find_algorithm(Collective::kGather, "for_the_last").value();
  section.rules.push_back(rule);
  const Rules rules = Rules::create(section, job).value();
  const CallFacts facts{Collective::kGather, job, 8};
  const auto choose_for = [&](std::optional<Rank> root) {
    return choose(facts, {.named = {.pieces = 3}, .rules = &rules, .rule_bytes = 8, .root = root});
  };
  EXPECT_EQ(choose_for(3).algorithm, "for_the_last");
  EXPECT_EQ(choose_for({}).source, ChoiceSource::kRule) << "some root has them";
  const Choice other = choose_for(0);
  EXPECT_EQ(other.source, ChoiceSource::kTable);
  EXPECT_EQ(other.algorithm, choose(facts).algorithm);
  EXPECT_EQ(other.pieces, 3u) << "what the call names counts all the same";
}

}  // namespace
}  // namespace ibcoll
