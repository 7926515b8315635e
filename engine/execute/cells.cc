#include "engine/execute/cells.h"

#include <algorithm>

#include "engine/sharing/test_hooks.h"

namespace ibcoll {
namespace {

IBCOLL_LIMIT(uint32_t, kMostCells, 1u << Cell::kIndexBits);

}  // namespace

Cells::Share Cells::share_of(int local, int ranks) {
  const uint32_t count =
      std::min((1u << Cell::kIndexBits) / static_cast<uint32_t>(ranks), kMostCells);
  return {static_cast<uint32_t>(local) * count, count};
}

std::optional<uint32_t> Cells::take(PostedCall* call) {
  if (free_.empty()) {
    if (lent_.size() == share_.count) return std::nullopt;
    free_.push_back(static_cast<uint32_t>(lent_.size()));
    lent_.emplace_back();
    free_.reserve(lent_.capacity());
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  Lent& lent = lent_[index];
  lent.call = call;
  ++lent.epoch;
  return Cell::pack(lent.epoch, share_.first + index);
}

void Cells::give_back(uint32_t immediate) {
  const uint32_t index = Cell::index(immediate) - share_.first;
  lent_[index].call = nullptr;
  free_.push_back(index);
}

}  // namespace ibcoll
