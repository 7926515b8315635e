#include "engine/execute/cells.h"

#include <bit>

namespace ibcoll {

std::optional<Cells::Lent> Cells::take(uint32_t cells, Run* run) {
  const uint32_t units = std::bit_ceil(((cells - 1) >> kUnitBits) + 1);
  const auto size_bits = static_cast<uint8_t>(std::countr_zero(units));
  if (size_bits >= free_.size()) return std::nullopt;
  std::vector<uint32_t>& free = free_[size_bits];
  if (free.empty()) {
    const auto first = static_cast<uint32_t>(range_of_unit_.size());
    if (units > kUnits - first) return std::nullopt;
    free.push_back(static_cast<uint32_t>(ranges_.size()));
    ranges_.push_back({first, size_bits, 0, nullptr});
    range_of_unit_.resize(first + units, free.back());
  }
  const uint32_t index = free.back();
  free.pop_back();
  Range& range = ranges_[index];
  range.run = run;
  ++range.epoch;
  return Lent{index, Cell::pack(range.epoch, range.first_unit << kUnitBits)};
}

void Cells::release(uint32_t index) {
  ranges_[index].run = nullptr;
  free_[ranges_[index].size_bits].push_back(index);
}

Cells::Target Cells::find(uint32_t immediate) const {
  const uint32_t index = Cell::index(immediate);
  const uint32_t unit = index >> kUnitBits;
  if (unit >= range_of_unit_.size()) return {};
  const Range& range = ranges_[range_of_unit_[unit]];
  if (Cell::pack(range.epoch, index) != (immediate & ~Cell::kToken)) return {};
  return {range.run, index - (range.first_unit << kUnitBits)};
}

}  // namespace ibcoll
