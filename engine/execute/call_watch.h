#pragma once
/// What those who look after waits have noted of a call: Health, and Disagreements that asks.

#include <cstdint>

#include "engine/execute/clock_pace.h"
#include "engine/schedule/shape.h"

namespace ibcoll {

struct CallWatch {
  static constexpr int32_t kFirst = 8;

  ClockPace tests{kFirst};     ///< of a program that tests for the call's end
  int64_t idle_since_ns = 0;   ///< when something of it was last seen to move; 0: nobody looked yet
  int64_t absence_ns = 0;      ///< how long it had waited when a peer was found absent; 0: none is
  int64_t end_ns = 0;          ///< the same when the job was found to have ended
  Rank asked = -1;             ///< the peer that was asked last whether it means the same
  bool asked_waiting = false;  ///< by a rank that waits for this call alone
  uint32_t moves = 0;          ///< how often something had moved when somebody looked
  int64_t next_report_ns = 0;
  int64_t checked_ns = 0;  ///< when it was last looked why it may never end

  /// Of another call from now on.
  void begin() {
    tests.begin(kFirst);
    idle_since_ns = absence_ns = end_ns = 0;
    asked = -1;
  }
};

}  // namespace ibcoll
