#pragma once
/// Carries out the operations of one call's lanes as far as they go.

#include "engine/base/test_hooks.h"
#include "engine/execute/disagreement.h"
#include "engine/execute/group_ends.h"
#include "engine/execute/job_end.h"
#include "engine/execute/mailroom.h"
#include "engine/execute/parts.h"
#include "engine/execute/posted_call.h"
#include "engine/transport/transport.h"

namespace ibcoll {

/// What operations are carried out with.
struct LaneServices {
  LocalTransport& local;
  NetworkTransport* network;  ///< null on a single server
  Mailroom& mailroom;
  Disagreements& disagreements;
  GroupEnds& ends;
  JobEnd& end;
  /// Peers that are late may hold up others for a while. Not before a sleep: nobody knows how long
  /// that takes.
  bool patient = true;
};

class LaneRunner {
 public:
  LaneRunner(const LaneServices& services, PostedCall& call)
      : services_(services), call_(call), to_job_(call.group->to_job.data()) {}

  /// Starts what can be started; true if anything moved.
  bool advance(LaneState& lane);

 private:
  /// What one copy moves at most before the network is looked after.
  IBCOLL_LIMIT(size_t, kPieceBytes, 128 * 1024);

  enum class Outcome : uint8_t { kDone, kMoved, kBlocked };
  /// Whether everything the operation comes after is complete. In streams piece p depends on piece
  /// p of what feeds it.
  bool ready(const Op& op, Part part = {}) {
    const std::array<uint32_t, kLanes>& complete = call_.complete;
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
  bool is_complete(PendingPut& put);
  bool has_ended(PendingPut& put);
  /// To be called when lane.next has moved or a put has been retired.
  void note_complete(const LaneState& lane) {
    call_.complete[static_cast<size_t>(&lane - call_.lanes.data())] = lane.complete();
  }
  Outcome advance_in_order(LaneState& lane);
  bool advance_run(LaneState& lane);
  Outcome advance_stream(LaneState& lane);
  Outcome advance_strands(LaneState& lane, const Stream& stream);
  void end_stream(LaneState& lane, const Stream& stream);
  Outcome execute(LaneState& lane, const Op& op, uint32_t position, Part part);
  Outcome execute_now(LaneState& lane, const Op& op, uint32_t position, Part part);
  Outcome execute_and_note(LaneState& lane, const Op& op, uint32_t position, Part part);
  bool copy_short(const Op& op, Part part);
  Outcome copy(LaneState& lane, const Op& op, Part part);
  void copy_scattered(const Op& op, Part part);
  Outcome put_local_strided(LaneState& lane, const Op& op, uint32_t position, Part part);
  Outcome note_offer(LaneState& lane, Offer offer, Rank peer, uint32_t ticket, uint32_t position,
                     Part part);
  Pull take_strided(LaneState& lane, const Op& op, Part part);
  Outcome copy_between_views(LaneState& lane, const Op& op, Part part);
  bool put_in_image(const Op& op, size_t begin, size_t end);
  bool is_gathered(const Op& op) const;
  Outcome put_gathered(LaneState& lane, const Op& op, uint32_t position, Part part,
                       RemoteAddress target);
  Outcome expect_strided(LaneState& lane, const Op& op, Part part);
  Outcome reduce(LaneState& lane, const Op& op, Part part);
  Outcome end_by_operator(const Op& op, const char* failure);
  Outcome put_local(LaneState& lane, const Op& op, uint32_t position, Part part, bool token);
  Outcome put_network(LaneState& lane, const Op& op, uint32_t position, Part part);
  /// Of a put to another server: its source is being read.
  void note_put(LaneState& lane, Rank peer, uint32_t position, Part part) {
    const uint64_t ticket = services_.network->posted(peer);
    lane.pending.push({lane.complete_before(position), peer, false, ticket, position, part.piece});
  }
  void note_another_put(LaneState& lane, Rank peer, uint32_t position, Part part);
  Outcome put_mailed(const Op& op, Part part);
  Outcome take_mailed(const Op& op, Part part);
  Pull take(LaneState& lane, const Op& op, Part part, bool token, Combining* how);
  Outcome pull(LaneState& lane, const Op& op, Part part, bool token);
  bool all_exposed(const Op& op);
  Outcome expose(LaneState& lane, const Op& op);
  static bool take_one(uint32_t& count) { return count != 0 && count-- != 0; }
  bool gates_passed(const Op& op);
  bool open_gates();
  Rank job_rank(Rank rank) const { return to_job_[rank]; }
  /// Where a part of `length` bytes begins and ends.
  size_t part_begin(Part part, size_t length) const {
    return ibcoll::part_begin(call_, part, length);
  }
  size_t part_end(Part part, size_t length) const { return ibcoll::part_end(call_, part, length); }

  const LaneServices& services_;
  PostedCall& call_;
  const Rank* to_job_;
};

}  // namespace ibcoll
