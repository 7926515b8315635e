#pragma once
/// One rank's membership in a job, and all that it makes calls with. What the C API hands out.

#include <memory>
#include <optional>
#include <string>

#include "engine/core/context_options.h"
#include "engine/core/context_threads.h"
#include "engine/core/groups.h"
#include "engine/core/message_memory.h"
#include "engine/core/opened_job.h"
#include "engine/core/own_operators.h"
#include "engine/multicast/logp.h"
#include "engine/multicast/multicasts.h"

namespace ibcoll {

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

  Rank rank() const { return job_->rank(); }
  int size() const { return job_->size(); }
  const Shape& shape() const { return job_->shape(); }
  OpenedJob& job() { return *job_; }
  Executor& executor() { return executor_; }

  Group& world() { return *world_; }
  Groups& groups() { return groups_; }
  /// What choices of all groups go by.
  PlanSources& plan_sources() { return plan_sources_; }
  /// Messages to any set of ranks.
  Multicasts& multicasts() { return *multicasts_; }
  /// What messages cost, of the file that ContextOptions::logp_file names; kUnsupported where it
  /// names none.
  Result<const LogP*> message_costs();

  /// Memory that peers on the server reach directly.
  Result<void*> allocate(size_t bytes) { return job_->local().heap().allocate(bytes); }
  Status free(void* address) { return job_->local().heap().free(address); }

  ContextThreads& threads() { return threads_; }
  /// Operators that the program has made for calls on the context.
  OwnOperators& own_operators() { return own_operators_; }

 private:
  Context(std::unique_ptr<OpenedJob> job, const ContextOptions& options, CheckMode check_mode);
  GroupServices group_services();
  bool saves_plans() const { return shape().local_of(rank()) == 0; }
  void open_plans(const ContextOptions& options);
  void make_multicasts(const ContextOptions& options);
  void end_transfers();
  Status leave_alone(const Error& why);

  const std::unique_ptr<OpenedJob> job_;
  const CheckMode check_mode_;  ///< rank 0's setting
  const std::string logp_file_;
  std::optional<LogP> message_costs_;  ///< once asked for
  PlanSources plan_sources_;
  ScratchPool scratch_;
  GroupRecords group_records_;
  Executor executor_;
  ContextThreads threads_;
  OwnOperators own_operators_;
  std::optional<MessageMemory> message_memory_;
  std::unique_ptr<Multicasts> multicasts_;
  std::unique_ptr<LateChecks> late_checks_;  ///< null: none is late
  Groups groups_;
  std::shared_ptr<Group> world_;
  bool closed_ = false;
};

}  // namespace ibcoll
