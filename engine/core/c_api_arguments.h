#pragma once
/// From a call of the C interface to the arguments of a Call.

#include "engine/core/call_arguments.h"
#include "engine/core/own_operators.h"
#include "ibcoll/ibcoll.h"

namespace ibcoll::c_api {

/// Refuses only what can't be passed on: the rest is for check_arguments. `call` has this version's
/// size; `own`: the operators that it may name besides the engine's.
Result<CallArguments> arguments_of(const ibcoll_call& call, const OwnOperators& own);

}  // namespace ibcoll::c_api
