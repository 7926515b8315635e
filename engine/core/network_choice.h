#pragma once
/// Why a context uses the transport between servers that it uses, for people.

#include <string>

#include "engine/core/context.h"

namespace ibcoll {

/// "verbs", or where "auto" was asked for and fell back on something else, that and why:
/// "loopback (auto: no usable RDMA port: libibverbs lists no device)". "none" on a single
/// server. Local; looks at the devices, so not for the data path.
std::string describe_network(Context& context, const ContextOptions& options);

}  // namespace ibcoll
