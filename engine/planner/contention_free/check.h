#pragma once
/// Proves a plan. Shares nothing with the planner but the plan itself and the fabric's routes.

#include "engine/planner/contention_free/plan.h"

namespace ibcoll::contention_free {

/// Checks that a plan does what was asked, and that no link is ever asked for more than it has:
/// - every message goes from who has it to who needs it, all its bytes, to nobody twice and to
///   nobody for nothing, over permitted pairs, no faster than the links of its route;
/// - transfers and tokens stand in the order that Plan promises; no waits go round in a cycle;
/// - the planned times are those that the tokens lead to, each transfer as long as its bytes take;
/// - without tokens ahead: transfers on a directed link that no chain of tokens orders have summed
///   rates within its bandwidth, whatever the times. A link whose transfers all together are less
///   than its bandwidth times its latency needs no order (small messages);
/// - with tokens ahead: at no planned time the rates on a link exceed its bandwidth, where bytes
///   may be as early or late as the plan's jitter says, which must be a hundredth of its time or a
///   microsecond at most;
/// - no server relays more at once than the plan says.
/// The error names the first violation found.
Status check_plan(const PlanInputs& inputs, const Plan& plan);

}  // namespace ibcoll::contention_free
