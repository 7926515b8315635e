/// Linear reduce: every rank puts its block to the root, which combines them in the order of ranks:
/// the same bits whatever the layout and the root. The baseline; the root's port and memory take
/// all blocks at once. Source: Open MPI's "basic linear" reduce. Steps: 1. Messages: 1 of each
/// rank, P - 1 into the root. Bytes: P - 1 blocks. Combines: P - 1 blocks at the root. Scratch: P -
/// 1 slots at the root.

#include "engine/algorithms/registry.h"
#include "engine/algorithms/server_walk.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  ProgramBuilder program(Collective::kReduce, "linear", shape, me, options);
  const Rank root = options.root;
  // Rank 0's lands where the result goes, those of the others in scratch, but the root's own.
  const auto place = [&](Rank rank) {
    if (rank == 0) return recv_slot(0);
    return Slice{Buffer::kScratch, static_cast<uint32_t>(rank - 1 - (root > 0 && root < rank)), 1};
  };
  program.begin_stream();
  if (me != root) {
    program.put(root, send_slot(0), place(me));
    program.end_stream();
    return program.finish();
  }
  const Block combined{Block::kCombined, root};
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    if (rank > 0 && rank != root) program.add_scratch({&combined, 1});
  }
  if (root == 0) program.copy(recv_slot(0), send_slot(0));
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    if (rank != root) program.expect(rank, place(rank));
    if (rank > 0) program.reduce(recv_slot(0), rank == root ? send_slot(0) : place(rank), true);
  }
  program.end_stream();
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "linear",
    .collectives = {Collective::kReduce},
    .summary = "all ranks send to the root, which combines in the order of ranks",
    .when = "few ranks",
    .source = "Open MPI (basic linear)",
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
