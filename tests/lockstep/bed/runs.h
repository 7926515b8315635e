#pragma once
/// Runs of seeds in processes of their own: one that crashes, or does not end, is a failure of that
/// seed and of no other.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/lockstep/bed/plan.h"
#include "tests/lockstep/bed/tally.h"

namespace ibcoll::lockstep {

/// Seconds of the machine's time.
double wall_s();

/// A process that runs one seed leaves this behind.
struct Report {
  Tally tally;
  bool done;
  char wrong[8192];
};

/// In memory that processes share.
Report* shared_reports(size_t count);
/// A process that runs it. `trace`: what happens goes to standard error.
pid_t start(const RunPlan& plan, Report& report, bool trace);
/// The same of the control tree.
pid_t start_control(uint64_t seed, Report& report, bool trace);
/// What came of it once the process has ended with that status.
void finish(Report& report, int status);
/// Waits for it, and finishes it; "": all was well.
std::string wait_for(pid_t pid, Report& report);
/// Starts it, too. "": all was well.
std::string run_alone(const RunPlan& plan, bool trace, Report& report);

/// Looks for a shorter run that fails, too.
Overrides shrink(uint64_t seed, const Overrides& overrides, Report& report);

}  // namespace ibcoll::lockstep
