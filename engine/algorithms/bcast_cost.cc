#include "engine/algorithms/bcast_cost.h"

#include <algorithm>
#include <bit>

namespace ibcoll {
namespace {

/// Of a message behind another to the same server: its overhead, about 0.3 us.
constexpr int64_t kNextMessageCost = 4 * 1024;
constexpr uint32_t kMostParts = 1024;
/// Twice the pieces are worth their trouble where they save such a part of the time. Of slices, in
/// which ranks share that trouble, less will do.
constexpr int64_t kWorthMorePieces = 8, kWorthMoreOfSlices = 64;
/// Least bytes of a part. Where each part goes on to local ranks, a message to each, more.
constexpr int64_t kPartBytes = 8 * 1024, kSharedPartBytes = 32 * 1024, kSlicePartBytes = 16 * 1024;
constexpr int64_t kTreePieceBytes = 64 * 1024;
constexpr uint32_t kMostTreePieces = 16;

/// The first piece takes its way of so many steps, the others follow.
int64_t pipeline_cost(int64_t bytes, uint32_t pieces, int64_t steps) {
  const int64_t piece = bytes / pieces;
  return steps * (piece + kMessageCost) + (int64_t{pieces} - 1) * (piece + kNextMessageCost);
}

uint32_t pieces_of_tree(int64_t bytes) {
  uint32_t pieces = 1;
  while (pieces < kMostTreePieces && bytes / (2 * pieces) >= kTreePieceBytes) pieces *= 2;
  return pieces;
}

/// At least `best`, of at least so many bytes. Twice the pieces are worth their trouble where they
/// save a part of the time, 1 / `worth`.
uint32_t more_pieces(int64_t bytes, int64_t steps, uint32_t best, int64_t least, int64_t worth) {
  for (uint32_t pieces = 2 * best; pieces <= kMostParts && bytes / pieces >= least; pieces *= 2) {
    const int64_t before = pipeline_cost(bytes, best, steps);
    if (pipeline_cost(bytes, pieces, steps) < before - before / worth) best = pieces;
  }
  return best;
}

}  // namespace

int doubling_steps(const Shape& shape) {
  return std::bit_width(static_cast<unsigned>(shape.servers() - 1));
}

uint32_t tree_pieces(const Shape&, int64_t bytes) { return pieces_of_tree(bytes); }

uint32_t pipeline_pieces(const Shape& shape, int64_t bytes, int64_t steps) {
  // Pipelines have as many pieces as trees at least.
  if (shape.servers() == 1) return pieces_of_tree(bytes);
  const int64_t least = shape.max_server_size() > 1 ? kSharedPartBytes : kPartBytes;
  return more_pieces(bytes, steps, pieces_of_tree(bytes), least, kWorthMorePieces);
}

uint32_t slice_pieces(const Shape& shape, int64_t bytes) {
  if (shape.servers() == 1) return pieces_of_tree(bytes);
  // A piece of each slice goes on at a time, over one port if there is no more.
  const int64_t slices = shape.max_server_size();
  return more_pieces(bytes, shape.servers() - 1, pieces_of_tree(bytes / slices),
                     slices * kSlicePartBytes, kWorthMoreOfSlices);
}

int64_t tree_cost(const Shape& shape, int64_t bytes) {
  return doubling_steps(shape) * (bytes + kMessageCost);
}

uint32_t chain_pieces(const Shape& shape, int64_t bytes) {
  return pipeline_pieces(shape, bytes, shape.servers() - 1);
}

int64_t chain_cost(const Shape& shape, int64_t bytes) {
  return pipeline_cost(bytes, chain_pieces(shape, bytes), shape.servers() - 1);
}

}  // namespace ibcoll
