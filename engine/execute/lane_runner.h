#pragma once
/// Starts the operations of one call's lanes, in the order in which they may start.

#include <array>
#include <cstdint>

#include "engine/execute/lane_operations.h"
#include "engine/execute/lane_services.h"
#include "engine/execute/parts.h"
#include "engine/execute/posted_call.h"

namespace ibcoll {

class LaneRunner {
 public:
  LaneRunner(const LaneServices& services, PostedCall& call) : operations_(services, call) {}

  /// Starts what can be started; true if anything moved.
  bool advance(LaneState& lane);

 private:
  /// Whether everything the operation comes after is complete. In streams piece p depends on piece
  /// p of what feeds it.
  bool ready(const Op& op, Part part = {}) {
    const std::array<uint32_t, kLanes>& complete = call().complete;
    static_assert(kLanes == 3);
    // All three at once: a branch each costs more than the comparisons.
    const int early = int{op.after[0] > complete[0]} | int{op.after[1] > complete[1]} |
                      int{op.after[2] > complete[2]};
    if (early == 0) [[likely]]
      return true;
    return ready_by_now(op, part);
  }
  bool ready_by_now(const Op& op, Part part);
  bool has_started(const LaneState& lane, uint32_t count, uint32_t piece) const;
  bool is_read(LaneState& lane, uint32_t count, uint32_t piece);
  const Stream* stream_at(const LaneState& lane, uint32_t place) const;
  void retire(LaneState& lane);
  /// To be called when lane.next has moved or a put has been retired.
  void note_complete(const LaneState& lane) {
    call().complete[static_cast<size_t>(&lane - call().lanes.data())] = lane.complete();
  }
  OpOutcome advance_in_order(LaneState& lane);
  bool advance_run(LaneState& lane);
  OpOutcome advance_stream(LaneState& lane);
  OpOutcome advance_strands(LaneState& lane, const Stream& stream);
  void end_stream(LaneState& lane, const Stream& stream);

  PostedCall& call() const { return operations_.call(); }

  LaneOperations operations_;
};

}  // namespace ibcoll
