#include "engine/core/context.h"

#include <sched.h>

#include <numeric>

#include "engine/base/clock.h"
#include "engine/base/copy.h"
#include "engine/base/log.h"
#include "engine/core/job_programs.h"
#include "engine/core/job_rules.h"
#include "engine/core/late_checks.h"

namespace ibcoll {
namespace {

ExecutorOptions executor_options(OpenedJob& job, const ContextOptions& options,
                                 MadeGroups& groups) {
  const Shape& shape = job.shape();
  ExecutorOptions executor;
  executor.oversubscribed = job.crowded();
  executor.late_ns = options.late_ns;
  executor.deadline_ns = options.deadline_ns;
  executor.cycle_ns = options.cycle_ns;
  executor.streaming_bytes = last_level_cache_bytes() * 3 / 2;
  executor.board = job.board();
  if (job.survives_deaths()) executor.has_died = [&job](Rank rank) { return job.has_died(rank); };
  executor.groups = &groups;
  executor.cells =
      Cells::share_of(shape.local_of(job.rank()), shape.server_size(shape.server_of(job.rank())));
  return executor;
}

}  // namespace

Result<std::unique_ptr<Context>> Context::create(Bootstrap& bootstrap,
                                                 const ContextOptions& options) {
  set_log_rank(bootstrap.rank());
  IBCOLL_ASSIGN(std::unique_ptr<OpenedJob> job, OpenedJob::open(bootstrap, options));
  const CheckMode check_mode = job->check_mode();
  std::unique_ptr<Context> self(new Context(std::move(job), options, check_mode));
  if (!options.programs.empty()) IBCOLL_TRY(add_programs_of(bootstrap, options.programs));
  if (!options.rules_file.empty()) {
    IBCOLL_ASSIGN(const RulesJob rules_job, describe_job(self->job()));
    IBCOLL_ASSIGN(self->plan_sources_.rules,
                  read_rules_for(bootstrap, options.rules_file, options.rules_strict, rules_job,
                                 self->shape()));
  }
  std::vector<Rank> everybody(static_cast<size_t>(bootstrap.size()));
  std::iota(everybody.begin(), everybody.end(), Rank{0});
  IBCOLL_ASSIGN(self->world_, self->groups_.create(std::move(everybody)));
  self->job_->start_clock().end(StartPhase::kWorld);
  bootstrap.set_survival(self->job_->survives_deaths());
  IBCOLL_TRY(bootstrap.barrier());
  const NetworkTransport* const network = self->job_->network();
  if (network != nullptr && network->needs_polls()) IBCOLL_TRY(self->threads_.help_peers());
  self->job_->start_clock().end(StartPhase::kBarrier);
  return self;
}

Context::Context(std::unique_ptr<OpenedJob> job, const ContextOptions& options,
                 CheckMode check_mode)
    : job_(std::move(job)),
      check_mode_(check_mode),
      logp_file_(options.logp_file),
      scratch_(job_->local().heap()),
      executor_(
          job_->bootstrap(), job_->local(), job_->network(), job_->bell(),
          [this] { return job_->find_dead(); }, executor_options(*job_, options, group_records_)),
      threads_(executor_, job_->bell()),
      own_operators_(threads_.guard()),
      late_checks_(check_mode == CheckMode::kLate ? std::make_unique<LateChecks>() : nullptr),
      groups_(group_services(), job_->placement(), rank()) {
  open_plans(options);
  make_multicasts(options);
}

GroupServices Context::group_services() {
  return {executor_,      job_->local(), scratch_,          plan_sources_,
          group_records_, check_mode_,   late_checks_.get()};
}

void Context::open_plans(const ContextOptions& options) {
  plan_sources_.eager_bytes = job_->eager_bytes();
  plan_sources_.messages_cost_cores = job_->messages_cost_cores();
  if (job_->network() != nullptr) plan_sources_.connections = job_->network()->max_connections();
  std::optional<topology::Fabric> fabric = job_->take_fabric();
  if (!fabric) return;
  plan_sources_.transfers.emplace(
      std::move(*fabric),
      contention_free::PlanStoreOptions{.permitted = job_->fabric_order().permitted,
                                        .tokens_ahead = true,
                                        .directory = options.plan_cache,
                                        .saves_dropped = saves_plans()});
}

void Context::make_multicasts(const ContextOptions& options) {
  message_memory_.emplace(job_->local().heap(), executor_.user_registrations());
  multicasts_ = std::make_unique<Multicasts>(
      MulticastServices{executor_, job_->local(), job_->network(), shape(), rank(),
                        [this](const Algorithm& algorithm, const Shape& of, Rank me,
                               const AlgorithmOptions& with) {
                          return plan_sources_.programs.find(algorithm, of, me, with);
                        },
                        check_mode_ != CheckMode::kOff},
      Multicasts::Limits{options.multicast_memory, static_cast<uint32_t>(options.multicast_window)},
      [this](size_t bytes) { return message_memory_->take(bytes); },
      [this](std::byte* memory, size_t bytes) { message_memory_->give_back(memory, bytes); });
}

Result<const LogP*> Context::message_costs() {
  if (!message_costs_) {
    if (logp_file_.empty()) {
      return fail(ErrorCode::kUnsupported,
                  "what messages cost here is not known: have IBCOLL_LOGP name a file that "
                  "ib_logp --calls --json has written");
    }
    IBCOLL_ASSIGN(message_costs_, read_logp(logp_file_));
  }
  return &*message_costs_;
}

/// All have all messages, but this rank may not know yet that the last data it has sent have been
/// read: memory must not be taken from under that. What is still there after a while never ends.
void Context::end_transfers() {
  constexpr int64_t kLongestNs = 1'000'000'000;
  const int64_t until = now_ns() + kLongestNs;
  while (multicasts_->busy() && !executor_.failed() && now_ns() < until) {
    if (!executor_.progress()) sched_yield();
  }
}

/// After a death, or where the job is over: nobody is waited for.
Status Context::leave_alone(const Error& why) {
  constexpr int64_t kLongestNs = 5'000'000'000;  // where who takes it computes
  end_transfers();
  NetworkTransport* const network = job_->network();
  if (network != nullptr && !executor_.failed()) network->drain(kLongestNs);
  job_->bootstrap().set_gone();  // it serves nobody any more
  return tl::unexpected<Error>(why);
}

Status Context::close() {
  if (closed_) return {};
  closed_ = true;
  threads_.stop();
  if (executor_.failed()) return tl::unexpected<Error>(*executor_.failed());
  if (plan_sources_.transfers && saves_plans()) {
    if (const Status saved = plan_sources_.transfers->save(); !saved) {
      log().warn("plans are not kept: {}", saved.error().message);
    }
  }
  if (late_checks_) IBCOLL_TRY(late_checks_->settle_all(executor_));
  IBCOLL_TRY(multicasts_->finish());
  IBCOLL_TRY(executor_.settle_ends());
  Bootstrap& bootstrap = job_->bootstrap();
  // Whoever still waits for this rank in a collective learns that it will not come.
  bootstrap.set_leaving(true);
  // Masters that have not come here yet may still send to this rank, and through it.
  if (const Status serves = threads_.use(false, size() > 1); !serves) {
    bootstrap.set_gone();
    return tl::unexpected<Error>(executor_.give_up(serves.error()));
  }
  const Status entered = bootstrap.barrier();
  threads_.stop();
  if (!entered) return leave_alone(entered.error());
  end_transfers();
  const Status nothing_left = executor_.check_nothing_is_left();
  multicasts_.reset();
  message_memory_.reset();
  IBCOLL_TRY(nothing_left);
  bootstrap.set_leaving(false);  // everybody has ended its calls, and may make another context
  if (NetworkTransport* const network = job_->network()) {
    if (Status closed = network->close(); !closed) {
      // Every survivor names the failure that was first.
      const Error& error = closed.error();
      bootstrap.abort(
          network->failure().value_or(Failure{bootstrap.rank(), error.code, error.message}));
      const auto first = bootstrap.failure();
      if (first) return tl::unexpected<Error>(first->error());
      return closed;
    }
  }
  Status all_left = bootstrap.barrier();
  const auto first = bootstrap.failure();
  if (first) return tl::unexpected<Error>(first->error());
  return all_left;
}

Context::~Context() {
  threads_.stop();
  late_checks_.reset();
  world_.reset();
  multicasts_.reset();
  message_memory_.reset();
}

}  // namespace ibcoll
