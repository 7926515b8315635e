#pragma once
/// Which calls of a group may be under way at a time.

#include <bit>
#include <cstdint>

#include "engine/sharing/test_hooks.h"
#include "engine/transport/transport.h"

namespace ibcoll {

/// The numbers of a group's calls. Gates have a bank for each of the last calls, so a call starts
/// only when all calls so many before it have ended. Numbers wrap around.
class CallWindow {
 public:
  IBCOLL_LIMIT(uint32_t, kCallsUnderWay, LocalTransport::kGateBanks);

  /// The number of the next call.
  uint32_t take() { return next_++; }
  /// How many numbers were taken, or the first one where that was not 0.
  uint32_t taken() const { return next_; }
  /// The first call's number, before there was any.
  void begin_at(uint32_t sequence) { next_ = oldest_ = sequence; }
  bool may_start(uint32_t sequence) const { return sequence - oldest_ < kCallsUnderWay; }
  /// Of a number that was taken, not more than half of all numbers ago; others have not ended.
  bool has_ended(uint32_t sequence) const {
    const uint32_t place = sequence - oldest_;
    return place >= uint32_t{1} << 31 || (place < kCallsUnderWay && (ended_ >> place & 1) != 0);
  }
  /// A call that might start has ended. True if others may start now.
  bool end(uint32_t sequence) {
    ended_ |= 1u << (sequence - oldest_);
    const int done = std::countr_one(ended_);
    oldest_ += static_cast<uint32_t>(done);
    ended_ = static_cast<uint32_t>(uint64_t{ended_} >> done);
    return done != 0;
  }

 private:
  uint32_t next_ = 0;
  uint32_t oldest_ = 0;  ///< the first call that has not ended
  uint32_t ended_ = 0;   ///< bit i: call oldest_ + i has
};

}  // namespace ibcoll
