#pragma once
/// What one rank really did in one call, and when, as the executor notes it.

#include <cstdint>
#include <vector>

#include "engine/schedule/program.h"

namespace ibcoll {

/// An operation that was carried out, or a part of it that was.
struct RecordedOp {
  Lane lane = Lane::kSend;
  uint32_t op = 0;     ///< its place in the lane
  uint32_t piece = 0;  ///< of a stream
  int64_t begin_ns = 0, end_ns = 0;
};

/// A signal of another server that this rank saw come.
struct RecordedArrival {
  Rank from = 0;
  bool token = false;  ///< else: the data before it
  int64_t at_ns = 0;
};

/// One rank's notes.
struct RankRecord {
  int64_t begin_ns = 0, end_ns = 0;
  std::vector<RecordedOp> ops;
  std::vector<RecordedArrival> arrivals;
};

}  // namespace ibcoll
