#include "engine/bootstrap/join.h"

#include <cstdlib>

#include "engine/bootstrap/self.h"

namespace ibcoll {
namespace {

/// What launchers leave in the environment of their processes: the number of ranks.
struct Launcher {
  const char* name;
  const char* size_variable;
};
constexpr Launcher kLaunchers[] = {{"Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE"},
                                   {"a PMI launcher (mpiexec)", "PMI_SIZE"},
                                   {"Slurm's srun", "SLURM_STEP_NUM_TASKS"}};

}  // namespace

Result<std::unique_ptr<Bootstrap>> join_job() {
  for (const Launcher& launcher : kLaunchers) {
    const char* size = std::getenv(launcher.size_variable);
    if (size != nullptr && std::strtol(size, nullptr, 10) > 1) {
      return fail(
          ErrorCode::kUnsupported,
          "{} started {} processes ({}), but this build can't join its jobs: start the ranks with "
          "ibcoll_launch",
          launcher.name, size, launcher.size_variable);
    }
  }
  return self_bootstrap();
}

}  // namespace ibcoll
