#pragma once
/// A run: one program under one set of conditions, from the start of its ranks to their end.

#include <array>
#include <cstdint>
#include <string>

#include "tests/lockstep/bed/bed.h"
#include "tests/lockstep/program.h"

namespace ibcoll::lockstep {

/// What operations there were, and how they ended: plain data, which a process can leave in shared
/// memory.
struct Tally {
  static constexpr int kStatuses = 16;
  std::array<std::array<uint64_t, kStatuses>, kOperations> ended{};
  uint64_t calls = 0;  ///< operations that ended well, and were checked
  uint64_t runs = 0, jobs_over = 0;
  uint64_t steps = 0;     ///< accesses that changed something for others
  uint64_t accesses = 0;  ///< all
  uint64_t switches = 0, faults = 0;
  uint64_t kills = 0, stops = 0, refusals = 0, clock_steps = 0;

  void add(const Tally& other);
};

struct RunResult {
  std::string wrong;  ///< "": all was as the interface promises
  Tally tally;
  /// Accesses that each rank has made.
  uint64_t accesses_of_a_rank = 0;
};

/// Runs it in this process, which must be thrown away afterwards where a rank has died in it:
/// nobody gives its memory back. `trace`: what happens goes to standard error.
RunResult run_in_bed(const Program& program, const Conditions& conditions, bool trace);

}  // namespace ibcoll::lockstep
