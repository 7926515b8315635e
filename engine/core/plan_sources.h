#pragma once
/// What the plans of calls are made from: the same for all groups of a context.

#include <cstdint>
#include <optional>

#include "engine/core/program_cache.h"
#include "engine/planner/contention_free/plan_store.h"
#include "engine/tuner/rules.h"

namespace ibcoll {

struct PlanSources {
  /// By which calls that leave the algorithm open choose it, before the engine's own choices. The
  /// same on all ranks; where they change, groups that have called already must forget their plans.
  Rules rules;
  /// Plans for the network between servers; none: it is not known.
  std::optional<contention_free::PlanStore> transfers;
  ProgramCache programs{kProgramBytes};
  /// Messages between servers up to this size carry their data without asking; 0: none do.
  int64_t eager_bytes = 0;
  /// Whether messages between servers cost cores' time, so that fewer are better.
  bool messages_cost_cores = false;
  /// Connections that each rank may have at a time to ranks of other servers; 0: any number.
  uint32_t connections = 0;

  /// Of programs that are kept. One for a hundred thousand ranks takes four megabytes at
  /// most.
  static constexpr size_t kProgramBytes = size_t{64} << 20;
};

}  // namespace ibcoll
