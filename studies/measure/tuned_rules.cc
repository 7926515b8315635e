// Rules of what was measured, and judgement of rules.

#include <algorithm>
#include <cmath>

#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "studies/measure/candidates.h"
#include "studies/measure/tuning.h"

namespace ibcoll::measure {
namespace {

/// Half way on a scale of powers.
int64_t between(int64_t low, int64_t high) {
  const double middle =
      std::sqrt(static_cast<double>(std::max<int64_t>(low, 1)) * static_cast<double>(high));
  return std::clamp<int64_t>(std::llround(middle), low, high - 1);
}

/// A rule and what people are told of it.
struct Noted {
  Rule rule;
  std::string note;
};

std::string note_on(double ratio, size_t sizes, std::string_view own) {
  return fmt::format("{:.2f} of the time of {}, in the mean of {} size{}", ratio, own, sizes,
                     sizes == 1 ? "" : "s");
}

/// Of one collective whose sizes count, ascending.
std::vector<Noted> ranges_of(const std::vector<const TunePoint*>& points) {
  std::vector<Noted> rules;
  for (size_t first = 0; first < points.size();) {
    const Rule& choice = points[first]->contenders[points[first]->choice];
    const bool own = points[first]->choice == 0;
    size_t end = first;
    std::vector<double> ratios;
    for (; end < points.size(); ++end) {
      const TunePoint& point = *points[end];
      if ((point.choice == 0) != own) break;
      if (!own && !same_choice(point.contenders[point.choice], choice)) break;
      ratios.push_back(point.score[point.choice]);
    }
    if (!own) {
      Rule rule = choice;
      const auto border = [&](size_t behind) {
        return between(points[behind - 1]->rule_bytes, points[behind]->rule_bytes);
      };
      rule.from = first == 0 ? 0 : border(first) + 1;
      rule.to = end == points.size() ? points[end - 1]->rule_bytes : border(end);
      rules.push_back({rule, note_on(geometric_mean(ratios), ratios.size(),
                                     points[first]->contenders[0].describe())});
    }
    first = end;
  }
  return rules;
}

/// Of one collective whose sizes don't count: the contenders are the same at all of them.
std::vector<Noted> one_for_all(const std::vector<const TunePoint*>& points) {
  const std::vector<Rule>& contenders = points.front()->contenders;
  size_t best = 0;
  double best_mean = 1 - Race::kWorth;
  for (size_t i = 1; i < contenders.size(); ++i) {
    std::vector<double> scores;
    for (const TunePoint* point : points) scores.push_back(point->score[i]);
    const double mean = geometric_mean(scores);
    // Faster by half at one size and slower by half at another is no gain.
    if (mean >= best_mean || maximum(scores) > Judgement::kNear) continue;
    best = i;
    best_mean = mean;
  }
  if (best == 0) return {};
  return {{contenders[best], note_on(best_mean, points.size(), contenders[0].describe())}};
}

}  // namespace

RuleSection rules_of(const std::vector<TunePoint>& points, const RulesJob& job,
                     std::vector<std::string>& notes) {
  RuleSection section;
  section.job = job;
  notes.clear();
  for (const Collective collective : kCollectives) {
    std::vector<const TunePoint*> of_it;
    for (const TunePoint& point : points) {
      if (point.collective != collective) continue;
      // Short blocks of different lengths may have the same mean.
      if (has_sizes(collective) && !of_it.empty() && of_it.back()->rule_bytes == point.rule_bytes)
        continue;
      of_it.push_back(&point);
    }
    if (of_it.empty()) continue;
    for (Noted& one : has_sizes(collective) ? ranges_of(of_it) : one_for_all(of_it)) {
      section.rules.push_back(std::move(one.rule));
      notes.push_back(std::move(one.note));
    }
  }
  return section;
}

bool is_near(const TunePoint& point) {
  return point.regret <= Judgement::kNear || point.sure_regret <= 1;
}

Judgement judge(const std::vector<TunePoint>& points) {
  Judgement all;
  for (const TunePoint& point : points) {
    ++all.points;
    if (is_near(point)) ++all.within;
    if (point.regret <= all.worst) continue;
    all.worst = point.regret;
    all.worst_at = fmt::format("{} of {}", to_string(point.collective), format_size(point.bytes));
  }
  return all;
}

}  // namespace ibcoll::measure
