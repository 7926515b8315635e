#pragma once
/// When each operation of a schedule would run on an ideal machine: what the drawing shows.

#include <memory>
#include <span>

#include "engine/schedule/program.h"

namespace ibcoll {

/// One operation, or a piece of it, in time. The unit is the time a rank takes to put a block
/// to another server.
struct Activity {
  Rank rank = 0;
  Lane lane = Lane::kSend;
  uint32_t op = 0;
  double begin = 0, end = 0;
  double arrival = 0;  ///< to another server: when it is there
};

/// Runs a schedule that verify() has accepted on servers without contention: every rank puts its
/// blocks one after the other, one a time unit; blocks copied inside a server take a quarter of it
/// and anything between servers a quarter to arrive. Gives puts and signals to other servers,
/// copies and local expects, in the order of each rank's lanes. For times on a real network ask the
/// simulator.
std::vector<Activity> timeline(const Shape& shape,
                               std::span<const std::shared_ptr<const RankProgram>> programs,
                               uint32_t pieces = 1);

}  // namespace ibcoll
