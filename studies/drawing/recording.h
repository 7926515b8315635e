#pragma once
/// What the ranks of a job really did in one call, and when: kept in a file, drawn beside the plan.
///
/// The file has one JSON object a line, times in nanoseconds of rank 0's clock since the first rank
/// started:
///
///   {"recording": 1, "collective": "alltoall", "algorithm": "ring", "pacing": "gate_token",
///    "window": 1, "root": 0, "ordered": false, "pieces": 1, "hash": "0x...",
///    "block_bytes": 65536, "transport": "verbs", "clock_error_ns": 0, "server_of": [0, 0, 1]}
///   {"rank": 0, "begin": 0, "end": 91000, "ops": [["send", 2, 0, 1200, 1300], ...],
///    "arrivals": [[2, "data", 40300], ...]}
///
/// "ops" are [lane, operation, piece, begin, end] in the order in which they ended, "arrivals"
/// [sender, "data" or "token", time] in the order in which this rank saw them.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/schedule/rank_record.h"
#include "studies/drawing/timeline.h"

namespace ibcoll {

/// A call as all its ranks saw it.
struct Recording {
  Collective collective = Collective::kAlltoall;
  std::string algorithm;
  AlgorithmOptions options;
  uint32_t pieces = 1;
  uint64_t hash = 0;  ///< of the program
  uint64_t block_bytes = 0;
  std::string transport;       ///< between servers
  int64_t clock_error_ns = 0;  ///< how far the clocks of two machines may be apart at most
  Shape shape = Shape::single_server(1);
  std::vector<RankRecord> ranks;
};

/// The file's text.
std::string to_text(const Recording& recording);
/// The error names the line and what is wrong with it.
Result<Recording> parse_recording(std::string_view text);
/// The same from a file; the error begins with its path.
Result<Recording> load_recording(const std::string& path);

/// For the drawing, in microseconds since the first rank started: what timeline() gives of a plan.
/// Data to another server are under way from when they were posted, or what the rank had posted
/// before had arrived, until the receiver saw them. Fails where the recording is not one of these
/// programs.
Result<std::vector<Activity>> activities_of(
    const Recording& recording, std::span<const std::shared_ptr<const RankProgram>> programs);

}  // namespace ibcoll
