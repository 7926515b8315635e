#pragma once
/// Schedules as files: one JSON object a line, first the shape, then the program of each rank.
///
///   {"schedule": 1, "collective": "alltoall", "algorithm": "ring", "hash": "0x...",
///    "server_of": [0, 0, 1]}
///   {"rank": 0, "steps": 3, "scratch": [[0, 1]], "streams": [["send", 0, 1]],
///    "send": [{"op": "put", "peer": 2, "src": ["send", 2, 1], "dst": ["recv", 0, 1], "step": 2,
///              "after": [0, 0, 1]}], "recv": [...], "local": [...]}
///
/// Slices are [buffer, first slot, slots]; "after" counts operations of the lanes send, recv and
/// local. What is zero or empty may be left out: "after", "step", "exposure", "threshold",
/// "to_server", "ordered", "relaxed" ("first", "in"), "scratch" (blocks [origin, target], -1 for
/// everyone), "streams" ([lane, first operation, operations], of those in strands with "strands"
/// behind, or "once") and lanes.

#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/schedule/verifier.h"

namespace ibcoll {

/// A schedule read from a file.
struct LoadedSchedule {
  Shape shape;
  Programs programs;
  ScheduleReport report;
};

nlohmann::ordered_json schedule_header_to_json(const Shape& shape, const RankProgram& any);
nlohmann::ordered_json program_to_json(const RankProgram& program);

/// Reads the text of a schedule; the error names line, lane, operation and field. Nothing is proved
/// yet, and the report is empty.
Result<LoadedSchedule> read_schedule(std::string_view text);

/// Reads the text of a schedule and verifies it: what comes back is safe to run.
Result<LoadedSchedule> parse_schedule(std::string_view text);

/// The same from a file; the error begins with its path.
Result<LoadedSchedule> load_schedule(const std::string& path);

}  // namespace ibcoll
