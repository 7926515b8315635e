#pragma once
/// The part of the checker that looks at who gets what.

#include "engine/planner/contention_free/plan.h"

namespace ibcoll::contention_free {

/// Bytes of the message of two servers, from the inputs alone; 0 where there is none.
uint64_t asked_bytes(const PlanInputs& inputs, int origin, int target);

/// Bytes of one of the parts that a message is cut into (Plan::parts).
uint64_t part_bytes(uint64_t bytes, int parts, int part);

/// Whether every message gets to everybody who needs it, from one who has it, once, and to nobody
/// for nothing. Of a reduction: whether everybody's part gets to the root once. The plan's servers
/// are those of the inputs.
Status check_deliveries(const PlanInputs& inputs, const Plan& plan);

}  // namespace ibcoll::contention_free
