#pragma once
/// The best placement that a time budget allows: several kinds of good starts, and the search that
/// suits the problem's size from there.

#include "studies/mapping/anneal.h"

namespace ibcoll::topology {

/// How far a search is.
struct RefineProgress {
  double part = 0;  ///< of the budget, 0 to 1
  const char* stage = "";
  Evaluation best;
};

struct RefineOptions {
  Goal goal;
  AnnealLimits limits;
  uint64_t seed = 1;
  std::function<void(const RefineProgress&)> progress;
};

/// Done at once where every message can go to a neighbour (see embed.h). Else the starts are: the
/// network's own order, MOPT with each join rule (grids), growing by graph distances, halving of
/// tasks and network at once, the heavier messages' pattern, grids behind the traffic folded into
/// the network's, and a hot anneal that forgets its start; tilings with equal groups of four tasks
/// where the maximum link load is the goal and they fit; descents from random placements where
/// there are few places. For hop-bytes on up to some hundred places, as many as there is time for,
/// breeding goes on from the starts (see breed.h). Searches for the maximum link load first go for
/// both figures, which leads out of the flat parts of the maximum alone. With a limit on moves
/// only, the result depends on the seed alone.
Placement refine(const CommMatrix& matrix, const Network& network, const Room& room,
                 const RefineOptions& options);

}  // namespace ibcoll::topology
