#pragma once
/// What a program is bound to when it is posted: the memory behind its slots, how that is cut and
/// combined, what the call means and what it promises.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/execute/call_meaning.h"
#include "engine/execute/reduction.h"
#include "engine/schedule/program.h"
#include "engine/transport/transport.h"

namespace ibcoll {

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

/// One buffer. Equal slots: slot i lies at base + i * block_bytes, up to `limit` bytes (see
/// SlotMemory). Unequal ones: slot i has bytes[i] bytes at base + offsets[i].
struct BufferBinding {
  std::byte* base = nullptr;
  const uint64_t* offsets = nullptr;
  const uint64_t* bytes = nullptr;
  const StridedBuffer* strided = nullptr;  ///< null: slots are contiguous, where this says
};

/// The memory behind a program's slots.
struct SlotMemory {
  uint64_t block_bytes = 0;  ///< of a slot
  /// Where slots are parts of one block (RankProgram::cut): the block's bytes. What would lie
  /// behind is not there.
  uint64_t limit = UINT64_MAX;
  std::array<BufferBinding, 4> buffers;  ///< by Buffer
  bool unequal = false;                  ///< slots differ in size

  BufferBinding& operator[](Buffer buffer) { return buffers[static_cast<int>(buffer)]; }
  const BufferBinding& operator[](Buffer buffer) const { return buffers[static_cast<int>(buffer)]; }

  /// Whether some buffer is; those are what the program has given.
  bool is_strided() const {
    const bool sends = (*this)[Buffer::kSend].strided != nullptr;
    const bool receives = (*this)[Buffer::kRecv].strided != nullptr;
    return (int{sends} | int{receives}) != 0;  // at once: a branch each costs more
  }
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

/// All of it: memory, and what a call makes of it.
struct Binding : SlotMemory {
  // What is done with the memory.
  uint32_t pieces = 1;                   ///< of streams
  uint32_t grain = 1;                    ///< bytes that pieces don't divide: an element's
  const Reduction* reduction = nullptr;  ///< for kReduce; stays as long as the completion
  /// How many bytes of the send buffer, from its beginning, hold data by now: what reads more
  /// waits. It may grow between rounds of progress. Null: all do.
  const uint64_t* available = nullptr;

  // What the call promises.
  /// Messages between servers carry their data and wait for no exposure: all of them must fit
  /// max_mail_data(). The same on all ranks.
  bool eager = false;
  /// Ranks may end such a call that others have not begun: of eager ones some are not, so that
  /// nobody runs further ahead than that.
  bool one_way = false;
  /// How long the call may take on this rank, and when (now_ns()) that has passed; 0: as long as it
  /// likes.
  int64_t time_limit_ns = 0, deadline_ns = 0;

  // What it means.
  uint32_t meaning = 0;  ///< whatever else must be the same on all ranks: travels with the
                         ///< program's hash
  const CallMeaning* told = nullptr;  ///< for messages to people; stays as long as the completion
};

}  // namespace ibcoll
