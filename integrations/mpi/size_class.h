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

/// Not those of neighbours: whose calls they are depends on the graph, too.
constexpr bool is_measured(Function function) { return !has_graph(function); }
/// Of the others all calls are measured together, in class 0: they are without data, or no rank
/// knows all lengths.
constexpr bool has_classes(Function function) {
  return moves_data(function) && knows_all_lengths(function);
}
constexpr bool has_class(Function function, int size_class) {
  return is_measured(function) && (size_class != 0) == has_classes(function);
}
/// Which sizes are those of a class.
constexpr SizeRange sizes_of(Function function, int size_class) {
  return has_classes(function) || !moves_data(function) ? sizes_of(size_class) : SizeRange{};
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
constexpr int size_class_of_cell(int cell) { return cell % kSizeClasses; }
constexpr Function function_of_cell(int cell) {
  for (const Function function : kCollectives)
    if (is_measured(function) && cell_of(function, size_class_of_cell(cell)) == cell)
      return function;
  return Function::kBarrier;
}

}  // namespace ibcoll::mpi
