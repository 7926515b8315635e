#include "topology/distort.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "topology/readers/readers.h"

namespace ibcoll::topology {

namespace {

Status check_error(double r) {
  if (r >= 0 && r <= 0.95) return {};
  return fail(ErrorCode::kInvalidArgument, "inputs wrong by {}: must be 0 to 0.95", r);
}

/// Replaces values that may be the same by their mean, the least first.
void merge(std::vector<double*>& values, double r) {
  std::sort(values.begin(), values.end(), [](double* a, double* b) { return *a < *b; });
  for (size_t begin = 0, end = 0; begin < values.size(); begin = end) {
    const double most = *values[begin] * (1 + r) / (1 - r);
    double sum = 0;
    for (; end < values.size() && *values[end] <= most; ++end) sum += *values[end];
    const double mean = sum / static_cast<double>(end - begin);
    for (size_t i = begin; i < end; ++i) *values[i] = mean;
  }
}

}  // namespace

Result<Fabric> distort(const Fabric& fabric, double r, uint64_t seed) {
  IBCOLL_TRY(check_error(r));
  std::mt19937_64 random(seed);
  const auto wrong = [&](double x) {
    const double drawn = static_cast<double>(random() >> 11) * 0x1p-53;
    return ((2 * drawn - 1) * r + 1) * x;
  };
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(write_json(fabric));
  for (auto& cable : json.at("cables")) {
    cable["bandwidth"] = wrong(cable.at("bandwidth").get<double>());
    cable["latency_ns"] = std::llround(wrong(cable.at("latency_ns").get<double>()));
  }
  return read_json(json.dump(), fabric.name());
}

Result<Fabric> merge_alike(const Fabric& fabric, double r) {
  IBCOLL_TRY(check_error(r));
  // Cable i of the file is links 2 i and 2 i + 1.
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(write_json(fabric));
  auto& cables = json.at("cables");
  std::vector<double> bandwidths, latencies;
  for (const auto& cable : cables) {
    bandwidths.push_back(cable.at("bandwidth").get<double>());
    latencies.push_back(cable.at("latency_ns").get<double>());
  }
  for (const bool of_hosts : {true, false}) {
    std::vector<double*> bandwidth, latency;
    for (size_t i = 0; i < cables.size(); ++i) {
      const Link& link = fabric.link(static_cast<int>(2 * i));
      if ((fabric.is_host(link.from) || fabric.is_host(link.to)) != of_hosts) continue;
      bandwidth.push_back(&bandwidths[i]);
      latency.push_back(&latencies[i]);
    }
    merge(bandwidth, r);
    merge(latency, r);
  }
  for (size_t i = 0; i < cables.size(); ++i) {
    cables[i]["bandwidth"] = bandwidths[i];
    cables[i]["latency_ns"] = std::llround(latencies[i]);
  }
  return read_json(json.dump(), fabric.name());
}

}  // namespace ibcoll::topology
