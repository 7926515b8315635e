#pragma once
/// The first phase of a call whose unequal blocks travel through other ranks: it sends the block
/// lengths the way the blocks will go (the same program on 8-byte blocks), which tells every rank
/// the size of all its slots.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/call_plan.h"
#include "engine/core/scratch_pool.h"
#include "engine/execute/posted_call.h"

namespace ibcoll {

class Group;

class LengthsPhase {
 public:
  /// The call has the phase: takes its memory. Whether or not this rank holds blocks of others: all
  /// ranks must take part.
  Status take(ScratchPool& scratch, const Shape& shape, const RankProgram& program);
  bool has_memory() const { return memory_ != nullptr; }
  /// Whether the phase is to come before the data: it has memory, and has not been made with that.
  bool is_due() const { return memory_ != nullptr && !known_; }

  /// What the program is bound to for the phase of a call whose data will be bound to `data`. Stays
  /// as it is until the phase has ended.
  Binding bind(const Shape& shape, const CallPlan& plan, const Binding& data);
  /// The phase has ended: the lengths of the scratch slots. Ends the job where somebody sends
  /// another length than `expected` of a slot of the receive buffer.
  Result<std::span<const uint64_t>> end(Group& group, const RankProgram& program,
                                        const uint64_t* expected);
  /// Gives the memory back.
  void release(ScratchPool& scratch);

 private:
  void place(Binding& lengths, size_t slots);

  std::byte* memory_ = nullptr;            ///< send, receive and scratch slots, 8 bytes each
  bool known_ = false;                     ///< the memory holds what the phase has brought
  std::vector<uint64_t> offsets_, bytes_;  ///< where slots are bound one by one
};

}  // namespace ibcoll
