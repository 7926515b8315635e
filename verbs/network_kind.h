#pragma once
/// Verbs as engine/transport/open.cc knows them. Where the build has no libibverbs, absent.cc is
/// all there is of them.

#include "engine/transport/network_kind.h"

namespace ibcoll::verbs {

/// Before all that goes through the cores.
inline constexpr int kPreference = 20;

NetworkKind network_kind();

}  // namespace ibcoll::verbs
