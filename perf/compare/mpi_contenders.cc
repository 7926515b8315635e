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

std::string library_beside(const std::string& name) { return (folder() / name).string(); }

std::string yielding_library() { return library_beside("libcompare_mpi_yield.so"); }

std::optional<Contender> mpi_contender(const std::string& name, const std::string& mpi, int ranks,
                                       const std::vector<std::string>& preloads,
                                       std::string* missing) {
  const std::filesystem::path program = folder() / ("compare_mpi_" + mpi);
  std::vector<std::string> command;
  // Root may run it too (containers); btl and pml: shared memory, no network device is looked for.
  if (mpi == "openmpi") {
    command = {"mpirun.openmpi",
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
               std::to_string(ranks)};
  } else {
    command = {"mpirun.mpich", "-bind-to", "none", "-n", std::to_string(ranks)};
  }
  if (!find_in_path(command.front()) || access(program.c_str(), X_OK) != 0) {
    if (missing != nullptr)
      *missing = fmt::format("{} or {} not found", command.front(), program.string());
    return std::nullopt;
  }
  std::string preloaded;
  for (const std::string& one : preloads) preloaded += (preloaded.empty() ? "" : ":") + one;
  if (!preloaded.empty()) command.insert(command.end(), {"env", "LD_PRELOAD=" + preloaded});
  command.insert(command.end(), {program.string(), "{contest}", "{seat}"});
  return Contender{name, std::move(command), {}};
}

}  // namespace ibcoll::compare
