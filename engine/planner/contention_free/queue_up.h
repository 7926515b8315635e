#pragma once
/// Small messages: transfers that meet on links without an order.

#include "engine/planner/contention_free/link_groups.h"
#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// Sets the times of a plan in which transfers meet on links without an order (LinkGroups::small):
/// there they go one after the other as they come, as many at once as the link carries.
void queue_up(const Problem& problem, const LinkGroups& groups, Plan& plan);

}  // namespace ibcoll::contention_free
