#pragma once
/// Statistics of measured samples. The samples need no order; of none, every figure is NaN.

#include <span>

namespace ibcoll {

double minimum(std::span<const double> samples);
double maximum(std::span<const double> samples);
double mean(std::span<const double> samples);

/// The value below which the fraction `q` (0 to 1) of the samples lies, interpolated between the
/// two samples next to it; 0.5 is the median.
double quantile(std::span<const double> samples, double q);
double median(std::span<const double> samples);

/// The mean of what is left without the lowest and the highest `fraction` (0 up to, not including,
/// 0.5) of the samples, rounded down to whole samples at each end.
double trimmed_mean(std::span<const double> samples, double fraction);

/// The n-th root of the product, for ratios; NaN unless all samples are positive.
double geometric_mean(std::span<const double> samples);

/// Standard deviation of a sample (n - 1 below the line); 0 for one sample.
double standard_deviation(std::span<const double> samples);

}  // namespace ibcoll
