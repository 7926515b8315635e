#pragma once
/// What broadcasts cost, and how many pieces suit them. Costs are in bytes of the link, as LogGP
/// has them: what the link could carry meanwhile.

#include <cstdint>

#include "engine/schedule/shape.h"

namespace ibcoll {

/// What a message costs beside its bytes: latency and overheads of about 2 us on a link of
/// 12.5 GB/s.
inline constexpr int64_t kMessageCost = 24 * 1024;

/// Steps in which servers that have the block, doubling in each, become all of them.
int doubling_steps(const Shape& shape);

/// Of trees, whose ports send each piece several times.
uint32_t tree_pieces(const Shape& shape, int64_t bytes);
/// Of parts that take so many steps from the root to the last server, one behind the other.
uint32_t pipeline_pieces(const Shape& shape, int64_t bytes, int64_t steps);
/// Of slices, each of which goes along the servers by a rank of its own.
uint32_t slice_pieces(const Shape& shape, int64_t bytes);

/// Of a tree in which servers that have the block double in each step.
int64_t tree_cost(const Shape& shape, int64_t bytes);
/// From server to server, in the pieces that suit that best.
int64_t chain_cost(const Shape& shape, int64_t bytes);
uint32_t chain_pieces(const Shape& shape, int64_t bytes);

}  // namespace ibcoll
