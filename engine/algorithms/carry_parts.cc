/// Broadcasts of a block in parts by a plan of transfers (contention_free.cc).

#include "engine/algorithms/bcast_parts.h"
#include "engine/algorithms/carry_transfers.h"

namespace ibcoll {

ProgramPtr carry_parts(const Shape& shape, Rank me, const AlgorithmOptions& options,
                       const TransferPlan& plan) {
  const uint32_t pieces = plan.pieces;
  PartedBcast bcast("contention_free", shape, me, options, plan.parts * pieces);
  if (bcast.place() == 0) bcast.hand_out(0, plan.parts * pieces);
  struct Hop {
    int other;       ///< place of the sender or receiver
    uint32_t first;  ///< slot
    uint32_t begin;  ///< round in which the first piece is there, or can go on
  };
  std::vector<Hop> in, out;
  std::vector<uint32_t> depth(plan.transfers.size(), 1);
  uint32_t rounds = 0;
  for (size_t i = 0; i < plan.transfers.size(); ++i) {
    const TransferPlan::Transfer& t = plan.transfers[i];
    if (t.forwards != TransferPlan::kNone) depth[i] += depth[t.forwards];
    rounds = std::max(rounds, depth[i] + pieces);
    const int from = bcast.place_of(t.from), to = bcast.place_of(t.to);
    if (to == bcast.place()) in.push_back({from, t.part * pieces, depth[i]});
    if (from == bcast.place()) out.push_back({to, t.part * pieces, depth[i] - 1});
  }
  // What is expected comes in one order whatever its way: each piece stands where it is there if
  // all of them take as long from server to server.
  for (uint32_t round = 0; round < rounds; ++round) {
    const auto each = [&](const std::vector<Hop>& hops, auto&& visit) {
      for (const Hop& hop : hops) {
        if (round < hop.begin || round - hop.begin >= pieces) continue;
        visit(hop.other, hop.first + round - hop.begin);
      }
    };
    each(in, [&](int from, uint32_t slot) {
      bcast.receive(from, slot, 1);
      bcast.hand_out(slot, 1);
    });
    each(out, [&](int to, uint32_t slot) { bcast.send(to, slot, 1); });
  }
  return bcast.finish();
}

}  // namespace ibcoll
