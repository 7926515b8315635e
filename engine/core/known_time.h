#pragma once
/// How long a multicast takes at most, for those who must know before they send.

#include "engine/core/context.h"
#include "engine/multicast/logp.h"

namespace ibcoll {

/// The time from a multicast of this rank to its last acknowledgement, in microseconds, if all
/// members make progress at once (multicast/bound.h). Fails (kUnsupported) where nothing has been
/// measured that it could be derived from (IBCOLL_LOGP).
Result<double> multicast_bound_us(Context& context, const RankSet& set, size_t bytes,
                                  const MulticastOptions& options);

}  // namespace ibcoll
