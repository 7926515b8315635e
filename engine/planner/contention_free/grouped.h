#pragma once
/// Planning by link groups, as the thesis does it (chapters 4 and 5).

#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// How link groups are made and costs estimated.
enum class Grouping : uint8_t {
  /// As written: by the bandwidth by which transfers enter a link, those that don't fit into the
  /// first group; none on links where all is small; group times as sums of costs; ties to the
  /// first in order.
  kThesis,
  /// A link has as many groups as it carries transfers of the least rate, by their rates over the
  /// whole route; each transfer takes the ones that let it start first. Times are exact, ties go to
  /// whoever can start first.
  kFixed,
};

/// Puts the problem's shipments in the order of their link groups: again and again the group with
/// the largest remaining cost, and in it the shipment that inputs.policy says. With `relay` a
/// shipment may go through the sender and the receiver of one that its group has last. Tokens are
/// sent at full arrival. Shipments that forward others are taken as they stand.
Plan plan_by_groups(const Problem& problem, Grouping grouping, bool relay);

}  // namespace ibcoll::contention_free
