#pragma once
/// From a timing to a plan: who waits for whom on every link, the tokens that say so, and the times
/// that these lead to.

#include "engine/planner/contention_free/list.h"
#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// Turns a timing of the jobs into a plan. On each link every job takes slots that others have left
/// and waits for those; a token for each such pair, sent ahead of the end where `ahead` is set.
/// Tokens at full arrival follow the order in which transfers start. All times of the plan are
/// those that its tokens lead to, and jitter_ns is what they leave to chance.
Plan emit_plan(const Problem& problem, const Timing& timing, bool ahead);

/// Sets all times of a plan to the earliest that its tokens and forwards allow, each transfer going
/// at its rate, and the plan's time. Transfers stand in an order in which each comes after those
/// that its tokens and what it forwards name.
void retime(const Problem& problem, Plan& plan);

/// Orders the transfers by (start, from, to) and tokens by (before, after).
void sort_plan(Plan& plan);

/// The most that any server holds of what it neither has from the beginning nor is to keep.
uint64_t relay_buffer_bytes(const Plan& plan);

}  // namespace ibcoll::contention_free
