#pragma once
/// Fabrics whose figures are not quite known.

#include <cstdint>
#include <optional>
#include <string_view>

#include "topology/fabric.h"

namespace ibcoll::topology {

/// The same fabric as somebody would describe who is wrong about it: the bandwidth and the latency
/// x of each cable are ((2R - 1) r + 1) x, with R drawn evenly from [0, 1) for each (section 6.4 of
/// the thesis on contention-free collectives). Refuses r outside 0 to 0.95.
Result<Fabric> distort(const Fabric& fabric, double r, uint64_t seed);

/// The other way round: cables of one kind (of hosts, between switches) whose bandwidths differ by
/// no more than errors of `r` explain, (1 + r) / (1 - r) from the least to the most of them, are
/// taken to have the same, their mean; latencies likewise. Between switches a bandwidth that only
/// one or two have is raised by two thirds of r: of a single link too wide costs a plan less time
/// than too narrow. Refuses
/// r outside 0 to 0.95.
Result<Fabric> merge_alike(const Fabric& fabric, double r);

/// How far measured figures may be off where nobody says it.
inline constexpr double kUsualError = 0.3;

/// The fabric that it is wise to plan for. Without an `error`: bandwidths that repeat are what
/// cables were built for, but where most of eight or more stand for one cable alone they were
/// measured, and are merged as by merge_alike with kUsualError; latencies likewise. With one:
/// merge_alike(fabric, *error), whatever the figures look like; 0 takes every difference for real.
Result<Fabric> believe(const Fabric& fabric, std::optional<double> error);

/// "auto" (none) or a number from 0 to 0.95. `name` is what the error calls it.
Result<std::optional<double>> parse_error(std::string_view text, std::string_view name);

}  // namespace ibcoll::topology
