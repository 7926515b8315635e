#pragma once
/// One call that has been posted: a program, the buffers it is bound to, and how far each lane is.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/execute/call_meaning.h"
#include "engine/execute/call_window.h"
#include "engine/execute/cells.h"
#include "engine/execute/mail.h"
#include "engine/execute/peer_states.h"
#include "engine/execute/reduction.h"
#include "engine/execute/regions.h"
#include "engine/execute/user_registrations.h"
#include "engine/schedule/program.h"
#include "engine/schedule/recording.h"
#include "engine/transport/transport.h"

namespace ibcoll {

struct PostedCall;

/// A set of ranks that makes calls together, as the executor sees it.
struct GroupState {
  uint64_t key = 0;   ///< equal on all members, different from every other group one of them is in
  uint64_t list = 0;  ///< equal for all groups of the same list of ranks
  /// For messages to people: the program's name for the group, 0 for none; of a call on a set the
  /// tag.
  uint64_t identifier = 0;
  bool of_set = false;  ///< it is of one call on a set
  Shape shape;          ///< of the group: ranks 0..size-1
  Rank me = 0;
  /// Rank in the job of each member. By arrival: -1 where this rank has nothing to do with one.
  std::vector<Rank> to_job;
  /// Its calls are made by arrivals (see ArrivalRuns), and `key` says so: nobody asks what they
  /// mean or whether they are late, and who makes them looks after their ends.
  bool by_arrival = false;
  /// Ranks of the job, of this server, that have died and that the others go on without: what is
  /// sent to them counts as taken. By arrival only.
  std::vector<Rank> lost;
  /// Added to the numbers of its calls to tell which of those that ranks may run ahead with are not
  /// eager: so that groups of one call each ask, too. Equal on all members.
  uint32_t asking = 0;
  bool one_way = false;  ///< ranks may have ended calls that others had not begun
  CallWindow calls;
  std::deque<PostedCall*>
      waiting;  ///< posted calls that may not start yet, in the order of their numbers
  std::optional<uint32_t> gate_slot;  ///< opened by the first program that uses gates
  std::optional<Error> over;          ///< what ended the group, if anything has; see GroupEnds

  explicit GroupState(Shape group_shape) : shape(std::move(group_shape)) {}

  bool has_lost(Rank job_rank) const {
    return !lost.empty() && std::find(lost.begin(), lost.end(), job_rank) != lost.end();
  }
  /// The rank in the group of a rank of the job that is one of its members. Not for the data path.
  Rank rank_of(Rank job_rank) const {
    return static_cast<Rank>(std::find(to_job.begin(), to_job.end(), job_rank) - to_job.begin());
  }
};

/// A buffer of the program's whose slots lie in memory of any layout. Its BufferBinding is then
/// that of a *packed image* of the slots, side by side in memory of the engine's own, where the
/// network brings them to and from which it takes those that are not put from where they lie; there
/// is none where it moves none of them.
struct StridedBuffer {
  StridedMemory memory;    ///< blocks: one a slot
  bool parts = false;      ///< slots are parts of the one block (RankProgram::cut)
  size_t image_bytes = 0;  ///< 0: there is no image
  uint64_t* in_image =
      nullptr;  ///< by slot: how many of its bytes, from the first, are in the image
  /// What holds all runs of slots that may be put from where they lie, and how many bytes these
  /// have; 0: there are none.
  const std::byte* gathered = nullptr;
  uint64_t gathered_reach = 0, gathered_bytes = 0;
  /// The network could not register that, and is not asked again.
  mutable bool refused = false;

  /// Runs from so many bytes on are put from where they lie: a network adapter reads each of them
  /// by itself, which takes it less time than packing takes a core.
  static constexpr uint64_t kLongRun = 4096;
  /// A contiguous block counts where it is put `alone`, however short.
  bool has_long_runs(uint32_t slot, bool alone) const {
    const StridedBlock& block = memory.blocks[parts ? 0 : slot];
    return (alone && block.is_contiguous()) || block.run >= kLongRun;
  }
};

/// The memory behind a program's slots. Equal blocks: slot i lies at base + i * block_bytes, up to
/// `limit` bytes. Otherwise (`offsets` set) slot i has bytes[i] bytes at base + offsets[i].
struct BufferBinding {
  std::byte* base = nullptr;
  const uint64_t* offsets = nullptr;
  const uint64_t* bytes = nullptr;
  const StridedBuffer* strided = nullptr;  ///< null: slots are contiguous, where this says
};

/// What a program is bound to when it is posted.
struct Binding {
  uint64_t block_bytes = 0;  ///< of a slot
  /// Where slots are parts of one block (RankProgram::cut): the block's bytes. What would lie
  /// behind is not there.
  uint64_t limit = UINT64_MAX;
  std::array<BufferBinding, 4> buffers;  ///< by Buffer
  uint32_t pieces = 1;                   ///< of streams
  const Reduction* reduction = nullptr;  ///< for kReduce; stays as long as the completion
  uint32_t grain = 1;    ///< bytes that pieces of streams don't divide: an element's
  uint32_t meaning = 0;  ///< whatever else must be the same on all ranks: travels with the
                         ///< program's hash
  const CallMeaning* told = nullptr;  ///< for messages to people; stays as long as the completion
  bool unequal = false;               ///< slots differ in size
  bool strided = false;               ///< some buffer is
  /// How long the call may take on this rank, and when (now_ns()) that has passed; 0: as long as it
  /// likes.
  int64_t time_limit_ns = 0, deadline_ns = 0;
  /// Messages between servers carry their data and wait for no exposure: all of them must fit
  /// max_mail_data(). The same on all ranks.
  bool eager = false;
  /// Ranks may end such a call that others have not begun: of eager ones some are not, so that
  /// nobody runs further ahead than that.
  bool one_way = false;
  /// How many bytes of the send buffer, from its beginning, hold data by now: what reads more
  /// waits. It may grow between rounds of progress. Null: all do.
  const uint64_t* available = nullptr;

  BufferBinding& operator[](Buffer buffer) { return buffers[static_cast<int>(buffer)]; }
  const BufferBinding& operator[](Buffer buffer) const { return buffers[static_cast<int>(buffer)]; }

  /// Of equal slots: where one begins, from the first.
  uint64_t offset(uint64_t slot) const { return std::min(limit, slot * block_bytes); }
  std::byte* address(Buffer buffer, uint32_t slot) const {
    const BufferBinding& b = (*this)[buffer];
    return b.base + (unequal ? b.offsets[slot] : offset(slot));
  }
  /// The bytes of slots that follow each other, wherever they lie; those of a buffer that is not
  /// strided must do so side by side.
  StridedView view(Buffer buffer, uint32_t first, uint32_t count) const {
    const StridedBuffer* const strided = (*this)[buffer].strided;
    if (strided == nullptr) return {address(buffer, first)};
    const StridedMemory& memory = strided->memory;
    if (strided->parts) return {memory.base, memory.blocks, 1, offset(first)};
    return {memory.base, memory.blocks + first, count};
  }
  size_t length(Buffer buffer, uint32_t first, uint32_t count) const {
    if (!unequal) return offset(uint64_t{first} + count) - offset(first);
    size_t sum = 0;
    for (uint32_t slot = first; slot < first + count; ++slot) sum += (*this)[buffer].bytes[slot];
    return sum;
  }
};

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

/// A put whose source is still being read.
struct PendingPut {
  uint32_t position;  ///< how many operations of the lane are complete at most, as long as this one
                      ///< is not
  Rank peer;          ///< in the job
  bool local;
  uint64_t ticket;
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
  const Op* ops = nullptr;
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

  bool finished() const { return next == size && pending.empty(); }
  /// How many operations are complete at most while a put at `position` is not. Operations of a
  /// relaxed run or of a stream that stand before it may still be open, or open again with the
  /// stream's next piece.
  uint32_t complete_before(uint32_t position) const {
    return in_run ? run_begin : std::min(position, next);
  }
  uint32_t complete() const { return pending.empty() ? next : pending.front().position; }
};

/// Where a put of this rank lands.
struct NextLanding {
  RegionPlace place;
  uint64_t bytes = 0;
  uint32_t next = kNone;
};

/// A message that came with its data and waits for its operation.
struct MailedPut {
  size_t offset = 0, bytes = 0;  ///< in PostedCall::mailed_data
  uint32_t next = kNone;
};

/// Memory that is registered for a call, or that the program has registered.
struct RegisteredMemory {
  MemoryKey key;
  RegionName region;
  UserRegistration* user = nullptr;  ///< whose both are; null: the call's
};

/// What one buffer's memory is registered as: a whole, or run by run of slots.
struct BufferRegions {
  std::vector<RegisteredMemory> registered;  ///< to be given back
  std::vector<uint32_t> of_slot;  ///< index in `registered`; empty: the first one is meant
  uint32_t gathered = kNone;      ///< which of them covers StridedBuffer::gathered; kNone: none

  /// What covers a slot, if that has data.
  RegisteredMemory of(uint32_t slot) const {
    if (registered.empty()) return {};
    return registered[of_slot.empty() ? 0 : of_slot[slot]];
  }
};

/// An exposure that this rank passes on to the other ranks of its server.
struct Forwarding {
  std::vector<std::byte> mail;
  int next_local = 0;
  bool last = true;  ///< of the mails that make up the exposure
};

/// Forwardings under way, in the order in which they came; entries keep their memory.
struct Forwardings {
  std::vector<Forwarding> items;
  size_t first = 0, count = 0;  ///< of items

  bool empty() const { return first == count; }
  Forwarding& front() { return items[first]; }
  Forwarding& add() {
    if (count == items.size()) items.emplace_back();
    items[count].next_local = 0;
    return items[count++];
  }
  void pop() {
    if (++first == count) clear();
  }
  void clear() { first = count = 0; }
};

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

/// What this rank did in a call, for a timeline.
struct CallRecord {
  const RankProgram* program = nullptr;
  uint64_t block_bytes = 0;  ///< unequal blocks: the average
  uint32_t pieces = 1;
  RankRecord rank;
};

/// When a program that tests for the end of a call last saw something move.
struct Tested {
  static constexpr int32_t kFirst = 8;
  int32_t left = kFirst, interval = kFirst;  ///< tests until the clock is read
  uint32_t moves = 0;                        ///< how often something had moved by then
  int64_t read_ns = 0;                       ///< when it was read last; 0: not yet
  int64_t checked_ns = 0;                    ///< when it was last looked why it may never end
  int64_t idle_since_ns = 0, next_report_ns = 0;
};

struct PostedCall {
  const RankProgram* program = nullptr;
  Completion* completion = nullptr;
  GroupState* group = nullptr;
  Binding binding;
  MessageKey key;
  bool streaming = false;      ///< copies bypass the caches
  bool plain = false;          ///< slots are of one length and contiguous, copies are plain
  Rank asked = -1;             ///< the peer that was asked last whether it means the same
  bool asked_waiting = false;  ///< by a rank that waits for this call alone
  int64_t absence_ns = 0;      ///< how long it had waited when a peer was found absent; 0: none is
  bool queued = false;         ///< posted, but too many calls are under way to start it
  uint32_t moves = 0;          ///< how often it moved on; wraps around
  Tested tested;
  std::array<LaneState, kLanes> lanes;
  /// Operations of each lane that are known to be complete. Completions of puts enter it when
  /// somebody asks.
  std::array<uint32_t, kLanes> complete;
  uint32_t gates = 0;            ///< passed by this rank
  CallRecord* record = nullptr;  ///< null: nothing is noted

  // Between servers only.
  bool outward = false;                  ///< has operations in the send or receive lane
  std::optional<uint32_t> cell;          ///< the immediate that peers' puts arrive with
  std::array<BufferRegions, 4> regions;  ///< by Buffer
  PeerStates peers;
  std::vector<NextLanding> landings;
  std::vector<MailedPut> mailed;
  std::vector<std::byte> mailed_data;
  std::vector<uint32_t>
      expects_by_server;  ///< positions in the receive lane, grouped by the sender's server
  Forwardings forwarding;
  uint32_t forwarded = 0;
  uint64_t number = 0;           ///< which no other call of this rank has
  std::optional<uint64_t> left;  ///< a mark of the network behind all of the call
  std::optional<Rank> held_by;   ///< in the job: what the call posted has not left for it yet

  CallKey id() const { return {key.group, key.sequence}; }
  const BufferRegions& regions_of(Buffer buffer) const { return regions[static_cast<int>(buffer)]; }

  /// Sets the lane's stream to the first one of this lane from index `from` on.
  void next_stream(LaneState& lane, uint32_t from) {
    const auto& streams = program->streams;
    while (from < streams.size() && &lanes[static_cast<int>(streams[from].lane)] != &lane) ++from;
    lane.stream = from;
    lane.stream_first = from < streams.size() ? streams[from].first : ~uint32_t{0};
  }
};

}  // namespace ibcoll
