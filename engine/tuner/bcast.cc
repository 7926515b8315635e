#include "engine/tuner/bcast.h"

#include <algorithm>
#include <bit>

namespace ibcoll {
namespace {

// Costs are in bytes of the link, as LogGP has them.

/// What a message costs beside its bytes: latency and overheads of about 2 us on a link of
/// 12.5 GB/s.
constexpr int64_t kMessage = 24 * 1024;
/// Of a message behind another to the same server: its overhead, about 0.3 us.
constexpr int64_t kNextMessage = 4 * 1024;
constexpr uint32_t kMostParts = 1024;
/// Twice the pieces are worth their trouble where they save such a part of the time. Of slices, in
/// which ranks share that trouble, less will do.
constexpr int64_t kWorthMorePieces = 8, kWorthMoreOfSlices = 64;
/// Slices pay from here on: on one port a server they then take as long as a chain, on a port a
/// rank as much less time as there are ranks.
constexpr int64_t kSliceBytes = 2 * 1024 * 1024;
/// A chain of short pieces pays from here on.
constexpr int64_t kChainBytes = 32 * 1024;
/// Least bytes of a part. Where each part goes on to local ranks, a message to each, more.
constexpr int64_t kPartBytes = 8 * 1024, kSharedPartBytes = 32 * 1024, kSlicePartBytes = 16 * 1024;
/// Of trees, whose ports send each piece several times.
constexpr int64_t kTreePieceBytes = 64 * 1024;
constexpr uint32_t kMostTreePieces = 16;

int levels(const Shape& shape) {
  return std::bit_width(static_cast<unsigned>(shape.servers() - 1));
}

/// Of a pipeline: the first piece takes its way of so many hops, the others follow.
int64_t pipeline_cost(int64_t bytes, uint32_t pieces, int64_t hops) {
  const int64_t piece = bytes / pieces;
  return hops * (piece + kMessage) + (int64_t{pieces} - 1) * (piece + kNextMessage);
}

/// Of trees; pipelines have as many at least.
uint32_t tree_pieces(int64_t bytes) {
  uint32_t pieces = 1;
  while (pieces < kMostTreePieces && bytes / (2 * pieces) >= kTreePieceBytes) pieces *= 2;
  return pieces;
}

/// At least `best`, of at least so many bytes. Twice the pieces are worth their trouble where they
/// save a part of the time, 1 / `worth`.
uint32_t pipeline_pieces(int64_t bytes, int64_t hops, uint32_t best, int64_t least, int64_t worth) {
  for (uint32_t pieces = 2 * best; pieces <= kMostParts && bytes / pieces >= least; pieces *= 2) {
    const int64_t before = pipeline_cost(bytes, best, hops);
    if (pipeline_cost(bytes, pieces, hops) < before - before / worth) best = pieces;
  }
  return best;
}

uint32_t pipeline_pieces(const Shape& shape, int64_t bytes, int64_t hops) {
  const int64_t least = shape.max_server_size() > 1 ? kSharedPartBytes : kPartBytes;
  return pipeline_pieces(bytes, hops, tree_pieces(bytes), least, kWorthMorePieces);
}

int64_t cost(std::string_view algorithm, const Shape& shape, int64_t bytes) {
  const int64_t up = levels(shape), servers = shape.servers();
  if (algorithm == "binomial") return up * (bytes + kMessage);
  if (algorithm == "scatter_doubling") {
    // Where servers stand in pairs what one gets goes on to the other, beside what it exchanges.
    const bool pairs = !std::has_single_bit(static_cast<unsigned>(servers));
    return 2 * (bytes - bytes / servers) + 2 * up * kMessage + pairs * (kMessage + bytes / 4);
  }
  return pipeline_cost(bytes, bcast_pieces(algorithm, shape, bytes), servers - 1);  // chain
}

}  // namespace

bool shares_alike(const Shape& shape) {
  int smallest = shape.max_server_size();
  for (int server = 0; server < shape.servers(); ++server)
    smallest = std::min(smallest, shape.server_size(server));
  return smallest > 1 && 2 * smallest >= shape.max_server_size();
}

uint32_t bcast_pieces(std::string_view algorithm, const Shape& shape, int64_t block_bytes) {
  if (shape.servers() > 1 && algorithm == "circulant") {
    return pipeline_pieces(shape, block_bytes, levels(shape));
  }
  if (shape.servers() > 1 && algorithm == "chain") {
    return pipeline_pieces(shape, block_bytes, shape.servers() - 1);
  }
  if (shape.servers() > 1 && algorithm == "two_level") {
    // A piece of each slice goes on at a time, over one port if there is no more.
    const int64_t slices = shape.max_server_size();
    return pipeline_pieces(block_bytes, shape.servers() - 1, tree_pieces(block_bytes / slices),
                           slices * kSlicePartBytes, kWorthMoreOfSlices);
  }
  return tree_pieces(block_bytes);
}

BcastChoice choose_bcast(const Shape& shape, int64_t block_bytes, Crossing crossing) {
  std::string_view best = "binomial";
  if (shape.servers() > 1) {
    // The circulant graph takes fewer steps than the chain, but only on a network that carries any
    // permutation of the servers at once: where that is not known it may take many times as long.
    for (const std::string_view other : {"scatter_doubling", "chain"}) {
      if (other == "chain" && block_bytes < kChainBytes) continue;
      if (cost(other, shape, block_bytes) < cost(best, shape, block_bytes)) best = other;
    }
    const bool sliced = crossing == Crossing::kAllRanks && shares_alike(shape) &&
                        block_bytes / shape.max_server_size() >= kSliceBytes;
    if (sliced && best != "scatter_doubling")
      best = "two_level";  // of two servers a tree is a chain
  }
  return {best, bcast_pieces(best, shape, block_bytes)};
}

}  // namespace ibcoll
