#pragma once
/// Calls that the engine makes for itself.

#include "engine/core/call_arguments.h"
#include "engine/core/group.h"

namespace ibcoll {

/// A blocking call, whose purpose says what it is for. Memory that runs out in it ends the job,
/// while the call is still there to be told of.
Status make_inner_call(Group& group, const CallArguments& arguments);

}  // namespace ibcoll
