#pragma once
/// UCX (1.13 at least) aborts the process where a connection turns out to be broken while it sends
/// what waited for that very connection to be made. It bears to find that out when it reads.

#include "ucx/library.h"

namespace ibcoll::ucx {

/// From now on a send of UCX's over a connection that its peer has ended says at first that nothing
/// can be sent yet.
void put_off_broken_sends(const Library& ucp);

}  // namespace ibcoll::ucx
