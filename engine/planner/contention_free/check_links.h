#pragma once
/// The part of the checker that looks at single links.

#include <string>
#include <vector>

#include "engine/planner/contention_free/plan.h"

namespace ibcoll::contention_free {

/// "transfer 7 (0 -> 3, message 0 -> 3, at 1200 ns)".
std::string name_transfer(const Plan& plan, uint32_t transfer);

/// When a transfer's bytes are on a link, as planned.
struct LinkWindow {
  int link;
  uint32_t transfer;
  int64_t begin_ns, end_ns;
};

/// At no time more than a link's bandwidth, where windows that overlap by no more than the plan's
/// jitter don't count.
Status check_link_times(const topology::Fabric& fabric, const Plan& plan,
                        std::vector<LinkWindow> windows);

/// Transfers that no chain of waits orders have summed rates within the bandwidth of each link they
/// share, but for those in `exempt`.
Status check_link_orders(const topology::Fabric& fabric, const Plan& plan,
                         std::vector<LinkWindow> windows, const std::vector<char>& exempt);

}  // namespace ibcoll::contention_free
