#pragma once
/// What ib_sim may take as flows.

#include "tools/ib_sim/settings.h"

namespace ibcoll::tools {

/// The options of one run, without what is known only once it is made: its plan, bytes of each
/// block.
sim::CollectiveOptions options_of(const Settings& settings, size_t shape, sim::Mode mode,
                                  int64_t size);

/// Refuses runs that would not fit into the memory allowed, or all together into the time, with the
/// estimate.
Status check_limits(const Settings& settings);

}  // namespace ibcoll::tools
