#pragma once
/// UCX as engine/transport/open.cc knows it. Where the build has none, absent.cc is all there is.

#include "engine/transport/network_kind.h"

namespace ibcoll::ucx {

NetworkKind network_kind();

}  // namespace ibcoll::ucx
