#pragma once
/// What an event of a schedule knows to have happened before it.

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/schedule/program.h"

namespace ibcoll {

/// Of every rank: how many operations of each lane, counted from its beginning, are complete, and
/// whether it has entered. Copies share their counts until one is changed.
class VectorClock {
 public:
  VectorClock() = default;
  /// The clock of `me` as it enters.
  VectorClock(int ranks, Rank me)
      : counts_(std::make_shared<std::vector<uint32_t>>(ranks * kWidth)) {
    (*counts_)[me * kWidth + kLanes] = 1;
  }

  uint32_t complete(Rank rank, int lane) const { return (*counts_)[rank * kWidth + lane]; }
  bool entered(Rank rank) const { return (*counts_)[rank * kWidth + kLanes] != 0; }

  void set_complete(Rank rank, int lane, uint32_t count) {
    own();
    (*counts_)[rank * kWidth + lane] = count;
  }

  /// Learns all the other knows.
  void join(const VectorClock& other) {
    if (counts_ == other.counts_) return;
    const std::vector<uint32_t>& theirs = *other.counts_;
    for (size_t i = 0; i < theirs.size(); ++i) {
      if (theirs[i] <= (*counts_)[i]) continue;
      own();
      std::vector<uint32_t>& mine = *counts_;
      for (; i < theirs.size(); ++i) mine[i] = theirs[i] > mine[i] ? theirs[i] : mine[i];
    }
  }

 private:
  static constexpr int kWidth = kLanes + 1;

  void own() {
    if (counts_.use_count() > 1) counts_ = std::make_shared<std::vector<uint32_t>>(*counts_);
  }

  std::shared_ptr<std::vector<uint32_t>> counts_;
};

}  // namespace ibcoll
