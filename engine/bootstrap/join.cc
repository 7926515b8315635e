#include "engine/bootstrap/join.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "engine/base/config.h"
#include "engine/bootstrap/joined_job.h"
#include "engine/bootstrap/peer_watch.h"
#include "engine/bootstrap/process_manager.h"
#include "engine/bootstrap/self.h"

namespace ibcoll {
namespace {

/// What launchers leave in the environment of their processes: the number of ranks.
struct Launcher {
  const char* name;
  const char* size_variable;
  const char* remedy;
};
constexpr Launcher kLaunchers[] = {
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "its PMIx variables have been removed"},
    {"mpiexec", "PMI_SIZE", "its PMI_FD or PMI_PORT has been removed"},
    {"Slurm's srun", "SLURM_STEP_NUM_TASKS", "run srun with --mpi=pmi2 or --mpi=pmix"}};

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

enum class Protocol { kNone, kPmix, kPmi };

Protocol find_protocol() {
  if (is_set("PMIX_NAMESPACE") && is_set("PMIX_RANK")) return Protocol::kPmix;
  if (is_set("PMI_FD") || is_set("PMI_PORT")) return Protocol::kPmi;
  return Protocol::kNone;
}

/// PMI has one connection a process: MPI's, once MPI has started.
bool mpi_has_started() {
  const auto initialized = reinterpret_cast<int (*)(int*)>(dlsym(RTLD_DEFAULT, "MPI_Initialized"));
  int flag = 0;
  return initialized != nullptr && initialized(&flag) == 0 && flag != 0;
}

Result<Protocol> choose_protocol() {
  IBCOLL_ASSIGN(const std::string wanted, config_choice("IBCOLL_BOOTSTRAP"));
  if (wanted == "alone") return Protocol::kNone;
  if (wanted == "pmix") return Protocol::kPmix;
  if (wanted == "pmi") return Protocol::kPmi;
  const Protocol found = find_protocol();
  if (found != Protocol::kNone) return found;
  for (const Launcher& launcher : kLaunchers) {
    const char* size = std::getenv(launcher.size_variable);
    if (size != nullptr && std::strtol(size, nullptr, 10) > 1) {
      return fail(ErrorCode::kUnsupported,
                  "{} started {} processes ({}), but offers neither PMIx nor PMI to them: {} "
                  "(IBCOLL_BOOTSTRAP=alone makes each a job of its own)",
                  launcher.name, size, launcher.size_variable, launcher.remedy);
    }
  }
  return Protocol::kNone;
}

/// The process's one session with its launcher, which lasts until the process ends: launchers take
/// a process that starts a second one, after it has ended the first, for one that misbehaves.
struct Session {
  std::unique_ptr<ProcessManager> manager;
  UniqueFd launcher;  ///< its pidfd
  pid_t process = 0;
  Protocol protocol = Protocol::kNone;

  ~Session() {
    if (getpid() != process) (void)manager.release();  // it is the parent's to end
  }
};

Result<Session*> session_with_launcher(Protocol protocol) {
  static std::mutex mutex;
  static Session session;
  const std::lock_guard lock(mutex);
  if (!session.manager) {
    if (protocol == Protocol::kPmi && mpi_has_started())
      return fail(
          ErrorCode::kUnsupported,
          "MPI has started in this process and owns its connection to the launcher (PMI), "
          "which has one only: join with ibcoll_init_with, or start the program with Open MPI's "
          "mpirun or srun --mpi=pmix");
    // Before it is spoken to: once it has ended, another process is this one's parent.
    session.launcher = open_process(getppid());
    IBCOLL_ASSIGN(session.manager, protocol == Protocol::kPmix ? connect_pmix() : connect_pmi());
    session.process = getpid();
    session.protocol = protocol;
  }
  if (session.process != getpid())
    return fail(ErrorCode::kUnsupported,
                "this process is a fork of one that has joined a job, and no rank itself");
  if (session.protocol != protocol)
    return fail(ErrorCode::kUnsupported,
                "this process has joined its job by another protocol than IBCOLL_BOOTSTRAP says");
  return &session;
}

Result<JoinOptions> join_options() {
  IBCOLL_ASSIGN(const int64_t silence_ns, config_duration("IBCOLL_CONTROL_TIMEOUT"));
  JoinOptions options;
  constexpr int64_t kLeastMs = 1000, kMostMs = 24 * 3'600'000;
  options.silence_ms = static_cast<int>(std::clamp(silence_ns / 1'000'000, kLeastMs, kMostMs));
  return options;
}

}  // namespace

bool started_by_launcher() {
  const Result<Protocol> protocol = choose_protocol();
  return !protocol || *protocol != Protocol::kNone;
}

Result<std::unique_ptr<Bootstrap>> join_job() {
  IBCOLL_ASSIGN(const Protocol protocol, choose_protocol());
  if (protocol == Protocol::kNone) return self_bootstrap();
  IBCOLL_ASSIGN(JoinOptions options, join_options());
  IBCOLL_ASSIGN(const Session* session, session_with_launcher(protocol));
  options.launcher = session->launcher.get();
  return join_through(*session->manager, options);
}

Result<std::unique_ptr<Bootstrap>> join_job_of(JobHost& host) {
  return join_hosted(host, join_options());
}

}  // namespace ibcoll
