#pragma once
/// Where the slots of a program lie: in the buffers of a call, and in memory that is taken for it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/call_arguments.h"
#include "engine/core/call_blocks.h"
#include "engine/core/call_plan.h"
#include "engine/core/group.h"

namespace ibcoll {

/// Bound and released again and again; keeps its lists from one call to the next.
class CallSlots {
 public:
  /// The group must outlive it.
  explicit CallSlots(Group& group) : group_(group) {}

  /// Says where the slots of the plan's program lie for arguments that have been checked. Takes
  /// scratch memory, but none for slots whose lengths this rank has yet to learn
  /// (bind_scratch()), and memory for a copy of what is sent in place where other data would land
  /// on it. What it has taken before it fails release() gives back.
  Status bind(const CallArguments& arguments, const CallPlan& plan, SlotMemory& slots);
  /// Takes memory for scratch slots of these lengths.
  Status bind_scratch(std::span<const uint64_t> bytes, SlotMemory& slots);

  /// Where data that is sent in place is copied to; null: it is read where it lies.
  const std::byte* aside() const { return aside_; }
  /// Copies it; its blocks may have layouts of the program's own (null: they have none).
  void copy_aside(const CallArguments& arguments, const CallBlocks* blocks);

  bool has_memory() const { return scratch_ != nullptr || aside_ != nullptr; }
  /// Gives the memory back.
  void release();

 private:
  /// What one bind() is about.
  struct Task {
    const CallArguments& arguments;
    const CallPlan& plan;
    SlotMemory& slots;
  };
  Status bind_equal(const Task& task);
  Status bind_in_place(const Task& task);
  Status bind_parts(const Task& task);
  Status bind_side_by_side(const Task& task);
  Status bind_unequal(const Task& task);
  Status bind_neighbors(const Task& task);
  Status bind_aside(size_t bytes, SlotMemory& slots);
  Status bind_scratch_slots(SlotMemory& slots);

  Group& group_;
  std::byte* scratch_ = nullptr;  ///< of the program
  std::byte* aside_ = nullptr;
  size_t aside_bytes_ = 0;
  // Slots that lie side by side are those of reduce_scatter, of neighbours, and parts of a block.
  std::vector<uint64_t> slot_bytes_, slot_offsets_;
  std::vector<uint64_t> send_offsets_;  ///< of data that is copied aside
  std::vector<uint64_t> scratch_bytes_, scratch_offsets_;
};

}  // namespace ibcoll
