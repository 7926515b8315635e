#pragma once
/// What waits are made with.

#include "engine/execute/calls_under_way.h"
#include "engine/execute/health.h"
#include "engine/execute/idling.h"
#include "engine/execute/job_end.h"
#include "engine/execute/rounds.h"
#include "engine/sharing/bell.h"

namespace ibcoll {

/// How the job host moves on, where it has messages of its own: a peer may be waiting for one
/// of them before it comes to the call that this rank waits in.
struct JobHostProgress {
  void (*progress)(void* host) = nullptr;  ///< null: nothing is to be called
  void* host = nullptr;
};

struct WaitServices {
  Rounds& rounds;
  CallsUnderWay& under_way;
  Health& health;
  JobEnd& end;
  Bell& bell;
  Idling::Manner manner;  ///< of the program's threads
  JobHostProgress host = {};

  void serve_host() const { host.progress(host.host); }
};

}  // namespace ibcoll
