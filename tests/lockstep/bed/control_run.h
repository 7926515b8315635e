#pragma once
/// The control tree of a job on several machines, without the engine above it: who reports a death
/// to whom, and what rank 0 decides (engine/bootstrap). Machines are joined by the bed's own
/// sockets.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/lockstep/bed/bed.h"
#include "tests/lockstep/bed/network.h"
#include "tests/lockstep/bed/tally.h"

namespace ibcoll::lockstep {

struct ControlStep {
  enum class Kind : uint8_t {
    kGather,  ///< `givers` give `bytes` bytes each to all
    kBarrier,
    kCompute,  ///< `rank` does nothing for `ns`
    kAbort,    ///< `rank` reports a failure of its own
    kLeave,    ///< `rank` leaves the job in order
  };
  Kind kind = Kind::kBarrier;
  int rank = -1;
  uint32_t bytes = 0;
  int64_t ns = 0;
  std::vector<int> givers = {};  ///< none: all ranks
};
std::string to_string(const ControlStep& step);

struct ControlPlan {
  Conditions conditions;
  NetworkConditions network;
  std::vector<ControlStep> steps;
  int64_t latest_start_ns = 0;  ///< of a rank, after the first one
  int fan_out = 1;              ///< JoinOptions::fan_out
  /// How many questions the ranks ask after their steps, in a job that survives deaths from then
  /// on; nothing: it never does.
  int questions = 0;
};

ControlPlan control_plan_of(uint64_t seed);
std::string to_string(const ControlPlan& plan);

struct ControlResult {
  std::string wrong;  ///< "": all was well
  Tally tally;
};
/// In this process, which is to be thrown away afterwards.
ControlResult run_control(const ControlPlan& plan, bool trace);

}  // namespace ibcoll::lockstep
