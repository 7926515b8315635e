#pragma once
/// What the ranks of one machine tell each other in memory that they share: where each of them
/// lives, and the bells that wake them. No rank keeps the places of other machines.

#include <cstddef>
#include <span>
#include <vector>

#include "engine/bootstrap/machine.h"
#include "engine/bootstrap/shared_region.h"
#include "engine/sharing/bell.h"

namespace ibcoll {

class MachineBoard {
 public:
  MachineBoard() = default;

  /// What rank `me` asks for, whose place is on the board before SharedRegion::create_all() returns
  /// on any rank of its machine. `machines`: of each rank of the job.
  static SharedRegion::Request request(Rank me, std::span<const int> machines);
  /// `region`: what has been made as request() asks for it with the same arguments.
  MachineBoard(SharedRegion region, Rank me, std::span<const int> machines);

  /// Of the ranks of this machine.
  Bells bells() const;
  /// Of the ranks of this machine, in ascending order.
  std::span<const ProcessPlace> places() const;

 private:
  SharedRegion region_;
  std::vector<Rank> ranks_;  ///< of this machine
};

}  // namespace ibcoll
