#pragma once
/// How long a multicast takes at most: a bound that is known before anything is sent, from the set,
/// the size and what messages cost.

#include <cstdint>
#include <string_view>

#include "engine/base/result.h"
#include "engine/multicast/logp.h"
#include "engine/multicast/role.h"

namespace ibcoll {

struct MulticastBoundInputs {
  const MemberServers* servers = nullptr;  ///< of the set
  size_t set_bytes = 0;                    ///< of the set's encoding
  int64_t bytes = 0;                       ///< of the data
  std::string_view algorithm;              ///< of bcast, for data that don't fit a mail
  uint32_t pieces = 1;                     ///< that those are cut into
  /// Whether master and root are the same rank, on the same server, or on two.
  enum class Master : uint8_t { kRoot, kOnRootsServer, kElsewhere } master = Master::kElsewhere;
  double ranks_per_core = 1;  ///< that share the cores now
  int64_t mail_bytes = 4064;  ///< that a mail holds
  /// How long a rank that waits stays awake. 0: progress threads, which sleep at once.
  double awake_us = 2000;
  /// How many servers' streams pass through one link of the network at a time, at most. 1: a
  /// network that carries every permutation of its hosts.
  double sharing = 1;
};

/// The parts of a bound, which follow each other, in us.
struct MulticastBound {
  double announcement = 0;  ///< until all members know of the message; short data come with it
  double exposures = 0;     ///< until all may write to those they send to
  double feed = 0;          ///< data from the master to the root
  double distribution = 0;  ///< and on to all members
  double acks = 0;          ///< until the master knows
  double delay = 0;         ///< of the one message that may be slower than 99 of 100 are

  double total() const { return announcement + exposures + feed + distribution + acks + delay; }
};

/// The time from a multicast to the last acknowledgement, if all members make progress at once and
/// the network carries nothing else. Fails (kUnsupported) where a layer that the set needs has not
/// been measured, or nothing is known of the algorithm's time.
Result<MulticastBound> multicast_bound(const LogP& logp, const MulticastBoundInputs& inputs);

/// Operations that the program of a member has at most.
double most_operations(std::string_view algorithm, uint32_t pieces, const MemberServers& servers);

}  // namespace ibcoll
