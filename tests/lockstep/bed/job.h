#pragma once
/// A run: one program under one set of conditions, from the start of its ranks to their end.

#include <cstdint>
#include <string>

#include "tests/lockstep/bed/bed.h"
#include "tests/lockstep/bed/tally.h"
#include "tests/lockstep/program.h"

namespace ibcoll::lockstep {

struct RunResult {
  std::string wrong;  ///< "": all was as the interface promises
  Tally tally;
};

/// Runs it in this process, which must be thrown away afterwards where a rank has died in it:
/// nobody gives its memory back. `trace`: what happens goes to standard error.
RunResult run_in_bed(const Program& program, const Conditions& conditions, bool trace);

}  // namespace ibcoll::lockstep
