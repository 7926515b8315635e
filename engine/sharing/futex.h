#pragma once
/// Sleeping on a word of memory that other threads or processes change.

#include <cstdint>

#include "engine/sharing/shared_access.h"

namespace ibcoll {

/// Sleeps while `word` holds `value`, until woken or for at most `nanoseconds`. May return early.
/// Works between processes that share the word's memory.
void futex_wait(Shared<uint32_t>& word, uint32_t value, int64_t nanoseconds);

/// Wakes up to `sleepers` of those that sleep on `word`.
void futex_wake(Shared<uint32_t>& word, int sleepers);

}  // namespace ibcoll
