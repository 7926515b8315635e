#pragma once
/// Calls that are made because something arrives: what the executor wants of who makes them.

#include <cstddef>
#include <span>

#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// Makes calls because mails arrive, not because the program asks: multicasts. All of it is called
/// inside of progress, by the thread that makes it, and may enter, leave and end groups and post
/// calls, but not wait or make progress itself.
class ArrivalRuns {
 public:
  virtual ~ArrivalRuns() = default;
  /// A mail of kind kMulticast, whose MailHeader comes first as in all; `local`: of a rank of this
  /// server. The bytes are valid during the call only.
  virtual void take(std::span<const std::byte> mail, bool local) = 0;
  /// Goes on with what is under way; true if something moved. Called in every round of progress
  /// while busy().
  virtual bool advance() = 0;
  virtual bool busy() const = 0;
  /// A rank of the job has died and the job goes on. Groups by arrival that it is in are left to
  /// these runs.
  virtual void lost(Rank rank, const Failure& why) = 0;
};

}  // namespace ibcoll
