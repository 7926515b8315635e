#pragma once
/// The network in software: connects ranks of emulated servers on one machine, processes or
/// threads, where there is no device. Placing data is one-sided as with a device: the sender does
/// it.

#include <memory>
#include <span>
#include <vector>

#include "engine/bootstrap/machine.h"
#include "engine/sharing/bell.h"
#include "engine/transport/network_kind.h"

namespace ibcoll {

struct LoopbackOptions {
  /// How data gets into the memory of a peer that is another process.
  enum class Placing {
    kAuto,    ///< kDirect where the kernel allows it, else kBounce
    kDirect,  ///< process_vm_writev
    kBounce,  ///< through rings in shared memory; the receiver's poll() copies it to its place
  };
  Placing placing = Placing::kAuto;  ///< threads of one process: memcpy, unless kBounce
  /// Not 0: adversarial. Does everything the interface permits a network to do, decided by (seed,
  /// rank): delays and interleaves what goes to different peers, places data in fragments in any
  /// order before its signal (reading the source that late), completes late, delivers in bursts and
  /// out of order across peers, says "no room" without reason, hands out little a poll.
  uint64_t seed = 0;
  /// This rank has at most so many connections at a time (ConnectionSlots); 0: any number.
  uint32_t connections = 0;
};

/// As IBCOLL_LOOPBACK_PLACING says, with that seed.
Result<LoopbackOptions> loopback_options_from_environment(uint64_t seed);

/// Collective over all ranks of the job, which must be on one machine; `processes` are theirs, in
/// ascending order of ranks.
/// `bells`: one a rank of the job, in memory all ranks share; a receiver's is rung when something
/// arrives for it, a sender's when there is room again. `bootstrap` and `bells` must outlive the
/// transport. Fails on all ranks alike, be it only that one could not read its options.
Result<std::unique_ptr<NetworkTransport>> create_loopback(Bootstrap& bootstrap,
                                                          std::span<Bell> bells,
                                                          std::span<const WatchedProcess> processes,
                                                          const Result<LoopbackOptions>& wanted);

/// What makes it a transport as others are.
NetworkKind loopback_kind();

}  // namespace ibcoll
