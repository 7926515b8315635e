#include "tools/ib_info/mpi.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>

#include "engine/base/units.h"

namespace ibcoll {
namespace {

namespace fs = std::filesystem;

/// In the order of preference: what stands first is shown where two are the same program.
constexpr std::string_view kNames[] = {"mpirun",          "mpiexec",      "mpirun.openmpi",
                                       "mpiexec.mpich",   "mpirun.mpich", "mpiexec.hydra",
                                       "mpiexec.gforker", "orterun",      "prterun"};

/// An executable of that name, as the shell finds it.
std::optional<fs::path> find_program(std::string_view name) {
  std::error_code none;
  if (name.find('/') != std::string_view::npos)
    return fs::is_regular_file(name, none) ? std::optional<fs::path>(name) : std::nullopt;
  const char* const path = std::getenv("PATH");
  for (const std::string_view folder : split(path == nullptr ? "" : path, ':')) {
    const fs::path found = fs::path(folder) / name;
    std::error_code error;
    if (!folder.empty() && fs::is_regular_file(found, error) && access(found.c_str(), X_OK) == 0)
      return found;
  }
  return std::nullopt;
}

/// What a program prints; `arguments` are the shell's.
std::string output_of(const fs::path& program, const std::string& arguments) {
  return run_program(shell_word(program.string()) + " " + arguments).text;
}

/// The first word behind `label` that begins with a digit.
std::string version_after(std::string_view text, std::string_view label) {
  const size_t at = text.find(label);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = text.substr(at + label.size());
  const size_t begin = rest.find_first_not_of(" \t");
  if (begin == std::string_view::npos || rest[begin] < '0' || rest[begin] > '9') return "";
  return std::string(rest.substr(begin, rest.find_first_of(" \t\n,", begin) - begin));
}

/// MVAPICH's own version, where it is MVAPICH whose launcher this is: that one speaks of the MPICH
/// that it was made of. The header says it, or a program beside the launcher.
std::optional<std::string> mvapich_version(const fs::path& launcher) {
  std::error_code error;
  const fs::path programs = fs::canonical(launcher, error).parent_path();
  std::ifstream header(programs.parent_path() / "include" / "mpi.h");
  for (std::string line; std::getline(header, line);) {
    for (const std::string_view name : {"#define MVAPICH_VERSION", "#define MVAPICH2_VERSION"}) {
      if (!line.starts_with(name)) continue;
      const std::vector<std::string_view> parts = split(line, '"');
      if (parts.size() > 1) return std::string(parts[1]);
    }
  }
  for (const char* name : {"mpichversion", "mpiname"}) {
    if (!fs::exists(programs / name, error)) continue;
    const std::string text = output_of(programs / name, name == std::string("mpiname") ? "-a" : "");
    for (const std::string_view line : split(text, '\n')) {
      if (!line.starts_with("MVAPICH")) continue;
      const size_t number = line.find_first_of("0123456789", line.find_first_of(" \t-:"));
      if (number == std::string_view::npos) return "";
      return std::string(line.substr(number, line.find_first_of(" \t,", number) - number));
    }
  }
  return std::nullopt;
}

/// Nothing: it is none that is known.
std::optional<MpiLauncher> ask(std::string_view name, const fs::path& path,
                               const std::string& library) {
  const std::string text = output_of(path, "--version");
  const auto has = [&](std::string_view what) { return text.find(what) != std::string::npos; };
  MpiLauncher found = {"", "", path.string(), ""};
  for (const std::string_view label : {"(OpenRTE)", "(Open MPI)", "(PRRTE)"}) {
    if (!has(label)) continue;
    found.mpi = "Open MPI";
    found.version = version_after(text, label);
    found.line = fmt::format("{} -n 16 -x LD_PRELOAD={} ./program", name, library);
    return found;
  }
  if (has("Intel(R) MPI Library")) {
    found.mpi = "Intel MPI";
    found.version = version_after(text, "Version");
  } else if (has("HYDRA build details")) {
    const std::optional<std::string> mvapich = mvapich_version(path);
    found.mpi = mvapich ? "MVAPICH" : "MPICH";
    found.version = mvapich ? *mvapich : version_after(text, "Version:");
  } else {
    return std::nullopt;
  }
  found.line = fmt::format("{} -n 16 -env LD_PRELOAD {} ./program", name, library);
  return found;
}

std::optional<MpiLauncher> ask_slurm(const std::string& library) {
  const std::optional<fs::path> srun = find_program("srun");
  if (!srun) return std::nullopt;
  const bool has_pmix = output_of(*srun, "--mpi=list").find("pmix") != std::string::npos;
  return MpiLauncher{"any, by Slurm", version_after(output_of(*srun, "--version"), "slurm"),
                     srun->string(),
                     fmt::format("srun -n 16 --mpi={} env LD_PRELOAD={} ./program",
                                 has_pmix ? "pmix" : "pmi2", library)};
}

}  // namespace

std::vector<MpiLauncher> find_mpi_launchers(const std::string& library) {
  std::vector<MpiLauncher> found;
  std::set<fs::path> seen;
  for (const std::string_view name : kNames) {
    const std::optional<fs::path> path = find_program(name);
    std::error_code error;
    if (!path || !seen.insert(fs::canonical(*path, error)).second) continue;
    if (std::optional<MpiLauncher> launcher = ask(name, *path, library))
      found.push_back(std::move(*launcher));
  }
  if (std::optional<MpiLauncher> slurm = ask_slurm(library)) found.push_back(std::move(*slurm));
  return found;
}

ProgramRan run_program(const std::string& command) {
  std::FILE* const pipe = popen(("{ " + command + "\n} </dev/null 2>&1").c_str(), "r");
  if (pipe == nullptr) return {};
  ProgramRan ran;
  std::array<char, 4096> chunk{};
  for (size_t got; (got = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;)
    ran.text.append(chunk.data(), got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) ran.status = WEXITSTATUS(status);
  return ran;
}

std::string shell_word(std::string_view word) {
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? "'\\''" : std::string{letter};
  return text + "'";
}

Result<MpiLauncher> find_mpi_launcher(const std::string& name) {
  const std::optional<fs::path> path = find_program(name);
  if (!path) return fail(ErrorCode::kInvalidArgument, "--launcher: there is no program '{}'", name);
  if (path->filename() == "srun") return MpiLauncher{"any, by Slurm", "", path->string(), ""};
  if (const auto launcher = ask(name, *path, "")) return *launcher;
  return fail(ErrorCode::kInvalidArgument, "--launcher: '{}' starts programs of no known MPI",
              path->string());
}

std::string find_library_of(const MpiLauncher& launcher) {
  // What it is called has changed with each ABI: Open MPI's is at 40 and more, MPICH's at 12 or, of
  // version 5, at 0.
  const bool is_open_mpi = launcher.mpi == "Open MPI";
  constexpr int kLeastOfOpenMpi = 20;
  std::error_code error;
  const fs::path prefix = fs::canonical(launcher.path, error).parent_path().parent_path();
  std::string found;
  int newest = -1;
  std::vector<fs::path> folders = {prefix / "lib64", prefix / "lib"};
  for (const auto& entry : fs::directory_iterator(prefix / "lib", error))
    if (entry.is_directory(error)) folders.push_back(entry.path());
  for (const fs::path& folder : folders) {
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename();
      for (const std::string_view begin : {"libmpi.so.", "libmpich.so."}) {
        if (!name.starts_with(begin)) continue;
        const std::string_view number = std::string_view(name).substr(begin.size());
        const Result<int64_t> abi = parse_integer(number, 0, 1000, "the ABI");
        if (!abi) continue;
        if ((*abi >= kLeastOfOpenMpi) != is_open_mpi || *abi <= newest) continue;
        newest = static_cast<int>(*abi);
        found = entry.path();
      }
    }
    if (!found.empty()) return found;
  }
  return "";
}

std::string find_mpi_library() {
  constexpr const char* kLibrary = "libibcoll_mpi.so";
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<fs::path> folders = {folder, folder.parent_path() / "lib64",
                                   folder.parent_path() / "lib"};
  for (const auto& entry : fs::directory_iterator(folder.parent_path() / "lib", error))
    folders.push_back(entry.path());
  for (const fs::path& candidate : folders)
    if (fs::is_regular_file(candidate / kLibrary, error)) return candidate / kLibrary;
  return "";
}

}  // namespace ibcoll
