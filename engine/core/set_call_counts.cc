#include "engine/core/set_call_counts.h"

#include <algorithm>
#include <utility>

namespace ibcoll {
namespace {

constexpr size_t kFirstSlots = 64;

/// Zero stands for nothing.
uint64_t stored(uint64_t list) { return list == 0 ? 1 : list; }

}  // namespace

/// Where a list is, or would be. Lists are hashes already.
size_t SetCallCounts::Table::slot_of(uint64_t list) const {
  size_t slot = list % lists_.size();
  while (lists_[slot] != 0 && lists_[slot] != list) slot = (slot + 1) % lists_.size();
  return slot;
}

uint32_t* SetCallCounts::Table::find(uint64_t list) {
  if (size_ == 0) return nullptr;
  const size_t slot = slot_of(list);
  return lists_[slot] == 0 ? nullptr : &made_[slot];
}

uint32_t& SetCallCounts::Table::add(uint64_t list, uint32_t made) {
  if (2 * (size_ + 1) > lists_.size()) grow();
  const size_t slot = slot_of(list);
  ++size_;
  lists_[slot] = list;
  return made_[slot] = made;
}

void SetCallCounts::Table::grow() {
  const size_t slots = std::max(kFirstSlots, 2 * lists_.size());
  const std::vector<uint64_t> lists = std::exchange(lists_, std::vector<uint64_t>(slots));
  const std::vector<uint32_t> made = std::exchange(made_, std::vector<uint32_t>(slots));
  for (size_t i = 0; i < lists.size(); ++i) {
    if (lists[i] == 0) continue;
    const size_t slot = slot_of(lists[i]);
    lists_[slot] = lists[i];
    made_[slot] = made[i];
  }
}

void SetCallCounts::Table::clear() {
  std::fill(lists_.begin(), lists_.end(), 0);
  size_ = 0;
}

uint32_t SetCallCounts::made(uint64_t list) const {
  list = stored(list);
  if (const uint32_t* made = young_.find(list)) return *made;
  const uint32_t* made = old_.find(list);
  return made != nullptr ? *made : 0;
}

uint32_t& SetCallCounts::place_of(uint64_t list) {
  list = stored(list);
  if (uint32_t* made = young_.find(list)) return *made;
  const uint32_t* known = old_.find(list);
  const uint32_t made = known != nullptr ? *known : 0;
  if (young_.size() == kRemembered) {
    std::swap(young_, old_);
    young_.clear();
  }
  return young_.add(list, made);
}

}  // namespace ibcoll
