#pragma once
/// What belongs to a handle of the MPI's.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "integrations/mpi/library.h"

namespace ibcoll::mpi {

/// By any thread. Takes memory only when it holds more than it ever did.
template <class Value>
class HandleTable {
 public:
  void insert(Handle handle, Value* value) {
    const std::lock_guard lock(mutex_);
    if (2 * (count_ + 1) > slots_.size()) grow();
    place({handle, value});
    ++count_;
  }
  /// Null: there is none.
  Value* find(Handle handle) const {
    if (count_.load(std::memory_order_relaxed) == 0) return nullptr;
    const std::lock_guard lock(mutex_);
    if (count_ == 0) return nullptr;
    const Slot& slot = slots_[slot_of(handle)];
    return slot.value;
  }
  void erase(Handle handle) {
    const std::lock_guard lock(mutex_);
    if (count_ == 0) return;
    size_t gap = slot_of(handle);
    if (slots_[gap].value == nullptr) return;
    --count_;
    slots_[gap] = {};
    // Those behind that would not be found any more move up.
    for (size_t at = next(gap); slots_[at].value != nullptr; at = next(at)) {
      const Slot moved = slots_[at];
      slots_[at] = {};
      place(moved);
    }
  }

 private:
  struct Slot {
    Handle handle = 0;
    Value* value = nullptr;  ///< null: the slot is free
  };
  static constexpr size_t kFirst = 64;
  size_t next(size_t slot) const { return (slot + 1) & (slots_.size() - 1); }
  /// Where it stands, or would.
  size_t slot_of(Handle handle) const {
    size_t slot = (handle * 0x9e3779b97f4a7c15 >> 20) & (slots_.size() - 1);
    while (slots_[slot].value != nullptr && slots_[slot].handle != handle) slot = next(slot);
    return slot;
  }
  void place(const Slot& slot) { slots_[slot_of(slot.handle)] = slot; }
  void grow() {
    std::vector<Slot> before(slots_.empty() ? kFirst : 2 * slots_.size());
    before.swap(slots_);
    for (const Slot& slot : before)
      if (slot.value != nullptr) place(slot);
  }

  mutable std::mutex mutex_;
  std::vector<Slot> slots_;  ///< a power of two, at most half of them taken
  std::atomic<size_t> count_{0};
};

}  // namespace ibcoll::mpi
