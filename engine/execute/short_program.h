#pragma once
/// A program that is short when it is bound to little data, as a list of operations which the
/// transport inside the server carries out at once.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/execute/binding.h"
#include "engine/execute/group_state.h"
#include "engine/schedule/program.h"
#include "engine/sharing/test_hooks.h"
#include "engine/transport/transport.h"

namespace ibcoll {

/// The operations of the local lane, in their order. Made again for another program, or for slots
/// of another length, but not for other buffers.
class ShortProgram {
 public:
  /// The next calls run another program, or have other lengths.
  void forget() {
    uses_ = 0;
    ops_.clear();
    gate_members_.clear();
  }
  /// To be called for each call. A program that is used again is looked at, and there is a list if
  /// all it does is inside the server, in one piece a message, and short enough.
  void use(const GroupState& group, const RankProgram& program, const Binding& binding) {
    if (uses_ > kUses) [[likely]]
      return;
    if (uses_++ == kUses) make(group, program, binding);
  }
  /// Empty: the program is to be carried out as all are.
  std::span<const ShortOp> ops() const { return ops_; }

  /// Carries them out, and gives how many; `looks`: see ShortCall.
  size_t carry_out(LocalTransport& local, const GroupState& group, const MessageKey& key,
                   const Binding& binding, int looks) const {
    ShortCall call;
    call.ops = ops_;
    call.gate_members = gate_members_;
    call.gate_slot = group.gate_slot.value_or(0);
    for (size_t i = 0; i < call.buffers.size(); ++i) call.buffers[i] = binding.buffers[i].base;
    if (binding.reduction != nullptr) {
      call.combine = binding.reduction->combine;
      call.combine_reversed = binding.reduction->combine_reversed;
      call.context = binding.reduction->context;
    }
    call.looks = looks;
    return local.carry_out(key, call);
  }

 private:
  /// More take longer than what is saved; and calls that are prepared keep the list.
  static constexpr size_t kMostOps = 64;
  /// To make the list takes longer than to carry out one call.
  IBCOLL_LIMIT(uint32_t, kUses, 1);

  void make(const GroupState& group, const RankProgram& program, const Binding& binding);

  uint32_t uses_ = 0;  ///< of what is used now, as far as that matters
  std::vector<ShortOp> ops_;
  std::vector<Rank> gate_members_;  ///< of the job; none where no operation is for gates
};

}  // namespace ibcoll
