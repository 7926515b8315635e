#include "tools/frame/job.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "engine/base/config.h"
#include "engine/base/log.h"
#include "engine/bootstrap/binding.h"
#include "engine/bootstrap/join.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/machine.h"
#include "engine/schedule/layout.h"
#include "tools/frame/frame.h"
#include "topology/spec.h"

namespace ibcoll::tools {
namespace {

constexpr int64_t kDeadlineNs = 60'000'000'000;

/// A transport that was asked for has to have something to do.
Status check_transport(const std::string& transport, const Shape& shape) {
  if (shape.servers() > 1 || transport.empty() || transport == "auto" || transport == "shm")
    return {};
  return fail(ErrorCode::kInvalidArgument,
              "--transport {} joins servers, but all ranks are on one: say --servers or --layout",
              transport);
}

/// Where the command line names no servers, those of the environment count, as in any other job.
Result<JobArguments> with_environment(JobArguments arguments) {
  if (arguments.servers || !arguments.layout.empty()) return arguments;
  IBCOLL_ASSIGN(arguments.layout, config_string("IBCOLL_LAYOUT"));
  IBCOLL_ASSIGN(const int64_t servers, config_integer("IBCOLL_SERVERS"));
  if (servers != 0 && arguments.layout.empty()) arguments.servers = servers;
  return arguments;
}

/// One rank; the result is its exit status.
int run_and_report(Bootstrap& bootstrap, JobTool& tool) {
  const Status done = tool.run(bootstrap);
  if (done) return 0;
  bootstrap.abort({bootstrap.rank(), done.error().code, done.error().message});
  return exit_status(done.error());
}

/// Starts the ranks here.
Result<int> run_forked(JobTool& tool) {
  IBCOLL_ASSIGN(const JobSetting setting, tool.understand(0));
  IBCOLL_TRY(tool.open());
  LaunchOptions launch;
  launch.ranks = setting.shape.ranks();
  launch.bind = setting.bound;
  launch.on_failure = [](const Failure& failure) { complain(failure.what); };
  return launch_processes(launch,
                          [&](Bootstrap& bootstrap) { return run_and_report(bootstrap, tool); });
}

/// Binds this rank to a core where the launcher has left that to us: none of the machine's ranks is
/// bound. Collective.
Status bind_where_free(Bootstrap& bootstrap) {
  IBCOLL_ASSIGN(const JobPlaces places, exchange_places(bootstrap));
  const auto ranks = static_cast<int>(places.here.size());
  int mine = 0;
  for (const ProcessPlace& place : places.here) {
    if (!CPU_EQUAL(&place.processors, &places.here.front().processors)) return {};
    if (place.process.rank < bootstrap.rank()) ++mine;
  }
  const auto& cores = usable_core_sets();
  if (!cores || static_cast<int>(cores->size()) < std::min(ranks, 2)) return {};
  const std::vector<CpuSet> plan = plan_binding(ranks, *cores);
  return plan.empty() ? Status{} : bind_thread(plan[static_cast<size_t>(mine)]);
}

/// Is one of the ranks that a launcher has started. All of them get the same arguments, so that one
/// complains for all.
int run_launched(Bootstrap& bootstrap, JobTool& tool) {
  const bool first = bootstrap.rank() == 0;
  const Result<JobSetting> setting = tool.understand(bootstrap.size());
  Status ready;
  if (!setting)
    ready = tl::unexpected<Error>(setting.error());
  else if (first)
    ready = tool.open();
  if (!ready) {
    const Error& error = ready.error();
    // A launcher ends the others with the first that ends, so rank 0 goes first.
    if (first)
      complain(error.message);
    else
      (void)bootstrap.barrier();
    bootstrap.abort({bootstrap.rank(), error.code, error.message});
    return exit_status(error);
  }
  if (setting->bound) {
    if (const Status bound = bind_where_free(bootstrap); !bound)
      log().warn("runs unbound: {}", bound.error().message);
  }
  const int status = run_and_report(bootstrap, tool);
  const auto failure = bootstrap.failure();
  const Rank speaker = failure && failure->culprit == 0 && bootstrap.size() > 1 ? 1 : 0;
  if (failure && bootstrap.rank() == speaker) complain(failure->what);
  return status;
}

}  // namespace

void add_shape_options(Command app, JobArguments& a) {
  app.option("--ranks", a.ranks,
             "Number of processes to start (default: 2, or one per server if there are more "
             "servers; under mpirun and the like: as many as it has started)");
  app.option("--servers", a.servers,
             "Number of emulated servers that the ranks are spread over (default: IBCOLL_SERVERS, "
             "or one per machine)");
  app.option("--layout", a.layout, "Ranks of each server: 3,1,2 or 24x8 (24 servers of 8 ranks)");
  app.option("--placement", a.placement,
             "How ranks are placed on servers: block or cyclic (default: IBCOLL_PLACEMENT)");
}

void add_transport_options(Command app, JobArguments& a) {
  app.flag("--no-bind", a.no_bind, "Leave the choice of cores to the system");
  app.option("--transport", a.transport,
             "Transport between servers; shm: only one server is allowed (default: "
             "IBCOLL_TRANSPORT, docs/environment.md)")
      .one_of(config_choices("IBCOLL_TRANSPORT"));
  app.option("--network", a.network,
             "Network between the servers, in a form that ib_sim accepts: servers are numbered to "
             "suit it, and contention_free plans for it (default: IBCOLL_FABRIC, docs/fabrics.md)");
}

Result<JobSetting> understand_job(const JobArguments& typed, int launched) {
  IBCOLL_ASSIGN(const JobArguments arguments, launched > 0 ? typed : with_environment(typed));
  JobSetting setting;
  const bool has_servers = arguments.servers || !arguments.layout.empty();
  std::string dealt = arguments.placement;
  if (dealt.empty() && has_servers) {
    IBCOLL_ASSIGN(dealt, config_choice("IBCOLL_PLACEMENT"));
  }
  IBCOLL_ASSIGN(const Placement placement, parse_placement(dealt.empty() ? "block" : dealt));
  if (placement != Placement::kBlock && !has_servers) {
    return fail(ErrorCode::kInvalidArgument,
                "--placement {} deals ranks to servers, and there are none: say --servers or "
                "--layout",
                dealt);
  }
  std::optional<int64_t> ranks = arguments.ranks;
  setting.launched = launched > 0;
  IBCOLL_ASSIGN(const std::string bound_to, config_choice("IBCOLL_BIND"));
  setting.bound = !arguments.no_bind && bound_to == "core";
  if (launched > 0) {
    if (ranks && *ranks != launched)
      return fail(ErrorCode::kInvalidArgument, "--ranks {}, but the launcher has started {}",
                  *ranks, launched);
    ranks = launched;
    setting.shaped = has_servers;
  } else if (!ranks && arguments.layout.empty()) {
    ranks = std::max<int64_t>(2, arguments.servers.value_or(2));
  }
  IBCOLL_ASSIGN(setting.shape,
                shape_from_options(arguments.layout, ranks, arguments.servers, placement));
  setting.transport = arguments.transport;
  if (setting.shaped) IBCOLL_TRY(check_transport(setting.transport, setting.shape));
  if (setting.shape.ranks() > kMaxLaunchRanks) {
    return fail(ErrorCode::kInvalidArgument, "{} ranks are more than the limit of {} processes",
                setting.shape.ranks(), kMaxLaunchRanks);
  }
  setting.network = arguments.network;
  if (setting.network.empty()) return setting;
  // Refused here, in one line, rather than by every rank.
  IBCOLL_ASSIGN(const topology::Fabric fabric, topology::open_fabric(setting.network));
  if (fabric.hosts() >= setting.shape.servers()) return setting;
  return fail(ErrorCode::kInvalidArgument, "--network {} has {} hosts for {} servers",
              setting.network, fabric.hosts(), setting.shape.servers());
}

Result<std::unique_ptr<Context>> make_context(Bootstrap& bootstrap, const JobSetting& setting) {
  IBCOLL_ASSIGN(ContextOptions options,
                setting.shaped ? ContextOptions::from_environment(std::optional(setting.shape))
                               : ContextOptions::from_environment(bootstrap.size()));
  if (!setting.transport.empty()) options.transport = setting.transport;
  if (!setting.network.empty()) options.fabric.fabric = setting.network;
  if (options.deadline_ns == 0) options.deadline_ns = kDeadlineNs;
  if (!setting.heeds_rules) options.rules_file.clear();
  IBCOLL_ASSIGN(std::unique_ptr<Context> context, Context::create(bootstrap, options));
  IBCOLL_TRY(check_transport(setting.transport, context->shape()));
  return context;
}

Status check_writable(const std::string& path) {
  if (path.empty()) return {};
  const bool existed = access(path.c_str(), F_OK) == 0;
  const std::ofstream file(path, std::ios::app);
  if (!file) return fail_errno(fmt::format("can't write '{}'", path));
  if (!existed) unlink(path.c_str());
  return {};
}

Result<int> run_in_job(JobTool& tool) {
  if (started_by_launcher()) {
    IBCOLL_ASSIGN(const std::unique_ptr<Bootstrap> bootstrap, join_job());
    // A launcher's single process may be a shell, from which jobs of our own are started.
    if (bootstrap->size() > 1) return run_launched(*bootstrap, tool);
  }
  return run_forked(tool);
}

}  // namespace ibcoll::tools
