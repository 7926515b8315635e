#include "studies/measure/race.h"

#include <algorithm>
#include <numeric>

#include "engine/base/stats.h"

namespace ibcoll::measure {
namespace {

/// Those that take so many times as long in both of the first rounds cost time and win nothing.
constexpr double kHopeless = 3;
constexpr size_t kFirstHalving = 3, kBetweenHalvings = 2;
/// Of those that may be dropped so many stay to the end.
constexpr size_t kFinalists = 2;

}  // namespace

Race::Race(size_t contenders, std::span<const size_t> kept)
    : times_(contenders), kept_(contenders), running_(contenders) {
  std::iota(running_.begin(), running_.end(), size_t{0});
  kept_[0] = true;
  for (const size_t one : kept) kept_[one] = true;
}

void Race::add_round(std::span<const double> times) {
  for (size_t i = 0; i < running_.size(); ++i) times_[running_[i]].push_back(times[i]);
  ++rounds_;
  drop_slow();
}

/// Whoever has been dropped has no more times than rounds it ran in, so rounds are counted from the
/// first.
std::vector<double> Race::ratios(size_t one, size_t other) const {
  const std::vector<double>&a = times_[one], &b = times_[other];
  std::vector<double> all(std::min(a.size(), b.size()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = a[i] / b[i];
  return all;
}

double Race::median_time(size_t contender) const { return median(times_[contender]); }

double Race::score(size_t contender) const { return median(ratios(contender, 0)); }

void Race::drop_slow() {
  std::vector<size_t> free;
  for (const size_t one : running_)
    if (!kept_[one]) free.push_back(one);
  const auto drop = [&](size_t one) {
    running_.erase(std::find(running_.begin(), running_.end(), one));
  };
  if (rounds_ == kFirstHalving - 1) {
    double least = minimum(times_[0]);
    for (const size_t one : running_) least = std::min(least, minimum(times_[one]));
    for (const size_t one : free)
      if (minimum(times_[one]) > kHopeless * least) drop(one);
    return;
  }
  if (rounds_ < kFirstHalving || (rounds_ - kFirstHalving) % kBetweenHalvings != 0) return;
  if (free.size() <= kFinalists) return;
  std::stable_sort(free.begin(), free.end(),
                   [&](size_t a, size_t b) { return score(a) < score(b); });
  for (size_t i = std::max(kFinalists, (free.size() + 1) / 2); i < free.size(); ++i) drop(free[i]);
}

size_t Race::fastest() const {
  size_t best = 0;
  for (const size_t one : running_)
    if (score(one) < score(best)) best = one;
  return best;
}

size_t Race::choice() const {
  constexpr double kMostRounds = 0.75;
  const size_t best = fastest();
  const std::vector<double> against = ratios(best, 0);
  const bool better = median(against) < 1 - kWorth && quantile(against, kMostRounds) < 1;
  return better ? best : 0;
}

}  // namespace ibcoll::measure
