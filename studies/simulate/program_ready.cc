/// What an operation of a program waits for, uses up, moves and costs.

#include <algorithm>
#include <cmath>

#include "studies/simulate/program_run.h"

namespace ibcoll::sim {

bool ProgramRun::may_start(Rank rank, const PackedItem& what) const {
  const RankRun& run = ranks_[rank];
  if (options_.hold == Hold::kBarrier && what.step() > step_) return false;
  if (options_.hold == Hold::kRankStep && what.step() > run.step) return false;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (run.at[lane].complete() < what.after(lane)) return false;
  }
  return peer_ready(rank, what);
}

bool ProgramRun::peer_ready(Rank rank, const PackedItem& what) const {
  const int32_t peer = what.peer();
  const auto local = [&] { return shape_.same_server(rank, peer); };
  const auto puts = [&]() -> const LocalPuts& {
    return local_[static_cast<size_t>(rank) * shape_.max_server_size() + shape_.local_of(peer)];
  };
  switch (what.kind()) {
    case OpKind::kPut:
      return local() || from_peer_.get(rank, peer).exposures > what.exposure();
    case OpKind::kExpect:
      if (local()) return puts().first < puts().puts.size();
      return from_peer_.get(rank, peer).arrived > 0;
    case OpKind::kWait:
      if (local()) return puts().tokens > 0;
      return from_peer_.get(rank, peer).tokens > 0;
    case OpKind::kWaitExposed: {
      const auto members = shape_.members(peer);
      return std::all_of(members.begin(), members.end(), [&](Rank member) {
        return from_peer_.get(rank, member).exposures >= what.threshold();
      });
    }
    case OpKind::kForward:
      return ranks_[rank].routed >= what.threshold();
    case OpKind::kGateWait: {
      const auto members = shape_.members(shape_.server_of(rank));
      return std::all_of(members.begin(), members.end(),
                         [&](Rank member) { return ranks_[member].gates >= what.threshold(); });
    }
    default:
      return true;
  }
}

/// How long the rank itself is busy with an operation, copies apart.
Time ProgramRun::cost(Rank rank, const PackedItem& what) {
  const Rank peer = what.peer();
  switch (what.kind()) {
    case OpKind::kPut: {
      if (shape_.same_server(rank, peer)) return 0;
      Time time = options_.send_overhead_ns * kPicosecondsPerNanosecond;
      if (options_.jitter > 0) {
        time += std::llround(random_.unit() * options_.jitter * static_cast<double>(what.bytes()) *
                             routes_.ps_per_byte(route(rank, peer)));
      }
      return time;
    }
    case OpKind::kSignal:
      if (shape_.same_server(rank, peer) || !what.sends_token()) return 0;
      return options_.send_overhead_ns * kPicosecondsPerNanosecond;
    case OpKind::kExpose:
      return options_.send_overhead_ns * kPicosecondsPerNanosecond;
    case OpKind::kExpect:
    case OpKind::kWait:
      if (shape_.same_server(rank, peer)) return 0;
      return options_.recv_overhead_ns * kPicosecondsPerNanosecond;
    default:
      return 0;
  }
}

/// Uses up what the operation has waited for.
void ProgramRun::take(Rank rank, const PackedItem& what) {
  const Rank peer = what.peer();
  if (what.kind() == OpKind::kExpect && !shape_.same_server(rank, peer)) {
    --from_peer_(rank, peer).arrived;
  } else if (what.kind() == OpKind::kWait) {
    if (shape_.same_server(rank, peer)) {
      --local_puts(peer, rank).tokens;
    } else {
      --from_peer_(rank, peer).tokens;
    }
  }
}

}  // namespace ibcoll::sim
