#pragma once
/// From plans to what programs carry out: ranks have no clocks, and see what arrives, not what has
/// left them.

#include <span>

#include "engine/planner/contention_free/plan.h"
#include "engine/schedule/transfer_plan.h"

namespace ibcoll::contention_free {

/// The order of a plan without its rates, as algorithm contention_free takes it. What its programs
/// do is always right, whatever the plan's timing. `hosts`: of each server, as the plan was made
/// for; empty: host s is server s.
///
/// Tokens ahead go out with a piece of a transfer when its receiver sees that piece: of `after`, or
/// of what goes over the link before it where nothing of `after` is there yet. `most_pieces`: that
/// blocks may be cut into; the plan says into how many they are, no more than tokens need. A token
/// between two pieces goes with the earlier one, so that no link idles: then what two transfers
/// have on a link at once is a piece, or a transfer that is not cut, beside what is under way on
/// it. What starts before anything can be heard of anything else waits for nothing. Parts of a
/// message (Plan::parts) have no tokens.
TransferPlan transfer_plan(const Plan& plan, const topology::Fabric& fabric,
                           std::span<const int> hosts, uint32_t most_pieces = 1);

}  // namespace ibcoll::contention_free
