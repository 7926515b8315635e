#pragma once
/// What a machine is, for programs that read results.

#include <nlohmann/json.hpp>

#include "engine/bootstrap/machine_info.h"

namespace ibcoll {

/// The object of kind "machine" that `ib_info --json` writes, too.
nlohmann::ordered_json machine_line(const MachineInfo& host);

}  // namespace ibcoll
