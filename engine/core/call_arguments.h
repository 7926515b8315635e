#pragma once
/// What a collective call is given, and the checks that need no other rank. check_arguments() goes
/// through all of a call, by the row of its collective (collective_traits.h).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/core/call_plan.h"
#include "engine/execute/call_meaning.h"
#include "engine/execute/reduction.h"
#include "ibcoll/blocks.h"

namespace ibcoll {

/// The arguments of a call. Lengths and places in bytes.
struct CallArguments {
  Collective collective = Collective::kBarrier;
  CallPurpose purpose = CallPurpose::kProgram;
  Rank root = 0;  ///< where the collective has one
  /// bcast: the one buffer, as both.
  const void* send = nullptr;
  void* recv = nullptr;
  /// The data to send lies in the receive buffer, where it is to end up (of gather(v) and reduce:
  /// the root's own); scatter(v): the root's own block stays in the send buffer.
  bool in_place = false;
  size_t block_bytes = 0;  ///< equal blocks
  // Where blocks differ, one entry a rank: reduce_scatter the elements that each receives;
  // alltoallv both, allgatherv and the root of gatherv those received, the root of scatterv those
  // sent.
  const int64_t* send_counts = nullptr;
  const int64_t* send_displacements = nullptr;
  const int64_t* recv_counts = nullptr;
  const int64_t* recv_displacements = nullptr;
  /// allgatherv, gatherv: of the block that this rank sends; scatterv: that it receives.
  int64_t own_count = 0;
  /// How the blocks of a side lie: one a slot, instead of counts and displacements; null: they are
  /// contiguous. bcast: the buffer's, as both.
  const ibcoll_block* send_blocks = nullptr;
  const ibcoll_block* recv_blocks = nullptr;
  Reduction reduction;                ///< of what combines
  std::shared_ptr<const void> keeps;  ///< what the reduction's context is a part of, if anything
  size_t send_limit = 0, recv_limit = 0;  ///< sizes of the buffers; 0: not known
  int64_t time_limit_ns = 0;              ///< of the call on this rank, from its start; 0: none
  CallOptions options;
};

/// The mean of the blocks of a reduce_scatter, whose arguments are checked.
int64_t mean_bytes(const CallArguments& arguments, int ranks);

/// Refuses what can't be right before anything is sent: buffers that are missing, too small or
/// overlap, blocks of the receive buffer that do, counts that are missing, negative or differ for
/// the rank's own block, a root that is not there, in place where it makes no sense.
Status check_arguments(const Shape& shape, Rank me, const CallArguments& arguments);

// Of its parts:

/// Refuses blocks of the receive buffer that overlap each other; those of no bytes never do. `who`:
/// whose they are, "rank", "neighbour". Counts and places are known to be good.
Status check_apart(std::span<const int64_t> counts, const int64_t* displacements, const char* who);
/// The same of blocks of any layout, which may lie between each other's runs. Where it takes long
/// to find out whether two of them share a byte they are taken as they are.
Status check_apart(std::span<const ibcoll_block> blocks, const char* who);
/// Of one side, all of whose blocks have layouts: the bytes that these have together. Refuses
/// layouts that can't be right, of the receive buffer also those that overlap.
Result<size_t> used_by_layouts(const CallArguments& arguments, bool sends,
                               std::span<const ibcoll_block> blocks);

}  // namespace ibcoll
