#pragma once
/// What of a call's buffers the network may touch.

#include "engine/base/result.h"
#include "engine/execute/regions.h"
#include "engine/execute/user_registrations.h"
#include "engine/transport/transport.h"

namespace ibcoll {

struct PostedCall;

/// Registers what the call uses of its buffers, and names as regions what peers will write to.
/// Blocks may lie anywhere, with memory between them that is not the caller's: they are registered
/// as one where that is little, else run by run of blocks that lie side by side. What the program
/// has registered itself is used as it is. Of a strided buffer it is the image, and what may be put
/// from where it lies where there is not too much between.
Status register_buffers(PostedCall& call, NetworkTransport& network, OwnRegions& regions,
                        const UserRegistrations& user);
/// Gives back what register_buffers() took, also where it failed half-way.
void deregister_buffers(PostedCall& call, NetworkTransport& network, OwnRegions& regions);

}  // namespace ibcoll
