#pragma once
/// Tools whose work is done by the ranks of a job: processes that they start on this machine, or
/// that mpirun, mpiexec or srun have started.

#include <memory>
#include <optional>
#include <string>

#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/core/context.h"
#include "engine/schedule/shape.h"
#include "tools/frame/command_line.h"

namespace ibcoll::tools {

/// What the command line says of the job, as it was typed.
struct JobArguments {
  std::optional<int64_t> ranks, servers;
  std::string layout, placement, transport, network;
  bool no_bind = false;
};

/// --ranks, --servers, --layout, --placement.
void add_shape_options(Command app, JobArguments& a);
/// --no-bind, --transport, --network.
void add_transport_options(Command app, JobArguments& a);

/// What it means.
struct JobSetting {
  Shape shape = Shape::single_server(1);
  bool shaped = true;       ///< shape holds; else servers are what the ranks are found on
  bool launched = false;    ///< by mpirun and the like
  bool bound = true;        ///< ranks are bound to cores
  bool heeds_rules = true;  ///< IBCOLL_RULES
  std::string transport;    ///< empty: IBCOLL_TRANSPORT's
  std::string network;      ///< empty: IBCOLL_FABRIC's
};

/// `launched`: how many ranks a launcher has started; 0: none, they are started here.
Result<JobSetting> understand_job(const JobArguments& arguments, int launched);

/// Collective: the context of a rank, as the environment and the setting say. Calls have a
/// deadline.
Result<std::unique_ptr<Context>> make_context(Bootstrap& bootstrap, const JobSetting& setting);

/// Fails where a file, if one is named, can't be written. Leaves its content alone.
Status check_writable(const std::string& path);

/// A tool's own part.
class JobTool {
 public:
  virtual ~JobTool() = default;
  /// What the command line means; the same on all ranks. `launched`: as above.
  virtual Result<JobSetting> understand(int launched) = 0;
  /// Opens what results go to: on the rank that writes them, before anything is measured.
  virtual Status open() = 0;
  /// A rank's work.
  virtual Status run(Bootstrap& bootstrap) = 0;
};

/// Joins the launcher's job, or starts the ranks, and runs the tool; its exit status. Whatever
/// fails is told once.
Result<int> run_in_job(JobTool& tool);

}  // namespace ibcoll::tools
