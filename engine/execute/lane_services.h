#pragma once
/// What a call's lanes are carried out with, and what becomes of their operations.

#include <cstddef>
#include <cstdint>

#include "engine/execute/disagreement.h"
#include "engine/execute/group_ends.h"
#include "engine/execute/job_end.h"
#include "engine/execute/mailroom.h"
#include "engine/sharing/test_hooks.h"
#include "engine/transport/transport.h"

namespace ibcoll {

struct LaneServices {
  LocalTransport& local;
  NetworkTransport* network;  ///< null on a single server
  Mailroom& mailroom;
  Disagreements& disagreements;
  GroupEnds& ends;
  JobEnd& end;
  /// Peers that are late may hold up others for a while. Not before a sleep: nobody knows how long
  /// that takes.
  bool patient = true;

  /// What one copy moves at most before the network is looked after.
  IBCOLL_LIMIT(size_t, kPieceBytes, 128 * 1024);
};

/// Of an operation that was to be carried out.
enum class OpOutcome : uint8_t {
  kDone,
  kMoved,    ///< part of it; LaneState::progress says how much
  kBlocked,  ///< nothing
};

}  // namespace ibcoll
