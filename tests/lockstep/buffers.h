#pragma once
/// Memory for the buffers of a rank's calls, taken from the runner and the library in large pieces.

#include <array>
#include <cstddef>
#include <vector>

#include "tests/lockstep/program.h"

namespace ibcoll::lockstep {

class Runner;

/// A piece of memory with what must not be touched on both sides.
struct Guarded {
  static constexpr size_t kGuard = 64;

  std::byte* memory = nullptr;  ///< as it was taken
  std::byte* data = nullptr;
  size_t bytes = 0;
  std::byte rest{0};  ///< fills the guards, and gaps between blocks
  uint8_t size_class = 0;
  Memory kind = Memory::kPrivate;

  void fill_guards() const;
  /// Fills all of it.
  void fill() const;
  bool is_filled() const;
  /// Whether both still hold what they were filled with.
  bool is_whole() const;
};

class Buffers {
 public:
  Buffers(ibcoll_context* context, Runner& runner) : context_(context), runner_(runner) {}

  /// `shift` bytes behind a multiple of 64. Memory of the kind as far as the library gives it.
  Guarded take(Memory kind, size_t bytes, size_t shift, std::byte rest);
  void put(Guarded& buffer);
  /// Gives back what is the library's; with an error of the last function that had one.
  ibcoll_status close();

 private:
  static constexpr size_t kClasses = 40;
  struct Pool {
    std::array<std::vector<std::byte*>, kClasses> free;
    std::byte* piece = nullptr;
    size_t left = 0;
  };
  std::byte* more(Memory kind, size_t bytes);

  ibcoll_context* const context_;
  Runner& runner_;
  std::array<Pool, 3> pools_;
  std::vector<void*> shared_;
  std::vector<ibcoll_memory*> registered_;
};

}  // namespace ibcoll::lockstep
