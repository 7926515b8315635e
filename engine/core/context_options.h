#pragma once
/// What a context is made with.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/core/check_mode.h"
#include "engine/core/fabric_order.h"
#include "engine/costs/server_costs.h"
#include "engine/schedule/shape.h"

namespace ibcoll {

struct ContextOptions {
  /// Which ranks make up a server. None: those that run on one machine.
  std::optional<Shape> shape;
  /// The transport between servers: "auto" or the name of one (IBCOLL_TRANSPORT).
  std::string transport = "auto";
  /// The network between servers: they are numbered as it suits best, and contention_free plans
  /// for it.
  FabricSetting fabric;
  std::string plan_cache;  ///< directory where plans are kept from job to job; empty: nowhere
  size_t heap_bytes = 0;   ///< address space of each rank's shared heap; 0: the machine's memory
  int64_t late_ns = 10'000'000'000;
  int64_t deadline_ns = 0;
  int64_t cycle_ns = 10'000'000'000;  ///< end waits in a cycle that take longer with an error
  bool allow_process_vm = true;
  std::string costs = kCostsOff;  ///< of this machine: measured, not known, or a file
  bool learn = false;             ///< by what messages take inside a server how they go best
  /// Messages between servers up to this size carry their data without asking; the same on all
  /// ranks. No more than fits a mail of the transport (max_mail_data).
  int64_t eager_bytes = int64_t{64} << 10;
  /// Memory that multicast messages take on each rank, at most, until they are freed.
  size_t multicast_memory = size_t{64} << 20;
  /// Multicasts of one rank that may be under way, and as many that only one late rank lacks.
  int multicast_window = 64;
  std::string logp_file;      ///< that ib_logp has written, for bounds of multicasts; empty: none
  std::string rules_file;     ///< that ib_tune has written, for choices of algorithms; empty: none
  bool rules_strict = false;  ///< fail where nothing in it fits the job
  std::string programs;       ///< directory of schedules that become algorithms; empty: none
  bool several_threads = false;       ///< may call at a time (C interface)
  bool progress_thread = false;       ///< there is one (C interface)
  uint32_t max_connections = 0;       ///< between servers, of a rank at a time; 0: any number
  uint64_t loopback_seed = 0;         ///< not 0: the loopback reorders and delays what it may
  CheckMode check = CheckMode::kOff;  ///< of the bytes of all calls; rank 0's counts

  /// The defaults, overridden by the IBCOLL_* variables (docs/environment.md), for a job of `ranks`
  /// ranks.
  static Result<ContextOptions> from_environment(int ranks);
  /// The same, but for the servers, which the caller knows: what the environment says of them is
  /// not looked at.
  static Result<ContextOptions> from_environment(const std::optional<Shape>& shape);
};

}  // namespace ibcoll
