#pragma once
/// The tables of compare_mpi: their cells, read from lines of JSON.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/costs/machine_costs.h"
#include "perf/compare/measure.h"
#include "perf/compare/state.h"

namespace ibcoll::compare {

/// From here on a call is to be as fast as copying allows.
inline constexpr int64_t kLargeBytes = 256 * 1024;

/// One collective at one size, on so many ranks, against the faster MPI.
struct Cell {
  contest_collective collective = CONTEST_ALLTOALL;
  int ranks = 0;
  int64_t bytes = 0;
  bool private_memory = false;
  double ours_us = 0;
  Interval faster;                ///< the ratio of the medians, and those of single rounds
  double of_rounds = 0;           ///< how many times faster in the median of the rounds
  std::optional<Interval> again;  ///< the same of a second measurement, if there was one
  std::optional<double> copying;  ///< the time of memcpy over ibcoll's

  /// The time of the faster MPI.
  double theirs_us() const { return faster.value * ours_us; }
};

/// What was measured on one machine.
struct Tables {
  /// The object of kind "machine"; empty: not known.
  nlohmann::ordered_json machine = nlohmann::ordered_json::object();
  std::optional<MachineCosts> costs;
  std::vector<State> states;
  std::vector<Cell> cells;
  bool after_barrier = false;       ///< each call followed one that was not timed (--barrier)
  bool judged = false;              ///< by the limits of perf/compare/verdict.h, in this state
  std::optional<double> most_load;  ///< percent that others could have when it was; else unknown

  /// How many cores the ranks could use; 0: not known.
  int cores() const;
  const State* state(std::string_view when) const;
};

/// "user" or "engine", as JSON says it; "private memory" or "the engine's memory".
const char* memory_member(bool private_memory);
const char* memory_text(bool private_memory);

/// One cell by its name: "bcast, 4 ranks, 64, private memory".
std::string name_of(const Cell& cell);
/// What was written with --json.
Result<Tables> parse_tables(std::string_view text);

}  // namespace ibcoll::compare
