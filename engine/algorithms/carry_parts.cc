/// Broadcasts of a block in parts by a plan of transfers (contention_free.cc).

#include "engine/algorithms/bcast_parts.h"
#include "engine/algorithms/carry_transfers.h"

namespace ibcoll {

ProgramPtr carry_parts(const Shape& shape, Rank me, const AlgorithmOptions& options,
                       const TransferPlan& plan) {
  PartedBcast bcast("contention_free", shape, me, options, plan.parts,
                    PartedBcast::Passing::kByPiece);
  if (bcast.place() == 0) bcast.hand_out(0, plan.parts);
  for (const TransferPlan::Transfer& t : plan.transfers) {
    const int from = bcast.place_of(t.from), to = bcast.place_of(t.to);
    if (to == bcast.place()) {
      bcast.receive(from, t.part, 1);
      bcast.hand_out(t.part, 1);
    }
    if (from == bcast.place()) bcast.send(to, t.part, 1);
  }
  return bcast.finish();
}

}  // namespace ibcoll
