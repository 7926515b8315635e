#pragma once
/// Records a call of all ranks.

#include <functional>
#include <string>

#include "engine/core/call.h"
#include "engine/core/context.h"
#include "studies/drawing/recording.h"

namespace ibcoll::measure {

/// A recording is gathered on every rank: more would take too much memory.
inline constexpr int kMaxRecordedRanks = 256;

/// Collective over the context's ranks: makes `call`, which is prepared and a call of the world's,
/// once, and gives what all ranks did in it.
Result<Recording> record_call(Context& context, Call& call);

}  // namespace ibcoll::measure
