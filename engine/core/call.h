#pragma once
/// One collective call from its arguments to its end: checks, plan, memory, phases. Blocking,
/// nonblocking and persistent calls are all made of it.

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/core/call_arguments.h"
#include "engine/core/call_blocks.h"

namespace ibcoll {

struct CallCheck;

/// Where unequal blocks travel through other ranks, a first phase sends the block lengths the way
/// the blocks will go (the same program on 8-byte blocks), which tells every rank the size of all
/// its slots; then the data follows. Elsewhere there is one phase.
class Call {
 public:
  explicit Call(Group& group);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Checks the arguments, chooses the program, takes the memory. Local. May be repeated with other
  /// arguments when not under way.
  Status prepare(const CallArguments& arguments);
  /// Starts it; from then on done() tells. Again after it is done, as often as wanted.
  Status start();
  bool under_way() const { return started_ && !completion_.done; }
  Result<bool> test();
  Status wait();
  /// Gives the memory back; the call must not be under way, and is prepared anew before it starts
  /// again.
  void release();

  /// Gives the memory back of a call that is not under way; one that has none stays prepared.
  void rest();
  bool is_prepared() const { return prepared_; }

  /// Posts a prepared call of one phase that is a phase of another one, which learns by
  /// `completion` that it has ended.
  Status post_for(Completion& completion, uint32_t sequence, int64_t time_limit_ns,
                  int64_t deadline_ns);

  Collective collective() const { return arguments_.collective; }
  Group& group() { return *group_; }
  /// What prepare() has chosen.
  const CallPlan& plan() const { return plan_; }

 private:
  Status choose_and_bind();
  Status give_up(const Error& error);
  void take_blocks();
  void tell_meaning(uint64_t block_bytes);
  Status bind_equal();
  Status bind_unequal();
  Status bind_neighbors();
  void place_lengths(Binding& lengths);
  Status bind_side_by_side();
  Status bind_in_place(size_t bytes);
  void copy_aside();
  Status bind_known_scratch();
  Status take_scratch_slots();
  Status start_lengths(uint32_t sequence);
  Status start_data(void (*then)(void* call));
  Status take_lengths();
  static void after_lengths(void* call);
  Status start_special();
  Status start_phases();
  // Of calls whose bytes are checked:
  Status prepare_check();
  Status start_checked();
  Status post_check();
  static void after_data(void* call);
  static void after_check(void* call);
  Result<bool> has_verdicts();
  Status await_verdicts();
  void release_check();

  std::shared_ptr<Group> group_;
  CallArguments arguments_;
  CallPlan plan_;
  Binding binding_;
  CallMeaning meaning_;
  uint64_t reduction_ = 0;  ///< in meaning_
  Completion completion_;
  bool started_ = false;
  bool prepared_ = false;
  Status failure_;
  std::byte* scratch_ = nullptr;   ///< of the program
  std::byte* in_place_ = nullptr;  ///< copy of the data to send
  size_t in_place_bytes_ = 0;
  // Unequal blocks. Slots that lie side by side are those of reduce_scatter, and parts of a block.
  std::vector<uint64_t> slot_bytes_, slot_offsets_;
  std::vector<uint64_t> send_offsets_, scratch_bytes_, scratch_offsets_;
  std::unique_ptr<CallBlocks> blocks_;  ///< null: no call so far had blocks of its own layout
  bool has_blocks_ = false;             ///< this one has, with is_special_
  const bool checks_;                   ///< the bytes of all calls of the context are checked
  bool is_special_ = false;             ///< has blocks, or checks_: most calls look here alone
  std::vector<uint64_t> length_offsets_, length_bytes_;  ///< of neighbours' lengths
  bool lengths_known_ = false;
  std::optional<uint32_t> data_sequence_;  ///< of the second phase
  std::unique_ptr<CallCheck> check_;       ///< null: no call so far was checked
  std::byte* lengths_ =
      nullptr;  ///< send, receive and scratch slots of the first phase, 8 bytes each
};

}  // namespace ibcoll
