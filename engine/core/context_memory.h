#pragma once
/// What a context and its group of all ranks take of memory, beside what their parts say.

#include "engine/base/memory_item.h"
#include "engine/schedule/shape.h"

namespace ibcoll {

/// `collectives`: how many different ones it calls.
MemoryItems context_memory(const Shape& shape, int collectives);

}  // namespace ibcoll
