#include "studies/drawing/plot_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/units.h"

namespace ibcoll {
namespace {

/// The smallest "nice" step that is at least `least`: 1, 2 or 5 times a power of ten, or, for
/// sizes, a power of two.
double nice_step(double least, TickLabels labels) {
  if (labels == TickLabels::kSize) return std::exp2(std::ceil(std::log2(std::max(least, 1.0))));
  const double decade = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * decade >= least * (1 - 1e-9)) return factor * decade;
  }
  return 10 * decade;
}

/// A number of four to six digits with a space between the thousands, rounded to a whole one.
std::string grouped(double value) {
  const int64_t whole = std::llround(std::abs(value));
  return fmt::format("{}{} {:03}", value < 0 ? "-" : "", whole / 1000, whole % 1000);
}

/// "1e7", "2.5e-6".
std::string scientific(double value) {
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value)) + 1e-9));
  return fmt::format("{:.3g}e{}", value / std::pow(10, exponent), exponent);
}

}  // namespace

std::string tick_label(double value, TickLabels labels) {
  if (labels == TickLabels::kSize && value >= 1 && value == std::floor(value) && value < 0x1p62) {
    return format_size(static_cast<int64_t>(value));
  }
  if (std::abs(value) < 1e-12) return "0";
  if (std::abs(value) >= 1e6 || std::abs(value) < 1e-4) return scientific(value);
  if (std::abs(value) >= 1000) return grouped(value);
  return fmt::format("{:.4g}", value);
}

ScaledAxis::ScaledAxis(const Axis& axis, double low, double high, int max_ticks)
    : scale_(axis.scale), low_(axis.low.value_or(low)), high_(axis.high.value_or(high)) {
  max_ticks = std::max(max_ticks, 2);
  if (low_ > high_) std::swap(low_, high_);
  if (scale_ == Scale::kLinear) {
    fit_linear(axis, max_ticks);
  } else {
    fit_log(axis, max_ticks, scale_ == Scale::kLog2 ? 2 : 10);
  }
}

void ScaledAxis::fit_linear(const Axis& axis, int max_ticks) {
  if (low_ == high_) high_ = low_ == 0 ? 1 : low_ + std::abs(low_);
  const double step = nice_step((high_ - low_) / max_ticks, axis.ticks);
  if (!axis.low) low_ = std::floor(low_ / step + 1e-9) * step;
  if (!axis.high) high_ = std::ceil(high_ / step - 1e-9) * step;
  const auto first = static_cast<int64_t>(std::ceil(low_ / step - 1e-9));
  const auto last = static_cast<int64_t>(std::floor(high_ / step + 1e-9));
  for (int64_t tick = first; tick <= last; ++tick) {
    const double value = static_cast<double>(tick) * step;
    ticks_.push_back({value, tick_label(value, axis.ticks)});
  }
}

void ScaledAxis::fit_log(const Axis& axis, int max_ticks, double base) {
  const auto power = [base](double value) { return std::log(value) / std::log(base); };
  if (!axis.low) low_ = std::pow(base, std::floor(power(low_) + 1e-9));
  if (!axis.high) high_ = std::pow(base, std::ceil(power(high_) - 1e-9));
  if (low_ == high_) high_ *= base;
  const int first = static_cast<int>(std::ceil(power(low_) - 1e-9));
  const int last = static_cast<int>(std::floor(power(high_) + 1e-9));
  const int stride = std::max(1, (last - first + max_ticks - 1) / max_ticks);
  // Within few decades powers of ten alone say little: label 2 and 5 times each, too.
  const bool fine = base == 10 && last - first <= 2;
  for (int exponent = first - 1; exponent <= last; ++exponent) {
    const double value = std::pow(base, exponent);
    if (exponent >= first) {
      const bool labelled = (exponent - first) % stride == 0;
      ticks_.push_back({value, labelled ? tick_label(value, axis.ticks) : ""});
    }
    if (base != 10 || stride > 1) continue;
    for (int factor = 2; factor < 10; ++factor) {
      const double minor = factor * value;
      if (minor < low_ || minor > high_) continue;
      const bool labelled = fine && (factor == 2 || factor == 5);
      ticks_.push_back({minor, labelled ? tick_label(minor, axis.ticks) : ""});
    }
  }
}

double ScaledAxis::fraction(double value) const {
  if (scale_ == Scale::kLinear) return (value - low_) / (high_ - low_);
  return std::log(value / low_) / std::log(high_ / low_);
}

bool ScaledAxis::drawable(double value) const {
  return std::isfinite(value) && (scale_ == Scale::kLinear || value > 0);
}

}  // namespace ibcoll
