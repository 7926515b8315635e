#pragma once
/// Rounds in which no two shipments meet.

#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// The shipments in the order of their rounds. In a round each is alone on the links of its route,
/// or one of as many as a link carries at once; rounds are few: little more than the busiest link
/// has shipments. Where shipments take different times, and where too many would have to be looked
/// at, there is no such order: empty.
///
/// To sort paths into rounds is to colour them. Each in turn, the longest first, gets the first
/// round in which it meets none. Where there is none it takes the place of another, which then
/// looks for a new one. When that leads nowhere there is one more round. Then rounds are dropped
/// one by one, as long as tabu search finds places in the others for what was in them.
std::vector<uint32_t> round_order(const Problem& problem);

}  // namespace ibcoll::contention_free
