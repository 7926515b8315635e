#include "engine/core/context.h"

#include <sched.h>

#include <algorithm>

#include "engine/base/clock.h"
#include "engine/base/config.h"
#include "engine/base/copy.h"
#include "engine/base/log.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/machine.h"
#include "engine/core/job_rules.h"
#include "engine/core/late_checks.h"
#include "engine/core/share.h"
#include "topology/distort.h"

namespace ibcoll {
namespace {

/// The capacity of each heap on this rank's server: what its ranks agree on.
Result<size_t> heap_bytes(Bootstrap& bootstrap, const Shape& shape, size_t wanted) {
  const int server = shape.server_of(bootstrap.rank());
  if (wanted == 0) wanted = shm::default_heap_bytes(shape.server_size(server));
  std::vector<size_t> all(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&wanted, sizeof wanted, all.data()));
  for (const Rank member : shape.members(server)) wanted = std::min(wanted, all[member]);
  return wanted;
}

/// One rank of a server is enough.
bool saves_plans(const Shape& shape, Rank rank) { return shape.local_of(rank) == 0; }

}  // namespace

Result<ContextOptions> ContextOptions::from_environment(int ranks) {
  IBCOLL_ASSIGN(const std::optional<Shape> shape, emulated_servers(ranks));
  return from_environment(shape);
}

Result<ContextOptions> ContextOptions::from_environment(const std::optional<Shape>& shape) {
  IBCOLL_TRY(check_environment());
  ContextOptions options;
  options.shape = shape;
  IBCOLL_ASSIGN(options.transport, config_choice("IBCOLL_TRANSPORT"));
  IBCOLL_ASSIGN(options.fabric.fabric, config_string("IBCOLL_FABRIC"));
  IBCOLL_ASSIGN(options.fabric.hosts, config_string("IBCOLL_FABRIC_HOSTS"));
  IBCOLL_ASSIGN(const std::string error, config_string("IBCOLL_FABRIC_ERROR"));
  IBCOLL_ASSIGN(options.fabric.error, topology::parse_error(error, "IBCOLL_FABRIC_ERROR"));
  IBCOLL_ASSIGN(options.plan_cache, config_string("IBCOLL_PLAN_CACHE"));
  IBCOLL_ASSIGN(options.late_ns, config_duration("IBCOLL_LATE"));
  IBCOLL_ASSIGN(options.deadline_ns, config_duration("IBCOLL_DEADLINE"));
  IBCOLL_ASSIGN(const int64_t heap, config_size("IBCOLL_HEAP"));
  options.heap_bytes = static_cast<size_t>(heap);
  IBCOLL_ASSIGN(const int64_t eager, config_size("IBCOLL_EAGER"));
  options.eager_bytes = eager;
  IBCOLL_ASSIGN(const int64_t multicast_memory, config_size("IBCOLL_MULTICAST_MEMORY"));
  options.multicast_memory = static_cast<size_t>(multicast_memory);
  IBCOLL_ASSIGN(const int64_t window, config_integer("IBCOLL_MULTICAST_WINDOW"));
  options.multicast_window = static_cast<int>(window);
  IBCOLL_ASSIGN(options.logp_file, config_string("IBCOLL_LOGP"));
  IBCOLL_ASSIGN(options.rules_file, config_string("IBCOLL_RULES"));
  IBCOLL_ASSIGN(options.rules_strict, config_bool("IBCOLL_RULES_STRICT"));
  IBCOLL_ASSIGN(const std::string threads, config_choice("IBCOLL_THREADS"));
  options.several_threads = threads == "multiple";
  IBCOLL_ASSIGN(options.progress_thread, config_bool("IBCOLL_PROGRESS_THREAD"));
  IBCOLL_ASSIGN(const int64_t seed, config_integer("IBCOLL_LOOPBACK_SEED"));
  options.loopback_seed = static_cast<uint64_t>(seed);
  IBCOLL_ASSIGN(const std::string check, config_choice("IBCOLL_CHECK"));
  options.check = check == "data"   ? CheckMode::kData
                  : check == "late" ? CheckMode::kLate
                                    : CheckMode::kOff;
  return options;
}

/// What one rank may be sent unasked by all others together takes this much memory, or what mails
/// of the usual length take.
static int64_t longest_eager(const NetworkTransport& network, size_t ranks) {
  constexpr size_t kTogether = size_t{32} << 20;
  const size_t longest = max_mail_data(network);
  const size_t usual = NetworkTransport::kMaxMailBytes - sizeof(MailHeader);
  return static_cast<int64_t>(std::clamp(kTogether / ranks, std::min(usual, longest), longest));
}

Result<std::unique_ptr<Context>> Context::create(Bootstrap& bootstrap,
                                                 const ContextOptions& options) {
  std::unique_ptr<Context> self(new Context);
  self->bootstrap_ = &bootstrap;
  self->logp_file_ = options.logp_file;
  set_log_rank(bootstrap.rank());
  IBCOLL_ASSIGN(const std::vector<ProcessPlace> places, exchange_places(bootstrap));
  const std::vector<int> machines = machine_of_ranks(places);
  IBCOLL_ASSIGN(self->placement_,
                place_on_servers(bootstrap, options.shape, machines, options.fabric));
  const Shape& shape = self->shape();
  const Rank me = bootstrap.rank();
  if (!options.fabric.fabric.empty()) {
    IBCOLL_ASSIGN(topology::Fabric believed,
                  topology::believe(*self->placement_->fabric_order.network, options.fabric.error));
    self->placement_->fabric_order.network.reset();
    self->plan_sources_.transfers.emplace(
        std::move(believed),
        contention_free::PlanStoreOptions{.tokens_ahead = true,
                                          .directory = options.plan_cache,
                                          .saves_dropped = saves_plans(shape, me)});
  }

  const auto ranks = static_cast<size_t>(bootstrap.size());
  IBCOLL_ASSIGN(self->bells_, SharedRegion::create(bootstrap, machines[me], ranks * sizeof(Bell),
                                                   "ibcoll-bells"));
  IBCOLL_TRY(self->bells_.reserve(0, self->bells_.size()));
  const std::span<Bell> bells = self->bells();

  if (!bootstrap.shares_address_space()) {
    IBCOLL_ASSIGN(PeerWatch watch, PeerWatch::create(bootstrap, places));
    self->watch_ = std::move(watch);
  }
  shm::Options shm_options;
  IBCOLL_ASSIGN(shm_options.heap_bytes, heap_bytes(bootstrap, shape, options.heap_bytes));
  shm_options.allow_process_vm = options.allow_process_vm;
  const bool crowded = oversubscribed(places, machines, machines[me]);
  // Ranks that share a core find each other's messages in its cache, and whoever waits there for a
  // message to be read gives the core up: copying twice is cheaper. Where each has one, many can
  // read what one has to send to all of them.
  constexpr size_t kShort = 16384;
  constexpr int kManyReaders = 4;
  if (crowded) {
    shm_options.eager_shared_bytes = shm_options.eager_shared_one_way_bytes = kShort;
  } else if (shape.server_size(shape.server_of(me)) > kManyReaders) {
    shm_options.eager_private_one_way_bytes = kShort;
  }
  IBCOLL_ASSIGN(self->local_, shm::Transport::create(bootstrap, shape, bells, shm_options));
  self->scratch_.emplace(self->local_->heap());
  if (shape.servers() > 1) {
    IBCOLL_ASSIGN(self->network_,
                  open_network({bootstrap, shape, bells, places, machines, options.loopback_seed},
                               options.transport));
    const int64_t eager = std::min(options.eager_bytes, longest_eager(*self->network(), ranks));
    IBCOLL_TRY(same_on_all(bootstrap, eager, "IBCOLL_EAGER"));
    self->plan_sources_.eager_bytes = eager;
    self->plan_sources_.messages_cost_cores = self->network_.costs_cores;
  }

  ExecutorOptions executor;
  self->ranks_on_machine_ =
      static_cast<int>(std::count(machines.begin(), machines.end(), machines[me]));
  self->machines_ = 1 + *std::max_element(machines.begin(), machines.end());
  executor.oversubscribed = crowded;
  executor.late_ns = options.late_ns;
  executor.deadline_ns = options.deadline_ns;
  executor.streaming_bytes = last_level_cache_bytes() * 3 / 2;
  const int server = shape.server_of(me);
  IBCOLL_ASSIGN(self->notes_, SharedRegion::create(
                                  bootstrap, server,
                                  CallBoard::bytes(static_cast<size_t>(shape.server_size(server))),
                                  "ibcoll-notes"));
  IBCOLL_TRY(self->notes_.reserve(0, self->notes_.size()));
  executor.board = {self->notes_.data(), &shape, me};
  executor.groups = &self->group_records_;
  executor.has_died = [context = self.get()](Rank rank) {
    constexpr int kLastMs = 300;  // its memory goes before the process does
    if (!context->watch_ || !context->watch_->has_ended(rank, kLastMs)) return false;
    context->watch_->forget(rank);
    return true;
  };
  executor.cells = Cells::share_of(shape.local_of(me), shape.server_size(server));
  self->executor_ = std::make_unique<Executor>(
      bootstrap, *self->local_, self->network(), bells[me],
      [context = self.get()]() -> std::optional<Rank> {
        return context->watch_ ? context->watch_->find_dead() : std::nullopt;
      },
      executor);
  IBCOLL_ASSIGN(self->check_mode_, share(bootstrap, options.check));
  if (self->check_mode_ == CheckMode::kLate) self->late_checks_ = std::make_unique<LateChecks>();
  self->make_multicasts(options);
  IBCOLL_ASSIGN(const bool has_rules,
                known_to_all(bootstrap, !options.rules_file.empty(), "IBCOLL_RULES"));
  if (has_rules) {
    IBCOLL_ASSIGN(const RulesJob job, self->describe_job());
    IBCOLL_ASSIGN(self->plan_sources_.rules,
                  read_rules_for(bootstrap, options.rules_file, options.rules_strict, job, shape));
  }
  self->groups_.emplace(
      GroupServices{*self->executor_, *self->local_, *self->scratch_, self->plan_sources_,
                    self->group_records_, self->check_mode_, self->late_checks_.get()},
      *self->placement_, me);
  std::vector<Rank> everybody(ranks);
  for (size_t i = 0; i < ranks; ++i) everybody[i] = static_cast<Rank>(i);
  IBCOLL_ASSIGN(self->world_, self->groups_->create(std::move(everybody)));
  IBCOLL_TRY(bootstrap.barrier());
  return self;
}

void Context::make_multicasts(const ContextOptions& options) {
  message_memory_.emplace(local_->heap(), executor_->user_registrations());
  multicasts_ = std::make_unique<Multicasts>(
      MulticastServices{*executor_, *local_, network(), shape(), rank(),
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

Result<RulesJob> Context::describe_job() {
  return ibcoll::describe_job(*bootstrap_, shape(), network_.transport.get(), machines_);
}

std::span<Bell> Context::bells() {
  return {reinterpret_cast<Bell*>(bells_.data()), static_cast<size_t>(size())};
}

Status Context::use_threads(bool several, bool progress_thread) {
  if (several || progress_thread) {
    if (!waits_) waits_ = std::make_unique<SharedWaits>(*executor_);
    waits_->set_one_calls(!several);
    if (progress_thread) IBCOLL_TRY(waits_->start_progress_thread());
    if (!progress_thread) waits_->stop_progress_thread();
    guard_.share(waits_.get(), several);
    executor_->share(waits_.get());
  } else if (waits_) {
    waits_->stop_progress_thread();
    guard_.share(nullptr, false);
    executor_->share(nullptr);
    waits_.reset();
  }
  return {};
}

Result<ArrivalDescriptor*> Context::descriptor() {
  if (!descriptor_) {
    IBCOLL_ASSIGN(descriptor_, ArrivalDescriptor::create(bells()[static_cast<size_t>(rank())]));
  }
  return descriptor_.get();
}

void Context::stop_threads() {
  (void)use_threads(false, false);  // stopping can't fail
  descriptor_.reset();
}

/// All have all messages, but this rank may not know yet that the last data it has sent have been
/// read: memory must not be taken from under that. What is still there after a while never ends.
void Context::end_transfers() {
  constexpr int64_t kLongestNs = 1'000'000'000;
  const int64_t until = now_ns() + kLongestNs;
  while (multicasts_->busy() && !executor_->failed() && now_ns() < until) {
    if (!executor_->progress()) sched_yield();
  }
}

Status Context::close() {
  if (closed_) return {};
  closed_ = true;
  stop_threads();
  if (executor_->failed()) return tl::unexpected<Error>(*executor_->failed());
  if (plan_sources_.transfers && saves_plans(shape(), rank())) {
    if (const Status saved = plan_sources_.transfers->save(); !saved) {
      log().warn("plans are not kept: {}", saved.error().message);
    }
  }
  if (late_checks_) IBCOLL_TRY(late_checks_->settle_all(*executor_));
  IBCOLL_TRY(multicasts_->finish());
  IBCOLL_TRY(executor_->settle_ends());
  // Whoever still waits for this rank in a collective learns that it will not come.
  bootstrap_->set_leaving(true);
  // Masters that have not come here yet may still send to this rank, and through it.
  if (const Status serves = use_threads(false, size() > 1); !serves) {
    bootstrap_->set_gone();
    return tl::unexpected<Error>(executor_->give_up(serves.error()));
  }
  const Status entered = bootstrap_->barrier();
  stop_threads();
  if (!entered) bootstrap_->set_gone();  // it serves nobody any more
  IBCOLL_TRY(entered);
  end_transfers();
  const Status nothing_left = executor_->check_nothing_is_left();
  multicasts_.reset();
  message_memory_.reset();
  IBCOLL_TRY(nothing_left);
  bootstrap_->set_leaving(false);  // everybody has ended its calls, and may make another context
  if (network() != nullptr) {
    if (const Status closed = network()->close(); !closed) {
      // Every survivor names the failure that was first.
      const Error& error = closed.error();
      bootstrap_->abort(
          network()->failure().value_or(Failure{bootstrap_->rank(), error.code, error.message}));
      const auto first = bootstrap_->failure();
      return first ? Status(tl::unexpected<Error>(first->error())) : closed;
    }
  }
  const Status all_left = bootstrap_->barrier();
  const auto first = bootstrap_->failure();
  return first ? Status(tl::unexpected<Error>(first->error())) : all_left;
}

Context::~Context() {
  stop_threads();
  late_checks_.reset();
  world_.reset();
  multicasts_.reset();
  message_memory_.reset();
  executor_.reset();
}

}  // namespace ibcoll
