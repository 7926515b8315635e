#pragma once
/// Groups of what is left of a group after deaths.

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/core/context.h"

namespace ibcoll {

/// A new group of the members that are alive, in their order; which these are, they agree on.
/// Collective over them, whether or not the old group is over. `id`: its name in messages.
///
/// Members try one group after the other, each with one dead rank less than the one before. Such a
/// try is a barrier, which a death may end on some of them and not on others. So what a member has
/// seen is a proposal alone, and the first one counts (Verdicts): that the group is complete, or
/// who is not in the next one. No death can hold that up, and all living members get the same
/// group. Where a death ends the job (Deaths), there is one try.
Result<std::shared_ptr<Group>> shrink(Context& context, Group& group, uint64_t id);

/// The members that are known here to have died, as ranks of the group, ascending. Local.
std::vector<Rank> failed_members(Context& context, Group& group);

}  // namespace ibcoll
