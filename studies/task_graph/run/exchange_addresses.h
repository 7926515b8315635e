#pragma once
/// Telling everybody where memory lies, for those who put without exposures.

#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/transport/transport.h"

namespace ibcoll::task_graph {

/// Collective: where the memory that every rank gives lies, and the keys to it, by rank. To be
/// released when no put to it is under way.
Result<std::vector<RemoteAddress>> exchange_addresses(Bootstrap& bootstrap,
                                                      NetworkTransport& network, const void* base,
                                                      const MemoryKey& key);

}  // namespace ibcoll::task_graph
