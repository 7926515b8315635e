#pragma once
/// The job of processes that a launcher started or a host has, on one machine or many.
///
/// Rank 0 tells everybody, through the launcher or host, a token and where it listens. The first
/// process of a machine that takes the machine's socket name becomes its leader; the others of the
/// machine connect to it, it connects to rank 0. Inside a machine the ranks meet in shared memory,
/// passed by descriptor, and what concerns other machines goes through the leaders. The end of a
/// process is the end of its connection, so it is noticed at once, whether somebody waits for it or
/// not; between machines a connection that breaks is made again.

#include <memory>
#include <string>

#include "engine/bootstrap/bootstrap.h"
#include "engine/bootstrap/process_manager.h"

namespace ibcoll {

struct JoinOptions {
  /// Tells machines apart among processes that could reach each other's sockets: processes with
  /// equal texts are on one machine. Empty: containers by their process namespace.
  std::string machine;
  /// How long rank 0 waits for the others.
  int limit_s = 60;
  /// How long another machine may be silent before its ranks count as unreachable.
  int silence_ms = 30'000;
  /// To how many machines each passes on at most what all ranks have given to an allgather. Rank
  /// 0's counts.
  int fan_out = 4;
  /// The process belongs to a host, which alone says when it ends and who may read its memory: the
  /// job does not end with the process's parent, the process's exit is no goodbye, and its tracer
  /// stays what it is.
  bool hosted = false;
  /// A pidfd of the process that the job ends with, the caller's for as long as this one joins;
  /// invalid: none.
  int launcher = -1;
};

/// Collective over the processes of the job. The manager serves one call at a time.
Result<std::unique_ptr<Bootstrap>> join_through(ProcessManager& manager,
                                                const JoinOptions& options = {});

}  // namespace ibcoll
