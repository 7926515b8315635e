#pragma once
/// One rank's membership in a job: transports, executor, memory, groups. What the C API hands out.

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/bootstrap/peer_watch.h"
#include "engine/bootstrap/shared_region.h"
#include "engine/core/fabric_order.h"
#include "engine/execute/executor.h"
#include "engine/planner/contention_free/plan_store.h"
#include "engine/schedule/shape.h"
#include "shm/transport.h"

namespace ibcoll {

class Group;

/// What a context is made with.
struct ContextOptions {
  /// Which ranks make up a server. None: those that run on one machine.
  std::optional<Shape> shape;
  /// The transport between servers: "auto", "loopback" (emulated servers of one machine), "verbs",
  /// "ucx".
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
  /// ranks, at most kMaxMailData.
  int64_t eager_bytes = kMaxMailData;
  uint64_t loopback_seed = 0;  ///< not 0: the loopback reorders and delays what it may

  /// The defaults, overridden by the IBCOLL_* variables (docs/environment.md), for a job of `ranks`
  /// ranks.
  static Result<ContextOptions> from_environment(int ranks);
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
  const Shape& shape() const { return *shape_; }
  /// How the servers of shape() came by their numbers.
  const FabricOrder& fabric_order() const { return fabric_order_; }
  /// How many ranks of the job run on this rank's machine: all, where servers are emulated.
  int ranks_on_machine() const { return ranks_on_machine_; }
  int64_t eager_bytes() const { return eager_bytes_; }
  Bootstrap& bootstrap() { return *bootstrap_; }
  Executor& executor() { return *executor_; }
  shm::Transport& local() { return *local_; }
  NetworkTransport* network() { return network_.get(); }
  Group& world() { return *world_; }
  /// Plans for the fabric, if one is known.
  contention_free::PlanStore* plans() { return plans_ ? &*plans_ : nullptr; }

  /// Memory that peers on the server reach directly.
  Result<void*> allocate(size_t bytes) { return local_->heap().allocate(bytes); }
  Status free(void* address) { return local_->heap().free(address); }
  /// Scratch memory for a call; given back with put_scratch, kept for the next one. null for no
  /// bytes.
  Result<std::byte*> take_scratch(size_t bytes);
  void put_scratch(std::byte* memory);

  /// A new group of these ranks of the job, of which this one is a member. Local.
  Result<std::unique_ptr<Group>> create_group(std::vector<Rank> members);

  /// The program of this rank for that algorithm on the group's shape; built on first use, kept for
  /// ever.
  const RankProgram& program(const Algorithm& algorithm, const Shape& shape, Rank me,
                             const AlgorithmOptions& options);
  /// Refuses use by two threads at once and use in a forked child; one of them is held for the
  /// length of an API call.
  class Entry {
   public:
    explicit Entry(Context& context);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    /// Null if the call may go on.
    const char* refused() const { return refused_; }

   private:
    Context& context_;
    const char* refused_ = nullptr;
  };

 private:
  Context() = default;
  Status create_network(const ContextOptions& options, const std::vector<ProcessPlace>& places);

  struct ProgramKey {
    const Algorithm* algorithm;
    uint64_t shape;
    Rank me;
    Pacing pacing;
    uint32_t window;
    Rank root;
    bool ordered;
    uint64_t plan;  ///< its hash; 0: none
    auto operator<=>(const ProgramKey&) const = default;
  };

  Bootstrap* bootstrap_ = nullptr;
  int ranks_on_machine_ = 1;
  int64_t eager_bytes_ = 0;
  std::unique_ptr<Shape> shape_;
  FabricOrder fabric_order_;
  SharedRegion bells_;
  std::optional<PeerWatch> watch_;
  bool closed_ = false;
  std::unique_ptr<shm::Transport> local_;
  std::unique_ptr<NetworkTransport> network_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Group> world_;
  std::optional<contention_free::PlanStore> plans_;
  std::map<ProgramKey, std::shared_ptr<const RankProgram>> programs_;
  struct Scratch {
    std::byte* memory;
    size_t bytes;
    bool taken;
  };
  std::vector<Scratch> scratch_;
  std::map<std::vector<Rank>, uint32_t> groups_created_;
  std::atomic<bool> inside_{false};
  uint32_t forks_ = 0;  ///< of this process when the context was made
};

}  // namespace ibcoll
