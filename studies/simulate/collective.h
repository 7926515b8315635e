#pragma once
/// Simulates a collective: builds the programs the engine would run and runs them on a fabric.

#include <string>
#include <vector>

#include "engine/algorithms/registry.h"
#include "studies/simulate/program_run.h"
#include "topology/fabric.h"

namespace ibcoll::sim {

/// How ranks go from step to step.
enum class Mode : uint8_t {
  kBarrier,      ///< all ranks wait for each other between steps: how step times are measured
  kSendReceive,  ///< each rank sends and receives, then goes on: the papers' pseudo code
  kFree,         ///< each rank sends as fast as its port takes it
  kPaced,        ///< as the engine runs it: window, gates and tokens of the program
};

struct CollectiveOptions {
  Mode mode = Mode::kPaced;
  /// Of the program, where the mode is kPaced; the other modes run it without pacing of its own.
  AlgorithmOptions algorithm;
  NetworkOptions network;
  RunOptions run;               ///< `hold` is set by the mode; block_bytes: bytes a pair
  std::vector<uint32_t> hosts;  ///< of each server; empty: host i for server i
  /// Of a server, over which its ranks are dealt. Each is a host of the fabric: those of a server
  /// follow each other, in `hosts` as well.
  uint32_t ports = 1;
};

struct CollectiveReport {
  double time_us = 0;  ///< of the slowest rank
  /// Bytes that leave the busiest server for other servers, or enter it, whichever is more, as the
  /// collective demands, whatever the algorithm moves, over the time: "all-to-all bandwidth".
  double bandwidth_MBps = 0;
  /// Of the rate at which that server's port could move them: bandwidth over link.
  double link_fraction = 0;
  double max_link_utilisation = 0;
  double min_rank_us = 0, mean_rank_us = 0;  ///< when ranks finish
  std::vector<double> step_us;               ///< by step: last end less first start; < 0: empty
  std::vector<uint64_t> link_bytes;          ///< by link of the fabric
  uint64_t messages = 0;                     ///< between servers, with data
  uint64_t events = 0;
  uint32_t lanes = 1;  ///< virtual lanes the routes need
  double wall_s = 0;   ///< real time it took to simulate
};

/// One run. Fails when the fabric has fewer hosts than the servers ports, when hosts repeat, or
/// when the program can't run in the mode.
Result<CollectiveReport> simulate(const Algorithm& algorithm, const Shape& shape,
                                  const topology::Fabric& fabric, const CollectiveOptions& options);

/// "host12:1 -> switch3:5": how a link is called in reports, with the ports at both ends.
std::string link_name(const topology::Fabric& fabric, uint32_t link);

const char* to_string(Mode mode);
/// "barrier", "sendrecv", "free", "paced".
Result<Mode> parse_mode(std::string_view text);

}  // namespace ibcoll::sim
