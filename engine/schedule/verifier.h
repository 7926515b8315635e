#pragma once
/// Proves a schedule: all ranks' programs together, independently of how they were written.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/schedule/program.h"

namespace ibcoll {

using Programs = std::vector<std::shared_ptr<const RankProgram>>;

/// What a schedule that holds costs. "A rank": of the rank with most.
struct ScheduleReport {
  /// Puts of different servers into one server are ordered: it finished receiving from one when the
  /// other started. True where fewer than three servers are.
  bool paced = true;
  std::string witness;  ///< where not paced: two puts into one server that nothing orders
  uint32_t steps = 0;
  uint64_t net_messages = 0;  ///< data puts to other servers, a rank
  uint64_t net_blocks = 0;    ///< blocks they carry, a rank
  uint64_t net_tokens = 0;    ///< exposures and signals to other servers, a rank
  uint64_t local_messages = 0, local_blocks = 0;      ///< puts inside the server, a rank
  uint64_t copied_blocks = 0;                         ///< by copies, a rank
  uint64_t combined_blocks = 0;                       ///< by reductions and as they come, a rank
  uint64_t scratch_slots = 0;                         ///< a rank
  uint64_t all_net_messages = 0, all_net_blocks = 0;  ///< all ranks together
  uint64_t operations = 0;                            ///< all ranks together
  size_t memory_bytes = 0;                            ///< of a rank's program
};

/// A put of data to another server, and what happened before it whatever the timing.
struct OrderedPut {
  Rank from = 0, to = 0;
  uint32_t step = 0;
  uint32_t blocks = 0;
  uint32_t landed = 0;  ///< operations of `to`'s receive lane that are complete when it has landed
  std::vector<uint32_t> known;  ///< by rank: operations of its receive lane complete at the start

  /// Whether it has landed before the other starts.
  bool before(const OrderedPut& other) const { return other.known[to] >= landed; }
};

/// Checks that one program is well formed: peers, lanes, slices, streams, runs and `after` are
/// within bounds and make sense. verify() does it first.
Status check_program(const Shape& shape, const RankProgram& program);

/// Proves that the programs of all ranks together, with 1, 2 and 3 pieces a slot,
/// - bring every block to its place exactly once, and write every scratch slot exactly once with
///   the block it is declared to hold;
/// - reductions: combine the data of every rank that it is of (contributors()) exactly once into
///   what is received, and of no other, by the tree of rank_order.h where operations say that they
///   are ordered; a slot that has been written may be combined into;
/// - read nothing that is not written, and race nowhere: accesses to one slot of which one writes
///   are ordered by happens-before. A put reads its source until it is complete and writes its
///   target from its start until the matching expect is complete; in relaxed runs and between
///   strands nothing is ordered;
/// - match: puts and expects (number, place, step, exposure), signals and waits, forwards, gates;
///   no exposure and no token is left over;
/// - make progress under the weakest transport: lanes strictly in order, also inside relaxed runs
/// and streams,
///   a put to another server blocks until exposed, one to a local rank while the one before to the
///   same rank is not taken.
///
/// Barrier: no rank leaves before all have entered. The error (kInvalidProgram) names rank, lane,
/// step, operation and block. Time grows with the operations of all ranks times the ranks.
///
/// `pieces`: verify with this number only (0: with 1, 2 and 3). `puts`, if given, gets all puts of
/// data to other servers, with the smallest number of pieces; it takes 4 bytes a rank and put.
Result<ScheduleReport> verify(const Shape& shape,
                              std::span<const std::shared_ptr<const RankProgram>> programs,
                              uint32_t pieces = 0, std::vector<OrderedPut>* puts = nullptr);

}  // namespace ibcoll
