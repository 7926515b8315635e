#pragma once
/// What operations do where slots lie in memory of any layout (StridedBuffer).

#include <cstddef>
#include <cstdint>

#include "engine/execute/lane_services.h"
#include "engine/execute/parts.h"
#include "engine/execute/posted_call.h"
#include "engine/transport/transport.h"

namespace ibcoll {

/// Of one call, some buffer of which is strided; others may be contiguous.
class StridedOperations {
 public:
  StridedOperations(const LaneServices& services, PostedCall& call)
      : services_(services), call_(call), to_job_(call.group->to_job) {}

  OpOutcome copy(LaneState& lane, const Op& op, Part part);
  /// A put to a rank of this server.
  Offer offer(const Op& op, Part part, uint32_t& ticket);
  /// From a rank of this server, in a call that combines nothing.
  Pull pull(LaneState& lane, const Op& op, Part part);

  /// Whether what a put to another server reads is put from where it lies. Otherwise it is put from
  /// the image.
  bool puts_runs(const Op& op, Part part) const;
  /// Puts it from there, with as many puts as that takes.
  OpOutcome put_runs(LaneState& lane, const Op& op, uint32_t position, Part part,
                     RemoteAddress target);
  /// Sees to it that the image holds the bytes that a put reads: what has come through the network
  /// is there already. False: part of it has been copied.
  bool fill_image(const Op& op, Part part);
  /// Data from another server, which lands in the image.
  OpOutcome expect(LaneState& lane, const Op& op, Part part);

 private:
  bool is_gathered(const Op& op) const;
  void note_put(LaneState& lane, Rank peer, uint32_t position, Part part);
  size_t part_begin(Part part, size_t length) const {
    return ibcoll::part_begin(call_, part, length);
  }
  size_t part_end(Part part, size_t length) const { return ibcoll::part_end(call_, part, length); }

  const LaneServices& services_;
  PostedCall& call_;
  RankSpan to_job_;
};

}  // namespace ibcoll
