#pragma once
/// How far a lane of a posted call has come.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/schedule/program.h"

namespace ibcoll {

/// A first-in, first-out queue that keeps its memory.
template <class T>
class Queue {
 public:
  bool empty() const { return items_.empty(); }  // pop() clears what has run out
  T& front() { return items_[head_]; }
  const T& front() const { return items_[head_]; }
  T& back() { return items_.back(); }
  auto begin() { return items_.begin() + static_cast<ptrdiff_t>(head_); }
  auto end() { return items_.end(); }
  void push(const T& item) { items_.push_back(item); }
  void pop() {
    if (++head_ == items_.size()) clear();
  }
  void clear() {
    items_.clear();
    head_ = 0;
  }

 private:
  std::vector<T> items_;
  size_t head_ = 0;
};

/// What a transport knows a put by.
struct PutTicket {
  Rank peer;  ///< in the job
  bool local;
  uint64_t ticket;
};

/// A put whose source is still being read.
struct PendingPut : PutTicket {
  uint32_t position;  ///< how many operations of the lane are complete at most, as long as this one
                      ///< is not
  uint32_t at, piece;  ///< which operation of the lane; of a stream, which piece
  bool ended = false;  ///< it is not read any more; the transport is not asked again
};

/// Of a stream in strands. Its operations are counted through, piece by piece.
struct StrandState {
  uint64_t next = 0;     ///< all of this strand that stands before has been started
  uint32_t held_up = 0;  ///< the pass in which it could not go on
  bool is_late = false;  ///< its peer has kept others waiting; they wait no more
};

struct LaneState {
  /// What it gives stays while an operation nearby is looked at, not when one is carried out: what
  /// is wrong with that may be told from others.
  OpReader ops;
  StreamReader streams;  ///< of all lanes
  uint32_t size = 0;
  uint32_t next = 0;                        ///< all before it have been started
  bool in_run = false;                      ///< a relaxed run is under way
  uint32_t run_begin = 0;                   ///< where it begins
  uint64_t started = 0;                     ///< operations of it: bit i stands for next + i
  uint32_t partial = 0;                     ///< the one of them that `progress` belongs to
  uint32_t stream = 0;                      ///< index of the lane's next stream in the program
  uint32_t stream_first = 0;                ///< where it begins; past the end: no more streams
  uint32_t stream_position = 0, piece = 0;  ///< all of it before has been started
  std::vector<StrandState> strands;         ///< of a stream in strands that is under way
  uint32_t open_strands = 0;  ///< of them not all has been started; 0: none is under way
  uint32_t pass = 0;          ///< over the strands
  int64_t idle_since_ns = 0;  ///< when a pass first moved nothing; 0: the latest moved something
  size_t progress = 0;  ///< bytes of a copy or pull, landings of an exposure, that is under way
  Queue<PendingPut> pending;

  /// The stream that the lane has come to goes in strands: what stands before stream_position, in
  /// the first piece, has been started.
  void begin_strands(const Strands& of_stream) {
    strands.assign(of_stream.ends.size(), {});
    open_strands = 0;
    for (const uint32_t end : of_stream.ends)
      open_strands += static_cast<uint32_t>(end >= stream_position);
    for (uint32_t place = 0; place < stream_position; ++place)
      strands[of_stream.of[place]].next = place + 1;
    pass = 0;
    idle_since_ns = 0;
  }
  bool finished() const { return next == size && pending.empty(); }
  /// How many operations are complete at most while a put at `position` is not. Operations of a
  /// relaxed run or of a stream that stand before it may still be open, or open again with the
  /// stream's next piece.
  uint32_t complete_before(uint32_t position) const {
    return in_run ? run_begin : std::min(position, next);
  }
  /// A put is read from now on, for the operation at `place`.
  void note_pending(const PutTicket& put, uint32_t place, uint32_t of_piece) {
    pending.push({put, complete_before(place), place, of_piece});
  }
  uint32_t complete() const { return pending.empty() ? next : pending.front().position; }
};

}  // namespace ibcoll
