#include "studies/measure/tuning.h"

#include <algorithm>
#include <cmath>

#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "studies/measure/bench_buffers.h"
#include "studies/measure/candidates.h"
#include "studies/measure/timed_calls.h"

namespace ibcoll::measure {
namespace {

/// Even where the time is up.
constexpr size_t kLeastRounds = 5;
/// How a machine shares out its cores may suit one contender for longer than a race lasts. So races
/// go on after each other, so many rounds at a time.
constexpr size_t kRoundsATurn = 3;

/// A race for one collective and size.
struct Contest {
  explicit Contest(const Traffic& what) : traffic(what) {}

  Traffic traffic;
  std::vector<Rule> contenders;
  std::vector<int64_t> calls;  ///< of each that fill a batch
  size_t judged = 0;
  std::optional<Race> race;  ///< none: not begun
  bool over = false;
};

/// One rank's side.
class RankTuner {
 public:
  RankTuner(Bootstrap& bootstrap, Context& context, const TuneSettings& settings)
      : bootstrap_(bootstrap), context_(context), settings_(settings), calls_(bootstrap, context) {}

  Status prepare() { return calls_.prepare(); }

  Status use_buffers(const Traffic& largest) {
    buffers_.reset();
    buffers_.emplace(bootstrap_.rank(), bootstrap_.size());
    return buffers_->allocate(context_, largest, false);
  }

  /// A few rounds, fewer where `until_ns` has come on rank 0's clock.
  Status go_on(Contest& contest, int64_t until_ns) {
    arguments_ = buffers_->arguments(contest.traffic);
    if (!contest.race) IBCOLL_TRY(begin(contest));
    Race& race = *contest.race;
    const size_t most = static_cast<size_t>(settings_.rounds), end = race.rounds() + kRoundsATurn;
    bool late = false;
    while (!contest.over && !late && race.rounds() < end) {
      IBCOLL_ASSIGN(late, add_round(contest, until_ns));
      contest.over = race.rounds() >= most || contest.contenders.size() == 1;
    }
    contest.over |= late && race.rounds() >= kLeastRounds;
    return use({}, true);
  }

 private:
  Status begin(Contest& contest) {
    IBCOLL_TRY(use({}, true));
    IBCOLL_TRY(calls_.call(arguments_));
    const Rules* const rules = settings_.judged ? &*settings_.judged : nullptr;
    contest.contenders = contenders_of(contest.traffic, context_.shape(), own_rule(contest.traffic),
                                       rules, &contest.judged);
    IBCOLL_ASSIGN(contest.calls, warm_up(contest.contenders));
    contest.race.emplace(contest.contenders.size(), std::span(&contest.judged, 1));
    return {};
  }

  /// What the engine has just chosen by itself: on a network that is known that may be a plan.
  Rule own_rule(const Traffic& traffic) {
    Rule own = own_choice_of(traffic, context_.shape());
    const std::string_view ran = calls_.last().plan().program->algorithm;
    if (ran == own.algorithm->name) return own;
    own = {};
    own.collective = traffic.collective();
    own.algorithm = find_algorithm(own.collective, ran).value();
    return own;
  }

  /// Whether the time is up.
  Result<bool> add_round(Contest& contest, int64_t until_ns) {
    Race& race = *contest.race;
    const std::vector<size_t> running = race.running();
    std::vector<double> times(running.size() + 1);
    for (size_t i = 0; i < running.size(); ++i) {
      // Another one begins each time.
      const size_t turn = (i + race.rounds()) % running.size();
      const size_t which = running[turn];
      IBCOLL_TRY(use(contest.contenders[which], which == 0));
      IBCOLL_TRY(calls_.call(arguments_));
      IBCOLL_TRY(calls_.synchronise());
      IBCOLL_ASSIGN(times[turn], calls_.batch(arguments_, contest.calls[which]));
    }
    times.back() = bootstrap_.rank() == 0 && now_ns() > until_ns ? 1 : 0;
    IBCOLL_TRY(take_slowest(bootstrap_, times));
    race.add_round({times.data(), running.size()});
    return times.back() > 0;
  }

  /// Has the next calls run what a rule says, as a file of rules would.
  Status use(Rule rule, bool own) {
    if (own) {
      context_.plan_sources().rules = {};
    } else {
      rule.from = 0;
      rule.to = INT64_MAX;
      RuleSection section;
      section.rules.push_back(std::move(rule));
      IBCOLL_ASSIGN(Rules rules, Rules::create(section, context_.shape()));
      context_.plan_sources().rules = std::move(rules);
    }
    context_.world().plans().forget();
    return {};
  }

  /// How many calls of each fill a batch.
  Result<std::vector<int64_t>> warm_up(const std::vector<Rule>& contenders) {
    std::vector<double> times(contenders.size());
    for (size_t i = 0; i < contenders.size(); ++i) {
      IBCOLL_TRY(use(contenders[i], i == 0));
      for (int call = 0; call < 2; ++call) IBCOLL_TRY(calls_.call(arguments_));
      IBCOLL_TRY(calls_.synchronise());
      IBCOLL_ASSIGN(const double first, calls_.batch(arguments_, 1));
      IBCOLL_ASSIGN(const double more, calls_.batch(arguments_, 3));
      times[i] = std::min(first, more);
    }
    IBCOLL_TRY(take_slowest(bootstrap_, times));
    std::vector<int64_t> calls;
    for (const double each : times) {
      calls.push_back(std::clamp<int64_t>(
          std::llround(static_cast<double>(settings_.batch_ns) / std::max(each, 1.0)), 1, 10'000));
    }
    return calls;
  }

  Bootstrap& bootstrap_;
  Context& context_;
  const TuneSettings& settings_;
  TimedCalls calls_;
  std::optional<BenchBuffers> buffers_;
  CallArguments arguments_;
};

/// Sizes of a collective ascend.
const Traffic& largest_of(const std::vector<Contest>& contests, Collective collective) {
  const auto last = std::find_if(contests.rbegin(), contests.rend(), [&](const Contest& one) {
    return one.traffic.collective() == collective;
  });
  return last->traffic;
}

}  // namespace

std::vector<int64_t> sizes_of(Collective collective, const std::vector<int64_t>& sizes) {
  if (!moves_data(collective)) return {0};
  std::vector<int64_t> all = sizes;
  const int64_t grain = element_bytes(collective);
  for (int64_t& size : all) size = (size + grain - 1) / grain * grain;
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

Rule own_choice_of(const Traffic& traffic, const Shape& shape) {
  const Collective collective = traffic.collective();
  return own_choice(collective, shape, size_to_choose_by(collective, traffic.mean_bytes()));
}

std::vector<Rule> contenders_of(const Traffic& traffic, const Shape& shape, const Rule& own,
                                const Rules* judged, size_t* which) {
  const Collective collective = traffic.collective();
  const int64_t mean = traffic.mean_bytes(), block_bytes = size_to_choose_by(collective, mean);
  std::vector<Rule> all{own};
  for (Rule& rule : other_choices(own, shape, block_bytes)) all.push_back(std::move(rule));
  *which = 0;
  if (judged == nullptr) return all;
  const Choice choice =
      choose({collective, shape, block_bytes}, {.rules = judged, .rule_bytes = mean});
  if (choice.source != ChoiceSource::kRule) return all;
  const Rule rule = as_rule(collective, shape, block_bytes, choice);
  while (*which < all.size() && !same_choice(all[*which], rule)) ++*which;
  if (*which == all.size()) all.push_back(rule);
  return all;
}

TunePoint conclude(const Traffic& traffic, std::vector<Rule> contenders, size_t judged,
                   const Race& race) {
  constexpr double kNsPerUs = 1000, kSure = 0.25;
  TunePoint point;
  point.collective = traffic.collective();
  point.bytes = traffic.bytes_per_pair();
  point.rule_bytes = traffic.mean_bytes();
  point.contenders = std::move(contenders);
  for (size_t i = 0; i < point.contenders.size(); ++i) point.score.push_back(race.score(i));
  point.choice = race.choice();
  point.fastest = race.fastest();
  point.judged = judged;
  point.own_us = race.median_time(0) / kNsPerUs;
  point.choice_us = race.median_time(point.choice) / kNsPerUs;
  point.fastest_us = race.median_time(point.fastest) / kNsPerUs;
  point.judged_us = race.median_time(judged) / kNsPerUs;
  point.rounds = race.rounds();
  const std::vector<double> regrets = race.ratios(judged, point.fastest);
  point.regret = std::max(1.0, median(regrets));
  point.sure_regret = std::max(1.0, quantile(regrets, kSure));
  return point;
}

Result<std::vector<TunePoint>> measure_choices(
    Bootstrap& bootstrap, Context& context, const TuneSettings& settings,
    const std::function<void(const TunePoint&)>& on_point,
    const std::function<void(const std::string&)>& on_progress) {
  const bool first = bootstrap.rank() == 0;
  std::vector<Contest> contests;
  for (const Collective collective : settings.collectives)
    for (const int64_t bytes : sizes_of(collective, settings.sizes))
      contests.emplace_back(Traffic(collective, bootstrap.size(), bytes, 0));
  const int64_t end_ns = now_ns() + settings.budget_ns;
  const auto turns_of = [&](const Contest& contest) {
    const size_t rounds = contest.race ? contest.race->rounds() : 0;
    const auto left = static_cast<size_t>(settings.rounds) - rounds;
    return contest.over ? 0 : static_cast<int64_t>((left + kRoundsATurn - 1) / kRoundsATurn);
  };
  RankTuner tuner(bootstrap, context, settings);
  IBCOLL_TRY(tuner.prepare());
  std::vector<TunePoint> points(contests.size());
  for (size_t over = 0; over < contests.size();) {
    std::optional<Collective> buffers_for;
    for (size_t i = 0; i < contests.size(); ++i) {
      Contest& contest = contests[i];
      if (contest.over) continue;
      const Collective collective = contest.traffic.collective();
      if (buffers_for != collective)
        IBCOLL_TRY(tuner.use_buffers(largest_of(contests, collective)));
      buffers_for = collective;
      if (first) {
        on_progress(fmt::format("{} of {}", to_string(collective),
                                format_size(contest.traffic.bytes_per_pair())));
      }
      int64_t turns = 0;
      for (const Contest& one : contests) turns += turns_of(one);
      const int64_t now = now_ns();
      IBCOLL_TRY(tuner.go_on(contest, now + std::max<int64_t>(0, end_ns - now) / turns));
      if (!contest.over) continue;
      ++over;
      points[i] = conclude(contest.traffic, contest.contenders, contest.judged, *contest.race);
      if (first) on_point(points[i]);
    }
  }
  return points;
}

}  // namespace ibcoll::measure
