#pragma once
/// How much memory this process takes.

#include <cstdint>

namespace ibcoll {

/// This process's part of its resident pages, in bytes: a page that n processes map counts as an
/// n-th in each (Pss of /proc/self/smaps_rollup). -1 where the kernel does not say.
int64_t proportional_bytes();

}  // namespace ibcoll
