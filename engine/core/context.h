#pragma once
/// One rank's membership in a job: transports, executor, memory, groups. What the C API hands out.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/bootstrap/peer_watch.h"
#include "engine/bootstrap/shared_region.h"
#include "engine/core/check_mode.h"
#include "engine/core/entry_guard.h"
#include "engine/core/groups.h"
#include "engine/core/message_memory.h"
#include "engine/core/own_operators.h"
#include "engine/execute/arrival_descriptor.h"
#include "engine/execute/executor.h"
#include "engine/execute/shared_waits.h"
#include "engine/multicast/logp.h"
#include "engine/multicast/multicasts.h"
#include "engine/schedule/shape.h"
#include "engine/transport/open.h"
#include "shm/transport.h"

namespace ibcoll {

/// What a context is made with.
struct ContextOptions {
  /// Which ranks make up a server. None: those that run on one machine.
  std::optional<Shape> shape;
  /// The transport between servers: "auto", "loopback" (emulated servers of one machine), "verbs".
  std::string transport = "auto";
  /// The network between servers: they are numbered as it suits best, and contention_free plans
  /// for it.
  FabricSetting fabric;
  std::string plan_cache;  ///< directory where plans are kept from job to job; empty: nowhere
  size_t heap_bytes = 0;   ///< address space of each rank's shared heap; 0: the machine's memory
  int64_t late_ns = 10'000'000'000;
  int64_t deadline_ns = 0;
  bool allow_process_vm = true;
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
  bool several_threads = false;       ///< may call at a time (C interface)
  bool progress_thread = false;       ///< there is one (C interface)
  uint64_t loopback_seed = 0;         ///< not 0: the loopback reorders and delays what it may
  CheckMode check = CheckMode::kOff;  ///< of the bytes of all calls; rank 0's counts

  /// The defaults, overridden by the IBCOLL_* variables (docs/environment.md), for a job of `ranks`
  /// ranks.
  static Result<ContextOptions> from_environment(int ranks);
  /// The same, but for the servers, which the caller knows: what the environment says of them is
  /// not looked at.
  static Result<ContextOptions> from_environment(const std::optional<Shape>& shape);
};

class Context {
 public:
  /// Collective over all ranks of the job. The bootstrap must outlive the context.
  static Result<std::unique_ptr<Context>> create(Bootstrap& bootstrap,
                                                 const ContextOptions& options);
  /// Collective: leaves in order, so that nobody's last message is lost.
  Status close();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Rank rank() const { return bootstrap_->rank(); }
  int size() const { return bootstrap_->size(); }
  const Shape& shape() const { return placement_->shape; }
  /// How the servers of shape() came by their numbers.
  const FabricOrder& fabric_order() const { return placement_->fabric_order; }
  /// How many ranks of the job run on this rank's machine: all, where servers are emulated.
  int ranks_on_machine() const { return ranks_on_machine_; }
  int machines() const { return machines_; }
  Bootstrap& bootstrap() { return *bootstrap_; }
  Executor& executor() { return *executor_; }
  shm::Transport& local() { return *local_; }
  /// Null on a single server.
  NetworkTransport* network() { return network_.transport.get(); }
  /// The transport between servers and, on rank 0, why "auto" took it; "none" on a single server.
  const std::string& network_reason() const { return network_.reason; }
  Group& world() { return *world_; }
  Groups& groups() { return *groups_; }
  /// What choices of all groups go by.
  PlanSources& plan_sources() { return plan_sources_; }

  /// Memory that peers on the server reach directly.
  Result<void*> allocate(size_t bytes) { return local_->heap().allocate(bytes); }
  Status free(void* address) { return local_->heap().free(address); }
  /// Memory for calls to work in.
  ScratchPool& scratch() { return *scratch_; }

  /// Messages to any set of ranks.
  Multicasts& multicasts() { return *multicasts_; }
  /// What messages cost, of the file that ContextOptions::logp_file names; kUnsupported where it
  /// names none.
  Result<const LogP*> message_costs();
  /// Whether the bytes of calls are checked: rank 0's setting.
  CheckMode check_mode() const { return check_mode_; }
  /// Of calls that have ended; null: what is checked is so before its call ends.
  LateChecks* late_checks() { return late_checks_.get(); }
  /// What rules are to be written for in this job. Collective.
  Result<RulesJob> describe_job();

  /// An EntryGuard::Entry is held for the length of an API call.
  EntryGuard& guard() { return guard_; }
  /// Operators that the program has made for calls on the context.
  OwnOperators& own_operators() { return own_operators_; }

  /// Whether several threads may call at a time, and whether a thread of the engine's own makes
  /// progress. With either, every use of the context stands inside an Entry. With nobody inside.
  Status use_threads(bool several, bool progress_thread);
  bool has_progress_thread() const { return waits_ && waits_->has_progress_thread(); }
  /// Readable when something may have moved; made when it is first asked for.
  Result<ArrivalDescriptor*> descriptor();
  /// A call has been started that may not have finished.
  void note_started() {
    if (descriptor_ != nullptr) [[unlikely]]
      descriptor_->started();
  }
  /// Ends the engine's own threads, before the context is closed: the calls under way go on when
  /// they are waited for.
  void stop_threads();

 private:
  Context() = default;
  std::span<Bell> bells();  ///< by rank
  void make_multicasts(const ContextOptions& options);
  void end_transfers();

  Bootstrap* bootstrap_ = nullptr;
  int ranks_on_machine_ = 1, machines_ = 1;
  CheckMode check_mode_ = CheckMode::kOff;
  std::unique_ptr<ServerPlacement> placement_;
  SharedRegion bells_;
  SharedRegion notes_;  ///< of the calls that the server's ranks make
  std::optional<PeerWatch> watch_;
  bool closed_ = false;
  std::unique_ptr<shm::Transport> local_;
  OpenedNetwork network_{.transport = nullptr, .reason = "none"};
  std::unique_ptr<Executor> executor_;
  std::optional<MessageMemory> message_memory_;
  std::unique_ptr<Multicasts> multicasts_;
  std::unique_ptr<LateChecks> late_checks_;  ///< null: none is late
  std::string logp_file_;
  std::optional<LogP> message_costs_;  ///< once asked for
  std::optional<ScratchPool> scratch_;
  PlanSources plan_sources_;
  GroupRecords group_records_;
  std::optional<Groups> groups_;
  std::shared_ptr<Group> world_;
  EntryGuard guard_;
  OwnOperators own_operators_{guard_};
  std::unique_ptr<SharedWaits> waits_;  ///< null: one thread, and no other
  std::unique_ptr<ArrivalDescriptor> descriptor_;
};

}  // namespace ibcoll
