#pragma once
/// Everything that the transport between servers counts, under one name each.

#include <vector>

#include "engine/transport/transport.h"

namespace ibcoll {

/// Since the transport was made, on this rank: data_messages, tokens, data_bytes, queue_pairs,
/// registrations, then what only this kind of transport counts (verbs: doorbells, completions and
/// others; names that begin with port_ count all traffic of the port). Nothing where `network` is
/// null. May read files: not for the data path.
std::vector<NamedCounter> all_counters(const NetworkTransport* network);

}  // namespace ibcoll
