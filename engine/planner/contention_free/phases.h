#pragma once
/// An order for list scheduling where several kinds of links are about equally busy.

#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// Fills phases, each as long as the mean shipment, one after the other: in each every server that
/// can sends one shipment, those with most left to send first, along the links with most left to
/// carry. Shipments forward nothing. Gives the order of phases; empty where routes between two
/// switches differ by server (there kShift does well), or where it would take too long.
std::vector<uint32_t> phase_order(const Problem& problem);

}  // namespace ibcoll::contention_free
