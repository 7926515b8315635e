#pragma once
/// UCX as engine/transport/open.cc knows it. Where the build has none, absent.cc is all there is.

#include "engine/transport/network_kind.h"

namespace ibcoll::ucx {

/// After verbs: where those are, what UCX has is TCP as a rule.
inline constexpr int kPreference = 10;

NetworkKind network_kind();

}  // namespace ibcoll::ucx
