#include "engine/measure/tuning.h"

#include <algorithm>
#include <cmath>

#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "engine/measure/bench_buffers.h"
#include "engine/measure/candidates.h"
#include "engine/measure/timed_calls.h"

namespace ibcoll::measure {
namespace {

/// Even where the time is up.
constexpr size_t kLeastRounds = 5;

/// One rank's side.
class RankTuner {
 public:
  RankTuner(Bootstrap& bootstrap, Context& context, const TuneRequest& request)
      : bootstrap_(bootstrap), context_(context), request_(request), calls_(bootstrap, context) {}

  Status prepare() { return calls_.prepare(); }

  Status use_buffers(const Traffic& largest) {
    buffers_.emplace(bootstrap_.rank(), bootstrap_.size());
    return buffers_->allocate(context_, largest, false);
  }

  /// Until `until_ns`, on rank 0's clock.
  Result<TunePoint> measure(Collective collective, int64_t bytes, int64_t until_ns) {
    size_t judged = 0;
    const Rules* const rules = request_.judged ? &*request_.judged : nullptr;
    const std::vector<Rule> contenders =
        contenders_of(collective, context_.shape(), bytes, rules, &judged);
    arguments_ = buffers_->arguments(Traffic(collective, bootstrap_.size(), bytes, 0));
    IBCOLL_ASSIGN(const std::vector<int64_t> calls, warm_up(contenders));
    Race race(contenders.size(), {&judged, 1});
    for (bool goes_on = true; goes_on;) {
      const std::vector<size_t> running = race.running();
      std::vector<double> times(running.size() + 1);
      for (size_t i = 0; i < running.size(); ++i) {
        // Another one begins each time.
        const size_t turn = (i + race.rounds()) % running.size();
        const size_t which = running[turn];
        IBCOLL_TRY(use(contenders[which], which == 0));
        IBCOLL_TRY(calls_.call(arguments_));
        IBCOLL_TRY(calls_.synchronise());
        IBCOLL_ASSIGN(times[turn], calls_.batch(arguments_, calls[which]));
      }
      const bool late = bootstrap_.rank() == 0 && now_ns() > until_ns;
      times.back() = late ? 1 : 0;
      IBCOLL_TRY(take_slowest(bootstrap_, times));
      race.add_round({times.data(), running.size()});
      const bool enough = race.rounds() >= kLeastRounds && times.back() > 0;
      goes_on =
          !enough && race.rounds() < static_cast<size_t>(request_.rounds) && contenders.size() > 1;
    }
    IBCOLL_TRY(use({}, true));
    return conclude(collective, bytes, contenders, judged, race);
  }

 private:
  /// Has the next calls run what a rule says, as a file of rules would.
  Status use(Rule rule, bool own) {
    if (own) {
      context_.use_rules({});
    } else {
      rule.from = 0;
      rule.to = INT64_MAX;
      RuleSection section;
      section.rules.push_back(std::move(rule));
      IBCOLL_ASSIGN(Rules rules, Rules::create(section, context_.shape()));
      context_.use_rules(std::move(rules));
    }
    context_.world().forget_call_plans();
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
          std::llround(static_cast<double>(request_.batch_ns) / std::max(each, 1.0)), 1, 10'000));
    }
    return calls;
  }

  Bootstrap& bootstrap_;
  Context& context_;
  const TuneRequest& request_;
  TimedCalls calls_;
  std::optional<BenchBuffers> buffers_;
  CallArguments arguments_;
};

}  // namespace

std::vector<int64_t> sizes_of(Collective collective, const std::vector<int64_t>& sizes) {
  if (collective == Collective::kBarrier) return {0};
  std::vector<int64_t> all = sizes;
  const int64_t grain = element_bytes(collective);
  for (int64_t& size : all) size = (size + grain - 1) / grain * grain;
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::vector<Rule> contenders_of(Collective collective, const Shape& shape, int64_t bytes,
                                const Rules* judged, size_t* which) {
  const int64_t block_bytes = size_to_choose_by(collective, bytes);
  std::vector<Rule> all{own_choice(collective, shape, block_bytes)};
  for (Rule& rule : other_choices(collective, shape, block_bytes)) all.push_back(std::move(rule));
  *which = 0;
  if (judged == nullptr) return all;
  const Choice choice = choose(*judged, collective, shape, block_bytes, bytes);
  const Rule rule = as_rule(collective, shape, block_bytes, choice);
  while (*which < all.size() && !same_choice(all[*which], rule)) ++*which;
  if (*which == all.size()) all.push_back(rule);
  return all;
}

TunePoint conclude(Collective collective, int64_t bytes, std::vector<Rule> contenders,
                   size_t judged, const Race& race) {
  constexpr double kNsPerUs = 1000, kSure = 0.25;
  TunePoint point;
  point.collective = collective;
  point.bytes = bytes;
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
    Bootstrap& bootstrap, Context& context, const TuneRequest& request,
    const std::function<void(const TunePoint&)>& on_point,
    const std::function<void(const std::string&)>& on_progress) {
  const bool first = bootstrap.rank() == 0;
  size_t left = 0;
  for (const Collective one : request.collectives) left += sizes_of(one, request.sizes).size();
  const int64_t end_ns = now_ns() + request.budget_ns;
  RankTuner tuner(bootstrap, context, request);
  IBCOLL_TRY(tuner.prepare());
  std::vector<TunePoint> points;
  for (const Collective collective : request.collectives) {
    const std::vector<int64_t> sizes = sizes_of(collective, request.sizes);
    IBCOLL_TRY(tuner.use_buffers(Traffic(collective, bootstrap.size(), sizes.back(), 0)));
    for (const int64_t bytes : sizes) {
      if (first) on_progress(fmt::format("{} of {}", to_string(collective), format_size(bytes)));
      const int64_t now = now_ns();
      const int64_t share = std::max<int64_t>(0, end_ns - now) / static_cast<int64_t>(left--);
      IBCOLL_ASSIGN(TunePoint point, tuner.measure(collective, bytes, now + share));
      if (first) on_point(point);
      points.push_back(std::move(point));
    }
  }
  return points;
}

}  // namespace ibcoll::measure
