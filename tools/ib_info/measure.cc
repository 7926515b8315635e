#include "tools/ib_info/measure.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <set>

#include "engine/base/input.h"
#include "engine/base/json.h"
#include "engine/base/units.h"

namespace ibcoll {
namespace {

namespace fs = std::filesystem;

/// One MPI, as programs are started under it.
struct Start {
  MpiLauncher launcher;
  std::string command;  ///< up to the number of ranks
  std::string mpi_library;
};

Result<Start> start_of(const MpiLauncher& launcher, const std::string& command,
                       const std::string& mpi_library) {
  Start start = {launcher, command, mpi_library};
  if (mpi_library.empty()) start.mpi_library = find_library_of(launcher);
  if (start.mpi_library.empty())
    return fail(ErrorCode::kInput,
                "the MPI's library is not found beside {}: name it with --mpi-library",
                launcher.path);
  return start;
}

Result<std::vector<Start>> starts(const MpiMeasurement& wanted) {
  if (!wanted.launcher.empty()) {
    const std::string name(split(wanted.launcher, ' ').front());
    IBCOLL_ASSIGN(const MpiLauncher launcher, find_mpi_launcher(name));
    IBCOLL_ASSIGN(const Start start, start_of(launcher, wanted.launcher, wanted.mpi_library));
    return std::vector<Start>{start};
  }
  std::vector<Start> all;
  std::set<std::string> seen;
  for (const MpiLauncher& launcher : find_mpi_launchers("")) {
    if (launcher.mpi == "any, by Slurm") continue;
    IBCOLL_ASSIGN(Start start, start_of(launcher, shell_word(launcher.path), wanted.mpi_library));
    if (seen.insert(start.mpi_library).second) all.push_back(std::move(start));
  }
  if (all.empty())
    return fail(ErrorCode::kInput, "no MPI found: name its mpirun or mpiexec with --launcher");
  return all;
}

/// The lines of a file of decisions.
Result<std::vector<nlohmann::ordered_json>> read_lines(const std::string& path) {
  IBCOLL_ASSIGN(const std::string text, read_input(path));
  std::vector<nlohmann::ordered_json> lines;
  for (const std::string_view line : split(text, '\n'))
    if (!line.empty()) {
      IBCOLL_ASSIGN(lines.emplace_back(), parse_json(line));
    }
  return lines;
}

Status append(const std::string& path, const std::vector<nlohmann::ordered_json>& lines) {
  std::FILE* const file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) return fail_errno(path);
  bool good = true;
  for (const auto& line : lines)
    good = std::fputs((json_text(line) + "\n").c_str(), file) >= 0 && good;
  if (std::fclose(file) != 0 || !good) return fail_errno(path);
  return {};
}

/// What a run that has failed says of it: this library, or whoever comes first.
std::string complaint_in(const std::string& text) {
  std::string_view first;
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with("ibcoll: ")) return std::string(line);
    if (first.empty() && line.find_first_not_of(" \t\r-=*") != std::string_view::npos) first = line;
  }
  return std::string(first);
}

/// Where the ranks are to leave what they find; gone at the end.
class Found {
 public:
  explicit Found(const std::string& beside)
      : path_(fs::absolute(fmt::format("{}.{}.part", beside, getpid()))) {}
  ~Found() { std::remove(path_.c_str()); }
  Found(const Found&) = delete;
  Found& operator=(const Found&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

Result<MpiMeasured> run(const Start& start, int ranks, const MpiMeasurement& wanted,
                        const std::string& library) {
  const Found found(wanted.file);
  std::error_code error;
  const ProgramRan ran = run_program(fmt::format(
      "{} -n {} env -u IBCOLL_MPI -u IBCOLL_MPI_FUNCTIONS -u IBCOLL_MPI_RECORD LD_PRELOAD={} "
      "IBCOLL_MPI_SAMPLING=on IBCOLL_LEARNED={} {} --as-mpi-rank {}-{}",
      start.command, ranks, shell_word(library + ":" + start.mpi_library), shell_word(found.path()),
      shell_word(fs::read_symlink("/proc/self/exe", error).string()), wanted.least, wanted.most));
  if (ran.status != 0)
    return fail(ErrorCode::kSystem, "{} with {} ranks: {}", start.launcher.path, ranks,
                ran.status < 0 ? "it was killed"
                               : fmt::format("status {}: {}", ran.status, complaint_in(ran.text)));
  MpiMeasured measured = {start.launcher, ranks, {}};
  IBCOLL_ASSIGN(measured.decisions, read_lines(found.path()));
  IBCOLL_TRY(append(wanted.file, measured.decisions));
  return measured;
}

}  // namespace

Status measure_mpi(const MpiMeasurement& wanted, const std::string& library,
                   const std::function<void(const MpiLauncher&, int ranks)>& begins,
                   const std::function<void(const MpiMeasured&)>& ended) {
  IBCOLL_ASSIGN(const std::vector<Start> all, starts(wanted));
  if (library.empty())
    return fail(ErrorCode::kSystem, "libibcoll_mpi.so is not there: nothing can be measured");
  IBCOLL_TRY(append(wanted.file, {}));  // it is known now that they get there
  for (const Start& start : all) {
    for (const int ranks : wanted.ranks) {
      begins(start.launcher, ranks);
      IBCOLL_ASSIGN(const MpiMeasured measured, run(start, ranks, wanted, library));
      ended(measured);
    }
  }
  return {};
}

Status measure_as_rank(uint64_t least, uint64_t most) {
  using Measure = int(uint64_t least, uint64_t most);
  auto* const measure = reinterpret_cast<Measure*>(dlsym(RTLD_DEFAULT, "ibcoll_mpi_measure"));
  if (measure == nullptr)
    return fail(ErrorCode::kInvalidArgument,
                "--as-mpi-rank is for processes that ib_info --mpi --measure starts");
  if (measure(least, most) != 0) return fail(ErrorCode::kSystem, "the calls could not be measured");
  return {};
}

}  // namespace ibcoll
