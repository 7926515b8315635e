#pragma once
/// Verbs as engine/transport/open.cc knows them. Where the build has no libibverbs, absent.cc is
/// all there is of them.

#include "engine/transport/network_kind.h"

namespace ibcoll::verbs {

NetworkKind network_kind();

}  // namespace ibcoll::verbs
