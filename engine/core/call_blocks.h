#pragma once
/// The blocks of a call that have layouts of the program's own: what the executor needs of them.

#include <array>
#include <vector>

#include "engine/core/call_arguments.h"
#include "engine/core/scratch_pool.h"
#include "engine/execute/posted_call.h"

namespace ibcoll {

/// How a block that has been checked lies.
StridedBlock strided(const ibcoll_block& given);

/// Lives as long as the call is prepared; keeps its memory from one to the next.
class CallBlocks {
 public:
  /// Takes the blocks of arguments that have been checked, and gives those counts in their place:
  /// all that does not look at memory goes by these.
  void take(const Shape& shape, Rank me, CallArguments& arguments);
  /// Binds the buffers whose blocks they are, after all else: with images, in scratch memory, of
  /// what the network moves of them.
  Status bind(ScratchPool& scratch, const RankProgram& program, const CallArguments& arguments,
              Binding& binding);
  /// For each start: no image holds anything.
  void start();
  /// Copies all that this side has to memory where it lies side by side; false: it has no blocks of
  /// its own.
  bool pack(Buffer buffer, std::byte* to) const;
  /// Gives the scratch memory back.
  void release(ScratchPool& scratch);

 private:
  /// The send or the receive buffer.
  struct Side {
    bool used = false;
    std::vector<StridedBlock> blocks;
    std::vector<int64_t> counts;  ///< bytes of each
    std::vector<int64_t> places;  ///< in the image, of those that are there
    std::vector<uint64_t> in_image;
    std::byte* image = nullptr;
    StridedBuffer buffer;

    void take(const ibcoll_block* given, uint32_t slots);
  };
  Side& side(Buffer buffer) { return sides_[buffer == Buffer::kSend ? 0 : 1]; }
  const Side& side(Buffer buffer) const { return sides_[buffer == Buffer::kSend ? 0 : 1]; }
  Status bind_side(ScratchPool& scratch, const RankProgram& program, Buffer buffer, std::byte* base,
                   Binding& binding);

  std::array<Side, 2> sides_;
};

}  // namespace ibcoll
