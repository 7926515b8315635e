#pragma once
/// Where the processes of a job find rank 0.

#include <string>
#include <vector>

#include "engine/bootstrap/control_connection.h"
#include "engine/bootstrap/handshake.h"

namespace ibcoll {

/// Where rank 0 is, as the launcher passes it on: "TOKEN/PORT/ADDRESS/ADDRESS...".
struct RootPlace {
  JobToken token{};
  int port = 0;
  std::vector<std::string> addresses;

  std::string text() const;
  static Result<RootPlace> parse(const std::string& text);
};

struct RootAnswer {
  std::string address;   ///< of rank 0's, the one that has answered
  bool refused = false;  ///< rank 0 itself has said no, and the error is its own
};

/// Calls rank 0 by whichever of its addresses answers first, and is let in: those of bridges and
/// the like may mean another machine here, or nobody.
Result<ControlConnection> call_root(const RootPlace& place, Rank me, int silence_ms, Deadline until,
                                    RootAnswer& answer);

}  // namespace ibcoll
