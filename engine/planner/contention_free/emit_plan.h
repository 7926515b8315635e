#pragma once
/// From a timing to a plan: who waits for whom on every link, and the tokens that say so.

#include "engine/planner/contention_free/list.h"
#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// Turns a timing of the shipments into a plan. On each link every shipment takes slots that others
/// have left and waits for those; a token for each such pair, sent ahead of the end where `ahead`
/// is set. Tokens at full arrival follow the order in which transfers start. All times of the plan
/// are those that its tokens lead to, and jitter_ns is what they leave to chance.
Plan emit_plan(const Problem& problem, const Timing& timing, bool ahead);

}  // namespace ibcoll::contention_free
