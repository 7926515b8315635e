#include "perf/compare/mpi_contenders.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "engine/base/units.h"

namespace ibcoll::compare {
namespace {

std::optional<std::filesystem::path> find_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : split(path != nullptr ? path : "", ':')) {
    std::filesystem::path candidate = std::filesystem::path(folder) / program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

std::filesystem::path folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

}  // namespace

std::string path_beside(const std::string& name) { return (folder() / name).string(); }

std::string yielding_library() { return path_beside("libcompare_mpi_yield.so"); }

std::vector<std::string> local_launch(const std::string& mpi, int ranks) {
  const std::string count = std::to_string(ranks);
  if (mpi == "mpich") return {"mpirun.mpich", "-bind-to", "none", "-n", count};
  // Root may run it too (containers); btl and pml: shared memory, no network device is looked for.
  return {"mpirun.openmpi",
          "--allow-run-as-root",
          "--oversubscribe",
          "--bind-to",
          "none",
          "--mca",
          "pml",
          "ob1",
          "--mca",
          "btl",
          "vader,self",
          "-n",
          count};
}

std::optional<Contender> mpi_contender(const std::string& name, const std::string& mpi,
                                       std::vector<std::string> launch,
                                       const std::vector<std::string>& preloads,
                                       std::string* missing) {
  const std::filesystem::path program = folder() / ("compare_mpi_" + mpi);
  if (!find_in_path(launch.front()) || access(program.c_str(), X_OK) != 0) {
    if (missing != nullptr)
      *missing = fmt::format("{} or {} not found", launch.front(), program.string());
    return std::nullopt;
  }
  std::string preloaded;
  for (const std::string& one : preloads) preloaded += (preloaded.empty() ? "" : ":") + one;
  if (!preloaded.empty()) launch.insert(launch.end(), {"env", "LD_PRELOAD=" + preloaded});
  launch.insert(launch.end(), {program.string(), "{contest}", "{seat}"});
  return Contender{name, std::move(launch), {}};
}

}  // namespace ibcoll::compare
