#pragma once
/// Tables as --all-tables measures them, whose figures a test makes up.

#include <vector>

#include "engine/base/units.h"
#include "perf/compare/verdict.h"

namespace ibcoll::compare {

/// A cell that takes so long, and is so many times as fast as the faster MPI.
inline Cell cell(contest_collective collective, int ranks, int64_t bytes, bool private_memory,
                 double ours_us, double faster) {
  Cell made;
  made.collective = collective;
  made.ranks = ranks;
  made.bytes = bytes;
  made.private_memory = private_memory;
  made.ours_us = ours_us;
  made.faster = {faster, 0.9 * faster, 1.1 * faster};
  made.of_rounds = faster;
  return made;
}

/// Both memories, all cells alike.
inline std::vector<Cell> whole_tables(double ours_us, double faster) {
  std::vector<Cell> cells;
  for (const bool private_memory : {true, false}) {
    for (const int ranks : {2, 4, 8}) {
      for (int i = 0; i < CONTEST_COLLECTIVES; ++i) {
        const auto collective = static_cast<contest_collective>(i);
        if (collective == CONTEST_NEIGHBOR_ALLTOALL && ranks == 2) continue;
        for (const int64_t bytes :
             collective == CONTEST_BARRIER ? std::vector<int64_t>{0} : *parse_sizes("8,64-4M:4"))
          cells.push_back(cell(collective, ranks, bytes, private_memory, ours_us, faster));
      }
    }
  }
  return cells;
}

}  // namespace ibcoll::compare
