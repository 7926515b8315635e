#pragma once
/// Which calls are measured together: those of sizes between two powers of two.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "integrations/mpi/selection.h"

namespace ibcoll::mpi {

/// Class 0 are calls without data, class c those of 2^(c-1) bytes and more; the last one has no
/// end.
inline constexpr int kSizeClasses = 28;

constexpr int size_class_of(uint64_t bytes) {
  return std::min(static_cast<int>(std::bit_width(bytes)), kSizeClasses - 1);
}
constexpr SizeRange sizes_of(int size_class) {
  if (size_class == 0) return {0, 0};
  const uint64_t low = uint64_t{1} << (size_class - 1);
  return {low, size_class == kSizeClasses - 1 ? UINT64_MAX : 2 * low - 1};
}

/// Functions whose ranks all know the size of a call. Of neighbours only those have to pass the
/// same that are neighbours of each other.
constexpr bool is_measured(Function function) {
  return knows_all_lengths(function) && !has_graph(function);
}
inline constexpr int kMeasured = [] {
  int count = 0;
  for (const Function function : kCollectives) count += is_measured(function) ? 1 : 0;
  return count;
}();

/// A number for each class of each function that is measured.
inline constexpr int kCells = kMeasured * kSizeClasses;
inline constexpr auto kFirstCells = [] {
  std::array<int, kFunctions> first = {};
  int next = 0;
  for (const Function function : kCollectives)
    if (is_measured(function)) {
      first[static_cast<size_t>(function)] = next;
      next += kSizeClasses;
    }
  return first;
}();
constexpr int cell_of(Function function, int size_class) {
  return kFirstCells[static_cast<size_t>(function)] + size_class;
}

}  // namespace ibcoll::mpi
