#include "tests/lockstep/buffers.h"

#include <algorithm>
#include <cstring>

#include "tests/lockstep/run.h"

namespace ibcoll::lockstep {
namespace {

constexpr size_t kPiece = size_t{1} << 20;
constexpr size_t kSmallestBits = 8;

}  // namespace

void Guarded::fill_guards() const {
  const auto byte = std::to_integer<int>(rest);
  std::memset(memory, byte, static_cast<size_t>(data - memory));
  std::memset(data + bytes, byte, kGuard);
}

void Guarded::fill() const {
  fill_guards();
  if (bytes != 0) std::memset(data, std::to_integer<int>(rest), bytes);
}

bool Guarded::is_filled() const {
  return is_whole() &&
         std::all_of(data, data + bytes, [this](std::byte byte) { return byte == rest; });
}

bool Guarded::is_whole() const {
  const auto same = [this](std::byte byte) { return byte == rest; };
  return std::all_of(memory, data, same) && std::all_of(data + bytes, data + bytes + kGuard, same);
}

Guarded Buffers::take(Memory kind, size_t bytes, size_t shift, std::byte rest) {
  const size_t needed = bytes + shift + 2 * Guarded::kGuard;
  size_t bits = kSmallestBits;
  while ((size_t{1} << bits) < needed) ++bits;
  std::vector<std::byte*>& free = pools_[static_cast<size_t>(kind)].free[bits];
  Guarded buffer;
  if (free.empty()) {
    buffer.memory = more(kind, size_t{1} << bits);
  } else {
    buffer.memory = free.back();
    free.pop_back();
  }
  buffer.data = buffer.memory + Guarded::kGuard + shift;
  buffer.bytes = bytes;
  buffer.rest = rest;
  buffer.size_class = static_cast<uint8_t>(bits);
  buffer.kind = kind;
  buffer.fill_guards();
  return buffer;
}

void Buffers::put(Guarded& buffer) {
  if (buffer.memory == nullptr) return;
  pools_[static_cast<size_t>(buffer.kind)].free[buffer.size_class].push_back(buffer.memory);
  buffer = {};
}

std::byte* Buffers::more(Memory kind, size_t bytes) {
  Pool& pool = pools_[static_cast<size_t>(kind)];
  if (pool.left < bytes) {
    // What is left of the old piece is not worth keeping.
    const size_t piece = std::max(bytes, kPiece);
    void* memory = nullptr;
    if (kind == Memory::kShared && ibcoll_alloc(context_, piece, &memory) == IBCOLL_OK) {
      shared_.push_back(memory);
    } else {
      memory = runner_.memory(piece);
      ibcoll_memory* registration = nullptr;
      if (kind == Memory::kRegistered &&
          ibcoll_memory_register(context_, memory, piece, &registration) == IBCOLL_OK)
        registered_.push_back(registration);
    }
    pool.piece = static_cast<std::byte*>(memory);
    pool.left = piece;
  }
  std::byte* const memory = pool.piece;
  pool.piece += bytes;
  pool.left -= bytes;
  return memory;
}

ibcoll_status Buffers::close() {
  ibcoll_status first = IBCOLL_OK;
  const auto note = [&](ibcoll_status status) {
    if (first == IBCOLL_OK) first = status;
  };
  for (ibcoll_memory* const memory : registered_) note(ibcoll_memory_deregister(memory));
  for (void* const memory : shared_) note(ibcoll_free(context_, memory));
  registered_.clear();
  shared_.clear();
  return first;
}

}  // namespace ibcoll::lockstep
