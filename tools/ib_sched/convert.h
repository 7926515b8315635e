#pragma once
/// ib_sched import and export: schedules in others' forms.

#include <cstdint>
#include <optional>
#include <string>

#include "engine/schedule/json.h"

namespace ibcoll::tools {

struct ConvertArguments {
  std::string file, format = "msccl-xml", name, collective, output;
  int64_t root = 0;
  bool goal = false;  ///< export: in GOAL's form
  std::string size;   ///< of a block, which GOAL writes in bytes
};

/// What a file in another form holds, proved. `layout`, `ranks`, `servers`, `placement`: which rank
/// is where, as other commands take them; nothing: all on one server.
Result<LoadedSchedule> import_schedule(const ConvertArguments& arguments, const std::string& layout,
                                       std::optional<int64_t> ranks, std::optional<int64_t> servers,
                                       const std::string& placement);

/// Writes a schedule in another form.
Status export_schedule(const ConvertArguments& arguments, const LoadedSchedule& schedule);

}  // namespace ibcoll::tools
