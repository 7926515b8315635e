#include "topology/distort.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>
#include <vector>

namespace ibcoll::topology {

namespace {

constexpr double kMostError = 0.95;
/// Fewer figures may well all differ.
constexpr size_t kFewestToJudge = 8;
/// The mean of so many figures is nearly right.
constexpr size_t kFewest = 3;
/// What this part of the error adds to the bandwidth of fewer, between switches: a plan goes no
/// faster than the link it was made for, so too narrow a link costs time, too wide a one some
/// waiting in the switch.
constexpr double kHope = 2.0 / 3;

Status check_error(double r) {
  if (r >= 0 && r <= kMostError) return {};
  return fail(ErrorCode::kInvalidArgument, "inputs wrong by {}: must be 0 to {}", r, kMostError);
}

/// By cable: links 2 c and 2 c + 1.
void figures_of(const Fabric& fabric, std::vector<double>& bandwidths,
                std::vector<double>& latencies) {
  for (int l = 0; l < fabric.links(); l += 2) {
    bandwidths.push_back(fabric.link(l).bandwidth);
    latencies.push_back(static_cast<double>(fabric.link(l).latency_ns));
  }
}

/// Replaces values that may be the same by their mean, the least first; few times `few` of it.
void merge(std::vector<double*>& values, double r, double few) {
  std::sort(values.begin(), values.end(), [](double* a, double* b) { return *a < *b; });
  for (size_t begin = 0, end = 0; begin < values.size(); begin = end) {
    const double most = *values[begin] * (1 + r) / (1 - r);
    double sum = 0;
    for (; end < values.size() && *values[end] <= most; ++end) sum += *values[end];
    const size_t count = end - begin;
    const double mean = sum / static_cast<double>(count) * (count < kFewest ? few : 1);
    for (size_t i = begin; i < end; ++i) *values[i] = mean;
  }
}

/// Whether most values stand for one cable alone, as measured ones do.
bool mostly_alone(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t alone = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool as_before = i > 0 && values[i] == values[i - 1];
    const bool as_after = i + 1 < values.size() && values[i] == values[i + 1];
    alone += !as_before && !as_after;
  }
  return values.size() >= kFewestToJudge && 2 * alone > values.size();
}

/// Merges figures of each kind of cables, bandwidths by errors of `of_bandwidth`.
Fabric merge_figures(const Fabric& fabric, double of_bandwidth, double of_latency) {
  const size_t cables = static_cast<size_t>(fabric.links()) / 2;
  std::vector<double> bandwidths, latencies;
  figures_of(fabric, bandwidths, latencies);
  for (const bool of_hosts : {true, false}) {
    std::vector<double*> bandwidth, latency;
    for (size_t c = 0; c < cables; ++c) {
      const Link& link = fabric.link(static_cast<int>(2 * c));
      if ((fabric.is_host(link.from) || fabric.is_host(link.to)) != of_hosts) continue;
      bandwidth.push_back(&bandwidths[c]);
      latency.push_back(&latencies[c]);
    }
    if (of_bandwidth > 0) merge(bandwidth, of_bandwidth, of_hosts ? 1 : 1 + kHope * of_bandwidth);
    if (of_latency > 0) merge(latency, of_latency, 1);
  }
  std::vector<CableFigures> figures;
  for (size_t c = 0; c < cables; ++c) {
    figures.push_back({bandwidths[c], std::llround(latencies[c])});
  }
  return fabric.with_figures(figures);
}

}  // namespace

Result<Fabric> distort(const Fabric& fabric, double r, uint64_t seed) {
  IBCOLL_TRY(check_error(r));
  std::mt19937_64 random(seed);
  const auto wrong = [&](double x) {
    const double drawn = static_cast<double>(random() >> 11) * 0x1p-53;
    return ((2 * drawn - 1) * r + 1) * x;
  };
  std::vector<CableFigures> figures;
  for (int l = 0; l < fabric.links(); l += 2) {
    const double bandwidth = wrong(fabric.link(l).bandwidth);
    const auto latency = static_cast<double>(fabric.link(l).latency_ns);
    figures.push_back({bandwidth, std::llround(wrong(latency))});
  }
  return fabric.with_figures(figures);
}

Result<Fabric> merge_alike(const Fabric& fabric, double r) {
  IBCOLL_TRY(check_error(r));
  return merge_figures(fabric, r, r);
}

Result<Fabric> believe(const Fabric& fabric, std::optional<double> error) {
  if (error) return merge_alike(fabric, *error);
  std::vector<double> bandwidths, latencies;
  figures_of(fabric, bandwidths, latencies);
  return merge_figures(fabric, mostly_alone(std::move(bandwidths)) ? kUsualError : 0,
                       mostly_alone(std::move(latencies)) ? kUsualError : 0);
}

Result<std::optional<double>> parse_error(std::string_view text, std::string_view name) {
  if (text == "auto") return std::nullopt;
  double error = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), error);
  if (code == std::errc() && end == text.data() + text.size() && error >= 0 &&
      error <= kMostError) {
    return error;
  }
  return fail(ErrorCode::kInvalidArgument, "{} '{}': auto, or 0 to {}", name, text, kMostError);
}

}  // namespace ibcoll::topology
