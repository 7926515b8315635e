#pragma once
/// Memory of the shared heap that calls work in, kept from call to call.

#include <cstddef>
#include <vector>

#include "engine/base/result.h"
#include "shm/heap.h"

namespace ibcoll {

class ScratchPool {
 public:
  explicit ScratchPool(shm::Heap& heap) : heap_(&heap) { free_.reserve(kKeptPieces + 1); }

  /// At least `bytes` bytes until put() gets them back; null for none.
  Result<std::byte*> take(size_t bytes);
  void put(std::byte* memory) noexcept;  // calls give it back when they are destroyed
  /// Bytes that nobody uses now.
  size_t kept() const { return kept_; }

  /// What is kept at most, beside the piece used last.
  static constexpr size_t kKeptBytes = size_t{64} << 20;
  static constexpr size_t kKeptPieces = 32;

 private:
  struct Piece {
    std::byte* memory;
    size_t bytes;
  };
  void drop_oldest();

  shm::Heap* heap_;
  std::vector<Piece> taken_;
  std::vector<Piece> free_;  ///< the one used last comes last
  size_t kept_ = 0;
};

}  // namespace ibcoll
