// What the engine chooses by itself, as a list: tests/data/choices.txt has, for each collective and
// layout, which algorithm, pacing and pieces calls of which sizes get. No figure, row or condition
// of engine/tuner may change without it. A change to it is a change of behaviour: make it anew with
// UPDATE_GOLDEN=1 in a commit that says why.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/base/input.h"
#include "engine/base/json_lines.h"
#include "engine/base/units.h"
#include "engine/schedule/layout.h"
#include "engine/tuner/choose.h"
#include "studies/measure/built_in.h"
#include "studies/measure/graph_patterns.h"
#include "tests/places.h"

namespace ibcoll {
namespace {

const std::string kGolden = testing_tools::source_dir() + "/tests/data/choices.txt";
constexpr int64_t kLargest = int64_t{64} << 20;

/// What a section of the list is about: all of a call but its layout and size.
struct Calls {
  Collective collective = Collective::kBarrier;
  bool ordered = false;
  bool costs_cores = false;         ///< messages between servers do
  bool by_leaders = false;          ///< a multicast
  std::string_view algorithm = {};  ///< that the call names
  uint32_t connections = 0;         ///< CallFacts::connections
  std::string title() const {
    return "# " + std::string(to_string(collective)) + (ordered ? ", ordered" : "") +
           (costs_cores ? ", messages cost cores" : "") + (by_leaders ? ", by leaders alone" : "") +
           (algorithm.empty() ? "" : fmt::format(", {} by name", algorithm)) +
           (connections == 0 ? "" : fmt::format(", {} connections", connections));
  }
};

/// "two_level_ring/gate, 2 pieces".
std::string to_text(Collective collective, const Choice& choice) {
  std::string text(choice.algorithm);
  if ((*find_algorithm(collective, choice.algorithm))->paced)
    text += fmt::format("/{}", to_string(choice.options.pacing));
  if (choice.pieces > 1) text += fmt::format(", {} pieces", choice.pieces);
  return text;
}

/// What such a call gets, in words.
std::string choice_of(const Calls& calls, const Shape& shape, int64_t bytes,
                      const Graph* graph = nullptr) {
  const Collective collective = calls.collective;
  const CallFacts facts{.collective = collective,
                        .shape = shape,
                        .block_bytes = size_to_choose_by(collective, bytes),
                        .ordered = calls.ordered,
                        .graph = graph,
                        .by_leaders = calls.by_leaders,
                        .costs_cores = calls.costs_cores,
                        .connections = calls.connections};
  const Choice choice = choose(facts, {.named = {.algorithm = calls.algorithm}});
  if (calls.by_leaders) return fmt::format("{}, {} pieces", choice.algorithm, choice.pieces);
  return to_text(collective, choice) + (choice.planned.empty() ? "" : ", or a plan");
}

/// The sizes at which the choice is looked at; between two where it differs the exact place is
/// looked for.
std::vector<int64_t> grid() {
  std::vector<int64_t> all = {0, 1, 2, 3};
  for (int64_t power = 4; power < kLargest; power *= 2) {
    for (int64_t quarter = 4; quarter < 8; ++quarter) {
      const int64_t size = power * quarter / 4;
      for (const int64_t near : {size - 1, size, size + 1})
        if (near > all.back()) all.push_back(near);
    }
  }
  all.push_back(kLargest);
  return all;
}

/// Lines "from size: what it is", one for each run of sizes for which it is the same.
class SizeList {
 public:
  explicit SizeList(std::function<std::string(int64_t bytes)> at) : at_(std::move(at)) {}

  std::string text() {
    static const std::vector<int64_t> kSizes = grid();
    add(0, at_(0));
    for (size_t i = 1; i < kSizes.size(); ++i)
      look_between(kSizes[i - 1], at_(kSizes[i - 1]), kSizes[i], at_(kSizes[i]));
    return std::move(text_);
  }

 private:
  void add(int64_t from, const std::string& what) {
    text_ += fmt::format("{:>10}  {}\n", from, what);
  }
  void look_between(int64_t low, const std::string& of_low, int64_t high,
                    const std::string& of_high) {
    if (of_low == of_high) return;
    if (high - low == 1) return add(high, of_high);
    const int64_t middle = low + (high - low) / 2;
    const std::string of_middle = at_(middle);
    look_between(low, of_low, middle, of_middle);
    look_between(middle, of_middle, high, of_high);
  }

  std::function<std::string(int64_t)> at_;
  std::string text_;
};

std::string list_of(const Calls& calls, const Shape& shape, const Graph* graph = nullptr) {
  const auto at = [&](int64_t bytes) { return choice_of(calls, shape, bytes, graph); };
  if (!lies_side_by_side(calls.collective)) return fmt::format("       any  {}\n", at(0));
  return SizeList(at).text();
}

/// The lists of a section. What they are for stands before them, several where they are the same.
class Section {
 public:
  void add(const std::string& what, const std::string& list) {
    const auto [at, is_new] = place_.try_emplace(list, lists_.size());
    if (is_new) lists_.push_back({"", list});
    std::string& names = lists_[at->second].first;
    names += (names.empty() ? "" : "; ") + what;
  }
  std::string text() const {
    std::string text;
    for (const auto& [names, list] : lists_) text += wrapped(names) + list;
    return text;
  }

 private:
  static std::string wrapped(std::string names) {
    constexpr size_t kWidth = 96;
    std::string text;
    while (names.size() > kWidth) {
      const size_t end = names.rfind("; ", kWidth) + 1;
      text += names.substr(0, end) + "\n";
      names.erase(0, end + 1);
    }
    return text + names + "\n";
  }

  std::map<std::string, size_t> place_;
  std::vector<std::pair<std::string, std::string>> lists_;
};

Shape laid_out(std::string_view layout) { return parse_layout(layout).value(); }

/// One server, servers of one rank, of several, unequal ones; on both sides of each limit in the
/// number of ranks, servers and ranks a server.
constexpr std::string_view kLayouts[] = {
    "1x1",  "1x2",  "1x3",  "1x4",   "1x5",   "1x7",   "1x8",   "1x9",   "1x12",  "1x16",
    "1x64", "2x1",  "3x1",  "4x1",   "5x1",   "6x1",   "8x1",   "16x1",  "31x1",  "32x1",
    "33x1", "64x1", "99x1", "128x1", "129x1", "200x1", "2x2",   "4x2",   "31x2",  "32x2",
    "33x2", "64x2", "99x2", "128x2", "129x2", "200x2", "2x3",   "3x3",   "32x3",  "128x3",
    "2x4",  "4x4",  "16x4", "32x4",  "128x4", "129x4", "8x8",   "4x64",  "3,1,2", "4,4,2",
    "5,2",  "8,3",  "8,4",  "1,1,2", "2,2,3", "8,8,7", "3x1,2", "31x1,2"};

std::string lists_of(const Calls& calls, std::span<const std::string_view> layouts) {
  Section section;
  for (const std::string_view layout : layouts) {
    const Shape shape = laid_out(layout);
    section.add(std::string(layout), list_of(calls, shape));
  }
  return section.text();
}

/// Two servers of two ranks, the edges between them in either direction one after the other.
std::shared_ptr<const Graph> crossing(const Shape& shape, size_t edges) {
  constexpr Graph::Edge kAll[] = {{0, 2}, {2, 0}, {1, 3}, {3, 1}, {0, 3}, {3, 0}, {1, 2}, {2, 1}};
  return Graph::create(shape, std::span(kAll, edges)).value();
}

void add_graphs(Collective collective, std::string& text) {
  const Calls calls{.collective = collective};
  Section section;
  const auto add = [&](std::string_view layout, const std::string& what, const Shape& shape,
                       const Graph* graph) {
    section.add(fmt::format("{} {}", layout, what), list_of(calls, shape, graph));
  };
  for (const auto& [layout, patterns] :
       {std::pair<std::string_view, std::vector<std::string>>{"1x4", {"ring:1"}},
        {"4x1", {"ring:1", "ring:2"}},
        {"2x2", {"ring:1", "ring:2"}},
        {"8x8", {"ring:1", "ring:8", "grid:4x4x4", "random:4:1", "random:32:1"}},
        {"3,1,2", {"ring:1", "ring:3"}}}) {
    const Shape shape = laid_out(layout);
    add(layout, "no graph", shape, nullptr);
    for (const std::string& pattern : patterns)
      add(layout, pattern, shape, measure::parse_graph(pattern, shape).value().get());
  }
  const Shape shape = laid_out("2x2");
  for (size_t edges = 0; edges <= 8; ++edges)
    add("2x2", fmt::format("{} edges", edges), shape, crossing(shape, edges).get());
  text += calls.title() + "\n" + section.text() + "\n";
}

/// What calls get that name an algorithm themselves.
void add_named(std::string& text) {
  constexpr std::string_view kSome[] = {"1x4", "2x1", "5x1", "32x1", "4x2", "8x8", "3,1,2"};
  constexpr std::pair<Collective, std::string_view> kNames[] = {
      {Collective::kAlltoall, "aggregate"},
      {Collective::kAlltoall, "ring"},
      {Collective::kAlltoall, "two_level_ring"},
      {Collective::kAlltoall, "contention_free"},
      {Collective::kAlltoallv, "aggregate"},
      {Collective::kAllgather, "ring"},
      {Collective::kAllgatherv, "ring"},
      {Collective::kGather, "linear"},
      {Collective::kBcast, "binomial"},
      {Collective::kBcast, "chain"},
      {Collective::kBcast, "circulant"},
      {Collective::kBcast, "contention_free"},
      {Collective::kBcast, "linear"},
      {Collective::kBcast, "scatter_doubling"},
      {Collective::kBcast, "scatter_ring"},
      {Collective::kBcast, "two_level"},
      {Collective::kReduce, "chain"},
      {Collective::kAllreduce, "ring"},
      {Collective::kAllreduce, "two_level"},
      {Collective::kAllreduce, "contention_free"},
      {Collective::kReduceScatter, "ring"},
      {Collective::kScan, "chain"}};
  for (const auto& [collective, algorithm] : kNames) {
    Calls calls{.collective = collective, .algorithm = algorithm};
    const std::string usual = lists_of(calls, kSome);
    text += calls.title() + "\n" + usual;
    calls.costs_cores = true;
    const std::string lists = lists_of(calls, kSome);
    text += calls.title() + (lists == usual ? ": the same\n\n" : "\n" + lists + "\n");
  }
}

/// Which plan is taken where one can be had, and how long it may take for that.
std::string plan_of(const CallFacts& facts, int64_t walk_ns, int64_t bound_ns) {
  const Choice choice = choose(facts);
  if (choice.planned.empty()) return "none";
  TransferPlan plan;
  plan.bound_ns = bound_ns;
  const auto longest = [&](bool keeps_time) {
    plan.keeps_time = keeps_time;
    int64_t pays = -1, does_not = 4 * walk_ns;
    while (does_not - pays > 1) {
      plan.time_ns = pays + (does_not - pays) / 2;
      const bool is_taken = plan_pays(plan, choice.plan_rule, static_cast<double>(walk_ns));
      (is_taken ? pays : does_not) = plan.time_ns;
    }
    return pays < 0 ? "never" : fmt::format("up to {} ns", pays);
  };
  return fmt::format("{} {}, with late tokens {}", choice.planned, longest(true), longest(false));
}

void add_plans(std::string& text) {
  constexpr int64_t kWalkNs = 1'000'000, kBoundNs = 500'000;
  for (const Collective collective : kCollectives) {
    const auto has_plan = [&](const ChoiceRow& row) {
      return row.collectives.contain(collective) && !row.planned.empty();
    };
    if (std::ranges::none_of(table_of_choices(), has_plan)) continue;
    Section section;
    for (const std::string_view layout : {"3x1", "32x1"}) {
      const Shape shape = laid_out(layout);
      CallFacts facts{.collective = collective, .shape = shape, .block_bytes = 0};
      for (const bool plans : {true, false}) {
        facts.plans = plans;
        const auto at = [&](int64_t bytes) {
          facts.block_bytes = size_to_choose_by(collective, bytes);
          return plan_of(facts, kWalkNs, kBoundNs);
        };
        section.add(fmt::format("{}{}", layout, plans ? "" : " without plans"),
                    SizeList(at).text());
      }
    }
    text += fmt::format(
        "# {}, plan that is taken where a walk takes {} ns and the bound is {} ns\n{}\n",
        to_string(collective), kWalkNs, kBoundNs, section.text());
  }
}

/// How many pieces a plan is carried out in.
void add_pieces_of_plans(std::string& text) {
  const Shape shape = laid_out("4x1");
  Section section;
  for (const auto& [pieces, relays] :
       {std::pair(1u, false), {3u, false}, {1u, true}, {3u, true}, {40u, true}}) {
    TransferPlan plan;
    plan.pieces = pieces;
    plan.relays = relays;
    const auto at = [&](int64_t bytes) {
      const CallFacts facts{
          .collective = Collective::kAlltoall, .shape = shape, .block_bytes = bytes};
      const Algorithm& algorithm = *look_up_algorithm(facts.collective, "contention_free");
      return std::to_string(choose_pieces(algorithm, facts, &plan));
    };
    section.add(fmt::format("a plan of {} that {}", pieces, relays ? "relays" : "does not relay"),
                SizeList(at).text());
  }
  text += "# alltoall, contention_free by name, pieces with a plan\n" + section.text() + "\n";
}

/// A rule of a file for calls of that collective on that layout, by the fields that its line has
/// beside them; none where there are none.
Rule rule_of(Collective collective, const Shape& shape, std::string_view fields, Rules& rules) {
  if (fields.empty()) return {};
  const RuleSection section =
      parse_rules(fmt::format("{{\"ibcoll_rules\": 1, \"layout\": \"{}\"}}\n"
                              "{{\"collective\": \"{}\", {}}}",
                              shape.describe(), to_string(collective), fields))
          .value()[0];
  rules = Rules::create(section, shape).value();
  return section.rules[0];
}

/// What calls get that name something themselves, or that a rule is for.
void add_sources(std::string& text) {
  Section section;
  const auto add = [&](const CallFacts& facts, const NamedChoice& named, std::string_view fields) {
    std::string what = fmt::format("{} of {} on {}", to_string(facts.collective),
                                   format_size(facts.block_bytes), facts.shape.describe());
    if (facts.ordered) what += ", ordered";
    if (!facts.plans) what += ", without plans";
    if (!named.algorithm.empty()) what += fmt::format(", {} by name", named.algorithm);
    if (named.pacing)
      what += fmt::format(", {}, {} pieces by name", to_string(*named.pacing), named.pieces);
    Rules rules;
    const Rule rule = rule_of(facts.collective, facts.shape, fields, rules);
    if (rule.algorithm != nullptr) what += fmt::format(", rule {}", rule.describe());
    const Choice choice =
        choose(facts, {.named = named, .rules = &rules, .rule_bytes = facts.block_bytes});
    constexpr std::string_view kSources[] = {"name", "rule", "table"};
    section.add(what,
                fmt::format("    {}, window {}, by the {}\n", to_text(facts.collective, choice),
                            choice.options.window, kSources[static_cast<size_t>(choice.source)]));
  };
  constexpr std::string_view kRing = R"("algorithm": "two_level_ring")";
  constexpr std::string_view kAll =
      R"("algorithm": "two_level_ring", "pacing": "free", "window": 2, "pieces": 5)";
  constexpr std::string_view kPlanned = R"("algorithm": "contention_free")";
  const Shape few = laid_out("4x2"), many = laid_out("32x2");
  CallFacts exchange{Collective::kAlltoall, few, 128 << 10},
      sum{Collective::kAllreduce, few, 1 << 20};
  add(exchange, {}, "");
  add(exchange, {.algorithm = "bruck"}, "");
  add(exchange, {.pacing = Pacing::kFree, .pieces = 3}, "");
  add(exchange, {}, kRing);
  add(exchange, {}, kAll);
  add(exchange, {.algorithm = "bruck"}, kAll);
  add(exchange, {.pacing = Pacing::kToken, .pieces = 3}, kAll);
  add({Collective::kAlltoall, many, 8}, {.algorithm = "aggregate"}, "");
  add(sum, {}, kRing);
  exchange.ordered = sum.ordered = true;
  add(exchange, {}, kRing);
  add(sum, {}, kRing);
  exchange.ordered = false;
  add(exchange, {}, kPlanned);
  exchange.plans = false;
  add(exchange, {}, kPlanned);
  text += "# what goes before the table\n" + section.text() + "\n";
}

/// What may be better than what is chosen.
void add_worth_trying(std::string& text) {
  Section section;
  const auto add = [&](Collective collective, std::string_view layout, bool ordered = false) {
    const Shape shape = laid_out(layout);
    CallFacts facts{.collective = collective, .shape = shape, .block_bytes = 0, .ordered = ordered};
    const auto at = [&](int64_t bytes) {
      facts.block_bytes = bytes;
      const AlgorithmNames all = worth_trying(facts, choose(facts).algorithm);
      if (all.count == 0) return std::string("nothing");
      return fmt::format("{}", fmt::join(std::span(all.names).first(all.count), ", "));
    };
    section.add(
        fmt::format("{} on {}{}", to_string(collective), layout, ordered ? ", ordered" : ""),
        SizeList(at).text());
  };
  add(Collective::kAlltoall, "1x4");
  add(Collective::kAlltoall, "4x2");
  add(Collective::kAllgather, "1x4");
  add(Collective::kReduce, "1x4");
  add(Collective::kReduce, "4x2");
  add(Collective::kAllreduce, "1x4");
  add(Collective::kAllreduce, "4x2");
  add(Collective::kAllreduce, "4x2", true);
  text += "# what else is worth trying\n" + section.text() + "\n";
}

constexpr std::string_view kHead =
    R"(What calls get by default. A title (#) says which calls its section is about: the collective,
and what else is true of them. Below layouts, which semicolons separate, stand lines of two columns:

  bytes of a block from which on it holds, up to 64 MB    ALGORITHM/PACING, N pieces

The pacing is left out where the algorithm heeds none, and so is one piece. "Or a plan": where one
for the network pays. The last sections show what goes before the table of choices, which plans pay
and how many pieces they have, and which other algorithms are worth trying.
Made by UPDATE_GOLDEN=1 choices_test.

)";

std::string all_choices() {
  std::string text(kHead);
  for (const Collective collective : kCollectives) {
    if (has_graph(collective)) {
      add_graphs(collective, text);
      continue;
    }
    const std::string usual = lists_of({.collective = collective}, kLayouts);
    text += Calls{.collective = collective}.title() + "\n" + usual + "\n";
    const auto add = [&](const Calls& calls, std::string_view other) {
      const std::string lists = lists_of(calls, kLayouts);
      text += calls.title() + (lists == other ? ": the same\n\n" : "\n" + lists + "\n");
      return lists;
    };
    add({.collective = collective, .costs_cores = true}, usual);
    if (collective == Collective::kBcast)
      add({.collective = collective, .by_leaders = true}, usual);
    const std::string ordered =
        reduces(collective) ? add({.collective = collective, .ordered = true}, usual) : usual;
    add({.collective = collective, .ordered = true, .costs_cores = true}, ordered);
    add({.collective = collective, .connections = 3}, usual);
  }
  add_named(text);
  add_sources(text);
  add_plans(text);
  add_pieces_of_plans(text);
  add_worth_trying(text);
  return text;
}

/// The first line that differs, with the section and the layouts it stands below.
std::string first_difference(const std::string& is, const std::string& should) {
  const std::vector<std::string_view> now = split(is, '\n'), then = split(should, '\n');
  std::string_view title, layouts;
  for (size_t i = 0; i < std::max(now.size(), then.size()); ++i) {
    const std::string_view a = i < now.size() ? now[i] : "(end)";
    const std::string_view b = i < then.size() ? then[i] : "(end)";
    if (a != b)
      return fmt::format("line {}, below '{}', '{}': '{}', and was '{}'", i + 1, title, layouts, a,
                         b);
    if (a.starts_with("#")) title = a;
    if (!a.starts_with(" ")) layouts = a;
  }
  return "";
}

/// All that a row names is there, and has a cost where rows compare costs.
TEST(Choices, TheTableNamesWhatThereIs) {
  for (const ChoiceRow& row : table_of_choices()) {
    for (const Collective collective : kCollectives) {
      if (!row.collectives.contain(collective)) continue;
      for (const std::string_view name : row.algorithms) {
        if (name.empty()) continue;
        const Algorithm* const algorithm = look_up_algorithm(collective, name);
        ASSERT_NE(algorithm, nullptr) << to_string(collective) << " " << name;
        if (row.pieces != PieceRule::kOwn) continue;
        EXPECT_NE(algorithm->spec->cost, nullptr) << name;
        EXPECT_NE(algorithm->spec->pieces, nullptr) << name;
      }
      ASSERT_FALSE(row.algorithms[0].empty());
      if (row.planned.empty()) continue;
      const Algorithm* const planned = look_up_algorithm(collective, row.planned);
      ASSERT_NE(planned, nullptr) << to_string(collective) << " " << row.planned;
      EXPECT_TRUE(planned->spec->planned) << row.planned;
    }
  }
}

/// Sizes at which rules could differ from the table: about each change, and anywhere.
std::vector<int64_t> sizes_to_compare(const RuleSection& section) {
  std::vector<int64_t> all = grid();
  for (const Rule& rule : section.rules) {
    for (int64_t size = std::max<int64_t>(0, rule.from - 40); size < rule.from + 40; ++size)
      all.push_back(size);
  }
  std::mt19937_64 random(3);
  for (int i = 0; i < 500; ++i) all.push_back(static_cast<int64_t>(random() >> (20 + i % 44)));
  return all;
}

TEST(Choices, WorthTryingAreOthersThatAreThere) {
  for (const char* layout : {"1", "2", "3", "8", "12", "2,2", "3,1,2", "4,4,4,4"}) {
    const Shape shape = laid_out(layout);
    for (const Collective collective : kCollectives) {
      for (int64_t bytes = 0; bytes <= kLargest; bytes = bytes == 0 ? 1 : 4 * bytes) {
        SCOPED_TRACE(fmt::format("{} {} {}", to_string(collective), layout, bytes));
        for (const bool ordered : {false, true}) {
          const CallFacts facts{.collective = collective,
                                .shape = shape,
                                .block_bytes = size_to_choose_by(collective, bytes),
                                .ordered = ordered && reduces(collective)};
          if (has_graph(collective)) {
            EXPECT_EQ(worth_trying(facts, "direct").count, 0u);
            continue;
          }
          const std::string_view chosen = choose(facts).algorithm;
          const AlgorithmNames others = worth_trying(facts, chosen);
          ASSERT_LE(others.count, others.names.size());
          EXPECT_TRUE(facts.block_bytes >= 0 || others.count == 0);
          std::set<std::string_view> names = {chosen};
          for (size_t i = 0; i < others.count; ++i) {
            const Algorithm* const other = look_up_algorithm(collective, others.names[i]);
            ASSERT_NE(other, nullptr) << others.names[i];
            EXPECT_TRUE(names.insert(other->name).second) << others.names[i];
            EXPECT_FALSE(other->spec->planned) << others.names[i];
            EXPECT_TRUE(!facts.ordered || other->keeps_order(shape)) << others.names[i];
            EXPECT_EQ(others.names[i].data()[others.names[i].size()], '\0');
          }
        }
      }
    }
  }
}

TEST(Choices, WorthTryingIsWhatIsChosenForSizesNotFarAway) {
  const Shape shape = laid_out("8");
  const auto others_at = [&](Collective collective, int64_t bytes) {
    const CallFacts facts{.collective = collective, .shape = shape, .block_bytes = bytes};
    const AlgorithmNames all = worth_trying(facts, choose(facts).algorithm);
    return std::vector<std::string_view>(all.names.begin(), all.names.begin() + all.count);
  };
  // On machines other than that of the table its limits lie elsewhere.
  EXPECT_THAT(others_at(Collective::kAllreduce, 512), ::testing::Contains("recursive_doubling"));
  EXPECT_THAT(others_at(Collective::kAllreduce, 8192), ::testing::Contains("linear"));
  EXPECT_THAT(others_at(Collective::kAllreduce, 64 << 10), ::testing::Contains("rabenseifner"));
  EXPECT_THAT(others_at(Collective::kAllgather, 16), ::testing::Not(::testing::Contains("ring")));
  // Some need memory for all data of a rank.
  EXPECT_THAT(others_at(Collective::kAlltoall, 4 << 20), ::testing::IsEmpty());
  EXPECT_THAT(others_at(Collective::kBarrier, 0), ::testing::IsEmpty());
}

TEST(Choices, AsRulesAreTheSame) {
  for (const std::string_view layout : {"1x1", "1x4", "1x7", "1x64", "3x1", "33x1", "200x1", "4x2",
                                        "3x3", "128x4", "3,1,2", "8,8,7"}) {
    const Shape shape = laid_out(layout);
    for (const bool costs_cores : {false, true}) {
      std::vector<std::string> notes;
      RulesJob job;
      job.layout = shape.describe();
      const RuleSection section = measure::built_in_rules(job, shape, costs_cores, notes);
      EXPECT_EQ(notes.size(), section.rules.size());
      const auto read = parse_rules(to_text(section, notes));
      ASSERT_TRUE(read) << layout << ": " << read.error().message;
      const Rules rules = Rules::create(read->front(), shape).value();
      const std::vector<int64_t> sizes = sizes_to_compare(section);
      for (const Collective collective : kCollectives) {
        if (has_graph(collective)) continue;
        for (const int64_t bytes : sizes) {
          const CallFacts facts{.collective = collective,
                                .shape = shape,
                                .block_bytes = size_to_choose_by(collective, bytes),
                                .costs_cores = costs_cores};
          const Choice own = choose(facts);
          const Choice by_rule = choose(facts, {.rules = &rules, .rule_bytes = bytes});
          ASSERT_EQ(by_rule.source, ChoiceSource::kRule);
          const bool paced = look_up_algorithm(collective, own.algorithm)->paced;
          ASSERT_TRUE(by_rule.algorithm == own.algorithm && by_rule.pieces == own.pieces &&
                      (!paced || by_rule.options.pacing == own.options.pacing))
              << to_string(collective) << " of " << bytes << " on " << layout << ": by rule "
              << by_rule.algorithm << ", " << by_rule.pieces << " pieces, by the table "
              << own.algorithm << ", " << own.pieces;
        }
      }
    }
  }
}

/// UPDATE_GOLDEN=1 writes the file instead.
TEST(Choices, AreThoseOfTheList) {
  const std::string now = all_choices();
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(write_file(kGolden, now));
  }
  const auto golden = read_input(kGolden);
  ASSERT_TRUE(golden) << golden.error().message;
  EXPECT_EQ(first_difference(now, *golden), "")
      << "where that is meant: UPDATE_GOLDEN=1 choices_test, and say why in the commit";
}

}  // namespace
}  // namespace ibcoll
