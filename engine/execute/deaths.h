#pragma once
/// Deaths of ranks after which the job goes on.

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// A death ends the groups that the rank was in: rings and heaps of the others are as they were,
/// and the network takes it out (NetworkTransport::lose).
class Deaths {
 public:
  /// `has_died`: whether a rank has; empty: the job does not go on after a death.
  /// `on_new`: what follows from one that is known from now on.
  Deaths(std::function<bool(Rank)> has_died, std::function<void(const Failure&)> on_new)
      : has_died_(std::move(has_died)), on_new_(std::move(on_new)) {}

  /// Whether the job goes on after a failure; takes note of it then. May be asked about the same
  /// one again.
  bool survives(const Failure& failure) {
    if (failure.culprit < 0 || failure.code != ErrorCode::kRankDied) return false;
    if (include(failure.culprit)) return true;
    if (!has_died_ || !has_died_(failure.culprit)) return false;
    take(failure);
    return true;
  }
  /// Takes note of one that the ranks of a group have agreed on.
  void take(const Failure& death) {
    if (include(death.culprit)) return;
    known_.push_back(death);
    on_new_(death);
  }
  /// Whether the job would go on after the death of a rank, which is alive.
  bool deny(Rank rank) const { return has_died_ && !include(rank) && !has_died_(rank); }
  bool include(Rank rank) const { return find(rank) != known_.end(); }
  /// How a rank that they include has died.
  const std::string& why(Rank rank) const { return find(rank)->what; }
  /// In the order in which this rank has learnt of them.
  const std::vector<Failure>& known() const { return known_; }

 private:
  std::vector<Failure>::const_iterator find(Rank rank) const {
    return std::find_if(known_.begin(), known_.end(),
                        [rank](const Failure& death) { return death.culprit == rank; });
  }

  const std::function<bool(Rank)> has_died_;
  const std::function<void(const Failure&)> on_new_;
  std::vector<Failure> known_;
};

}  // namespace ibcoll
