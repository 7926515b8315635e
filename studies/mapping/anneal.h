#pragma once
/// Simulated annealing of a placement with incremental evaluation of hop-bytes and of link loads.

#include <cstdint>
#include <functional>

#include "studies/mapping/evaluate.h"
#include "studies/mapping/stopwatch.h"

namespace ibcoll::topology {

/// What a search minimises: (1 - link_share) x ln(hop-bytes) + link_share x ln(maximum link load).
/// While searching, the maximum is stood in for by the p-norm of the link loads, which still has a
/// slope where many links are equally loaded.
struct Goal {
  double link_share = 0;   ///< 0: hop-bytes alone; 1: the maximum link load alone
  bool mesh_hops = false;  ///< count a torus's hops without its wraparound links
  int norm = 16;           ///< p, a power of two from 2 to 64
};

/// The value of a placement under a goal, smaller is better; comparable for one matrix only.
/// Hop-bytes decide between equal maximum link loads, and the other way round.
double goal_value(const Goal& goal, const Evaluation& evaluation);

/// When to stop: at the deadline or after so many moves, whichever comes first.
struct AnnealLimits {
  double seconds = 1;
  int64_t moves = INT64_MAX;
  Clock clock = Clock::kWall;
};

struct AnnealOptions {
  Goal goal;
  AnnealLimits limits;
  /// Temperature at the start and at the end, in units of one task's part of the goal (1 / tasks):
  /// about 1 forgets the start, 0.03 keeps most of it.
  double hot = 1;
  double cold = 0.001;
  /// One move in so many is of whole boxes of nodes (grids only).
  int between_boxes = 100;
  uint64_t seed = 1;
  /// Called now and then with the part of the run that is over (0 to 1) and the best placement's
  /// hop-bytes and link load.
  std::function<void(double, double, double)> progress;
};

/// The best placement seen on the way from `start`, never worse than it.
Placement anneal(const CommMatrix& matrix, const Network& network, const Room& room,
                 const Placement& start, const AnnealOptions& options);

}  // namespace ibcoll::topology
