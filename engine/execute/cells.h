#pragma once
/// The cells in which one rank counts what peers of other servers signal.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/execute/mail.h"

namespace ibcoll {

struct Run;

/// Hands out ranges of cells: a call that leaves the server takes one cell a rank of its group, and
/// gives them back when it ends. A range keeps its place and size for ever and is lent out again,
/// each time with another epoch, so that a signal of an earlier use is told apart. What is lent at
/// a time limits how many calls may be under way: 2^24 cells are 65536 calls of 256 ranks, or 64 of
/// 262144.
class Cells {
 public:
  /// A range of cells while it is lent out.
  struct Lent {
    uint32_t range = 0;
    uint32_t immediate = 0;  ///< of the range's first cell; cell i's is i more
  };
  /// What a signal counts for.
  struct Target {
    Run* run = nullptr;  ///< null: nobody waits for it
    uint32_t cell = 0;   ///< in its range
  };

  /// `cells` cells for a call; none where all are lent out.
  std::optional<Lent> take(uint32_t cells, Run* run);
  void give_back(const Lent& lent) { release(lent.range); }
  Target find(uint32_t immediate) const;

 private:
  static constexpr uint32_t kUnitBits = 6;
  static constexpr uint32_t kUnits = 1u << (Cell::kIndexBits - kUnitBits);
  struct Range {
    uint32_t first_unit = 0;
    uint8_t size_bits = 0;  ///< it has 2^size_bits units
    uint8_t epoch = 0;
    Run* run = nullptr;
  };
  void release(uint32_t range);

  std::vector<Range> ranges_;
  std::vector<uint32_t> range_of_unit_;
  std::array<std::vector<uint32_t>, Cell::kIndexBits - kUnitBits + 1> free_;  ///< by size_bits
};

}  // namespace ibcoll
