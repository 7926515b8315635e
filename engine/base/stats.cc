#include "engine/base/stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace ibcoll {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::vector<double> sorted(std::span<const double> samples) {
  std::vector<double> values(samples.begin(), samples.end());
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

double minimum(std::span<const double> samples) {
  return samples.empty() ? kNone : *std::min_element(samples.begin(), samples.end());
}

double maximum(std::span<const double> samples) {
  return samples.empty() ? kNone : *std::max_element(samples.begin(), samples.end());
}

double mean(std::span<const double> samples) {
  if (samples.empty()) return kNone;
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double quantile(std::span<const double> samples, double q) {
  if (samples.empty()) return kNone;
  const std::vector<double> values = sorted(samples);
  const double position = std::clamp(q, 0.0, 1.0) * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], position - static_cast<double>(below));
}

double median(std::span<const double> samples) { return quantile(samples, 0.5); }

double trimmed_mean(std::span<const double> samples, double fraction) {
  const std::vector<double> values = sorted(samples);
  const auto cut = static_cast<size_t>(std::clamp(fraction, 0.0, 0.5) * values.size());
  if (2 * cut >= values.size()) return median(samples);
  return mean(std::span(values).subspan(cut, values.size() - 2 * cut));
}

double geometric_mean(std::span<const double> samples) {
  double sum = 0;
  for (const double sample : samples) {
    if (!(sample > 0)) return kNone;
    sum += std::log(sample);
  }
  return samples.empty() ? kNone : std::exp(sum / static_cast<double>(samples.size()));
}

double standard_deviation(std::span<const double> samples) {
  if (samples.size() == 1) return 0;
  const double center = mean(samples);
  double sum = 0;
  for (const double sample : samples) sum += (sample - center) * (sample - center);
  return samples.empty() ? kNone : std::sqrt(sum / static_cast<double>(samples.size() - 1));
}

}  // namespace ibcoll
