#pragma once
/// What follows from the transfers and tokens of a plan: times, order, and memory for what is
/// relayed.

#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// Sets all times of a plan to the earliest that its tokens and forwards allow, each transfer going
/// at its rate, and the plan's time. Transfers stand in an order in which each comes after those
/// that its tokens and what it forwards name.
void retime(const Problem& problem, Plan& plan);

/// Orders the transfers by (start, from, to) and tokens by (before, after).
void sort_plan(Plan& plan);

/// The most that any server holds of what it neither has from the beginning nor is to keep.
uint64_t relay_buffer_bytes(const Plan& plan);

}  // namespace ibcoll::contention_free
