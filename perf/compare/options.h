#pragma once
/// What a comparison is of, and the options that say it.

#include <optional>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/shape.h"
#include "perf/compare/contest_calls.h"
#include "tools/frame/command_line.h"

namespace ibcoll::compare {

/// What is compared, as the command line says.
struct Options {
  std::vector<contest_collective> collectives;
  std::vector<int64_t> ranks, sizes;
  int rounds = 7;
  int samples = 10;
  int64_t batch_ns = 1'000'000;
  bool user_memory = false;
  bool after_barrier = false;
  std::string json, markdown;
  bool judge = false;
  bool all_tables = false;        ///< private memory and the engine's
  std::optional<Shape> machines;  ///< several, with these ranks (tests/machines)

  bool on_machines() const { return machines.has_value(); }
};

/// What needs to be read: as typed.
struct Arguments {
  std::string collectives = "alltoall", ranks = "2,4,8", sizes = "64-4M:4", batch = "1ms";
  bool machines = false;
};

/// The options that all comparisons have.
void add_options(tools::Command app, Arguments& typed, Options& options);
/// Reads what was typed.
Status understand(const Arguments& typed, Options& options);

}  // namespace ibcoll::compare
