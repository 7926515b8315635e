#include "engine/bootstrap/join.h"

#include <cstdlib>
#include <cstring>

namespace ibcoll {
namespace {

class SingleRank final : public Bootstrap {
 public:
  Rank rank() const override { return 0; }
  int size() const override { return 1; }
  Status allgather(const void* mine, size_t bytes, void* all) override {
    std::memcpy(all, mine, bytes);
    return {};
  }
  Status barrier() override { return {}; }
  void abort(const Failure& failure) override {
    if (!failure_) failure_ = failure;
  }
  std::optional<Failure> failure() const override { return failure_; }

 private:
  std::optional<Failure> failure_;
};

/// What launchers leave in the environment of their processes: the number of ranks.
struct Launcher {
  const char* name;
  const char* size_variable;
};
constexpr Launcher kLaunchers[] = {{"Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE"},
                                   {"a PMI launcher (mpiexec)", "PMI_SIZE"},
                                   {"Slurm's srun", "SLURM_STEP_NUM_TASKS"}};

}  // namespace

std::unique_ptr<Bootstrap> single_rank() { return std::make_unique<SingleRank>(); }

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
  return single_rank();
}

}  // namespace ibcoll
