#pragma once
/// One call that has been posted: a program, the buffers it is bound to, and how far each lane is.

#include <array>
#include <cstdint>

#include "engine/base/result.h"
#include "engine/execute/binding.h"
#include "engine/execute/call_record.h"
#include "engine/execute/call_watch.h"
#include "engine/execute/group_state.h"
#include "engine/execute/lane_state.h"
#include "engine/execute/mail.h"
#include "engine/execute/remote_state.h"
#include "engine/schedule/program.h"
#include "engine/transport/transport.h"

namespace ibcoll {

/// How the one who posted a call learns that it has finished on this rank. Stays where it is until
/// then.
struct Completion {
  PostedCall* call = nullptr;  ///< under way; null before and after
  bool done = false;
  const Error* error = nullptr;  ///< of a group that ended before the call did
  /// If set, called instead of setting `done`: the next phase of something larger may be posted
  /// from here.
  void (*then)(void* owner) = nullptr;
  void* owner = nullptr;
};

struct PostedCall {
  const RankProgram* program = nullptr;
  Completion* completion = nullptr;
  GroupState* group = nullptr;
  Binding binding;
  MessageKey key;

  // How it is carried out: see set_ways().
  bool outward = false;    ///< has operations in the send or receive lane
  bool strided = false;    ///< a buffer is
  bool streaming = false;  ///< copies bypass the caches
  bool plain = false;      ///< slots are of one length and contiguous, copies are plain

  bool queued = false;  ///< posted, but too many calls are under way to start it
  uint32_t moves = 0;   ///< how often it moved on; wraps around
  std::array<LaneState, kLanes> lanes;
  /// Operations of each lane that are known to be complete. Completions of puts enter it when
  /// somebody asks.
  std::array<uint32_t, kLanes> complete;
  uint32_t gates = 0;            ///< passed by this rank
  CallRecord* record = nullptr;  ///< null: nothing is noted
  CallWatch watch;
  RemoteState remote;  ///< where it is outward

  CallKey id() const { return {key.group, key.sequence}; }

  /// Sets what follows from the program and the binding. Calls that touch more than
  /// `streaming_bytes` of memory on a server copy past the caches; 0: none does.
  void set_ways(size_t streaming_bytes) {
    outward = !program->lanes[0].empty() || !program->lanes[1].empty();
    strided = binding.is_strided();
    streaming = streaming_bytes != 0 && touches_more_than(streaming_bytes);
    plain = (int{binding.unequal} | int{strided} | int{streaming}) == 0;
  }
  /// Sets the lane's stream to the first one of this lane from index `from` on.
  void next_stream(LaneState& lane, uint32_t from) {
    const StreamReader& streams = lane.streams;
    const size_t count = program->streams.size();
    while (from < count && &lanes[static_cast<int>(streams[from].lane)] != &lane) ++from;
    lane.stream = from;
    lane.stream_first = from < count ? streams[from].first : ~uint32_t{0};
  }
  /// Of one that has just started: the first operations of the local lane have been carried out, in
  /// their order, and are complete. Streams have one piece.
  void skip(uint32_t operations);

 private:
  bool touches_more_than(size_t bytes) const {
    const auto all = static_cast<uint64_t>(group->shape.ranks());
    return 2 * all * all * binding.block_bytes > bytes && touched_bytes() > bytes;
  }
  /// Everybody's send and receive buffers, as far as this server's ranks touch them.
  uint64_t touched_bytes() const {
    const Shape& shape = group->shape;
    const uint64_t slots = program->send_slots(shape) + uint64_t{program->recv_slots(shape)};
    const auto ranks = static_cast<uint64_t>(shape.server_size(shape.server_of(group->me)));
    return slots * binding.block_bytes * ranks;
  }
};

}  // namespace ibcoll
