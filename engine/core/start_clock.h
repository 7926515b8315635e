#pragma once
/// How long the parts of a context's start take.

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/base/clock.h"

namespace ibcoll {

enum class StartPhase {
  kPlaces,   ///< ranks learn of each other's machines and settings, and are put on servers
  kMemory,   ///< what ranks of a machine and of a server share, and what follows from who is there
  kNetwork,  ///< the transport between servers
  kWorld,    ///< files that all use, and the group of all ranks
  kBarrier,  ///< the last one
};
inline constexpr size_t kStartPhases = 5;

class StartClock {
 public:
  /// What has been done since the last phase ended, or since the clock was made, belongs to that
  /// phase, of which there may be several parts.
  void end(StartPhase phase) {
    const int64_t now = now_ns();
    ns_[static_cast<size_t>(phase)] += now - last_ns_;
    last_ns_ = now;
  }
  int64_t ns(StartPhase phase) const { return ns_[static_cast<size_t>(phase)]; }

 private:
  int64_t last_ns_ = now_ns();
  std::array<int64_t, kStartPhases> ns_{};
};

}  // namespace ibcoll
