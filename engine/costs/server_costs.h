#pragma once
/// Where a server's costs come from: a file, an earlier job, or a measurement.

#include <sched.h>

#include <optional>
#include <string>

#include "engine/costs/machine_costs.h"

namespace ibcoll {

/// What IBCOLL_COSTS may name besides a file.
inline constexpr const char* kCostsOff = "off";
inline constexpr const char* kCostsMeasured = "measure";

/// The costs between the cores of a server's ranks, which may use these processors, as far apart as
/// the most distant ones; nothing: they are not known. `setting`: that of IBCOLL_COSTS. Where they
/// are measured nothing that goes wrong is an error. A file that can't be read or is not valid is.
Result<std::optional<PairCosts>> server_costs(const std::string& setting,
                                              const cpu_set_t& processors);

/// Where jobs of this user keep what they have measured for these processors of this machine;
/// empty: nowhere, for neither XDG_CACHE_HOME nor HOME names a directory.
std::string kept_costs_path(const cpu_set_t& processors);
/// What is kept there, unless it is older than an hour, not valid, or no file of this user's that
/// only they can write.
std::optional<MachineCosts> kept_costs(const std::string& path);
/// Keeps costs whose figures agree, for this user alone; without effect where that can't be done.
void keep_costs(const std::string& path, const MachineCosts& costs);

}  // namespace ibcoll
