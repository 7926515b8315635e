#include "engine/algorithms/imported.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <system_error>
#include <tuple>

#include "engine/base/config.h"
#include "engine/base/input.h"
#include "engine/schedule/json.h"

namespace ibcoll {
namespace {

/// All of this process; contexts and tools share them.
struct ImportedOfProcess {
  std::mutex mutex;
  std::vector<std::unique_ptr<ImportedPrograms>> all;
};

ImportedOfProcess& imported_of_process() {
  static ImportedOfProcess self;
  return self;
}

ImportedPrograms* look_up(ImportedOfProcess& imported, Collective collective,
                          std::string_view name) {
  for (const auto& one : imported.all) {
    if (one->algorithm().collective == collective && one->algorithm().name == name)
      return one.get();
  }
  return nullptr;
}

bool is_name(std::string_view name) {
  return !name.empty() && name != "all" && name != "auto" &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-' || c == '.';
         });
}

bool is_same(const Shape& a, const Shape& b) {
  return a.ranks() == b.ranks() && a.hash() == b.hash();
}

/// The hash alone would not do: it is what a file says that it is.
bool is_same(const RankProgram& a, const RankProgram& b) {
  return a.hash == b.hash && program_to_json(a) == program_to_json(b);
}

}  // namespace

ImportedPrograms::ImportedPrograms(Collective collective, std::string name)
    : name_(std::move(name)),
      spec_{.name = name_,
            .collectives = {collective},
            .summary = "as programs from files say",
            .when = "where it was made for",
            .source = "IBCOLL_PROGRAMS",
            .relays = true,
            .beyond_leaders = true,
            .imported = this,
            .build = nullptr},
      algorithm_{&spec_, collective, spec_.name, false, true, nullptr} {}

ProgramPtr ImportedPrograms::find(const Shape& shape, Rank me, Rank root) const {
  const std::lock_guard lock(mutex_);
  const bool rooted = has_root(algorithm_.collective);
  for (const Set& set : sets_) {
    if (is_same(set.shape, shape) && (!rooted || set.programs.front()->root == root))
      return set.programs[static_cast<size_t>(me)];
  }
  return nullptr;
}

std::string ImportedPrograms::describe() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const Set& set : sets_) {
    names.push_back(set.shape.describe());
    if (has_root(algorithm_.collective))
      names.back() += fmt::format(" with root {}", set.programs.front()->root);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Status ImportedPrograms::add(const Shape& shape, const Programs& programs) {
  const RankProgram& first = *programs.front();
  if (has(shape, first.root)) {
    const bool same = std::all_of(programs.begin(), programs.end(), [&](const ProgramPtr& one) {
      return is_same(*one, *find(shape, one->me, first.root));
    });
    if (same) return {};
    return fail(ErrorCode::kInput, "there are other programs of {} {} for layout {}",
                ibcoll::to_string(first.collective), name_, shape.describe());
  }
  const std::lock_guard lock(mutex_);
  sets_.push_back({shape, programs});
  return {};
}

Status add_imported(const Shape& shape, const Programs& programs) {
  const RankProgram& first = *programs.front();
  if (!is_name(first.algorithm)) {
    return fail(ErrorCode::kInput,
                "'{}' can't be an algorithm's name: letters, digits, '_', '-' and '.' can",
                first.algorithm);
  }
  for (const Algorithm& own : algorithms()) {
    if (own.collective == first.collective && own.name == first.algorithm) {
      return fail(ErrorCode::kInput, "the engine has a {} algorithm '{}' of its own",
                  to_string(first.collective), first.algorithm);
    }
  }
  if (has_graph(first.collective))
    return fail(ErrorCode::kInput, "programs of {} are for one graph", to_string(first.collective));
  ImportedOfProcess& imported = imported_of_process();
  const std::lock_guard lock(imported.mutex);
  ImportedPrograms* place = look_up(imported, first.collective, first.algorithm);
  if (place == nullptr) {
    imported.all.push_back(std::make_unique<ImportedPrograms>(first.collective, first.algorithm));
    place = imported.all.back().get();
  }
  return place->add(shape, programs);
}

const Algorithm* look_up_imported(Collective collective, std::string_view name) {
  ImportedOfProcess& imported = imported_of_process();
  const std::lock_guard lock(imported.mutex);
  const ImportedPrograms* const found = look_up(imported, collective, name);
  return found == nullptr ? nullptr : &found->algorithm();
}

std::vector<const Algorithm*> imported_algorithms() {
  ImportedOfProcess& imported = imported_of_process();
  const std::lock_guard lock(imported.mutex);
  std::vector<const Algorithm*> all;
  for (const auto& one : imported.all) all.push_back(&one->algorithm());
  std::sort(all.begin(), all.end(), [](const Algorithm* a, const Algorithm* b) {
    return std::tie(a->collective, a->name) < std::tie(b->collective, b->name);
  });
  return all;
}

Result<std::vector<ProgramFile>> read_program_files(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code error;
  std::filesystem::directory_iterator entries(directory, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::string extension = entries->path().extension().string();
    if (extension == ".json" || extension == ".jsonl") paths.push_back(entries->path().string());
  }
  if (error) return fail(ErrorCode::kInput, "{}: {}", directory, error.message());
  std::sort(paths.begin(), paths.end());
  std::vector<ProgramFile> files;
  for (std::string& path : paths) {
    IBCOLL_ASSIGN(std::string text, read_input(path));
    files.push_back({std::move(path), std::move(text)});
  }
  return files;
}

Status add_imported(const ProgramFile& file, int most_ranks, Proof proof) {
  IBCOLL_ASSIGN(const LoadedSchedule loaded, of_input(file.path, read_schedule(file.text)));
  if (loaded.shape.ranks() > most_ranks) return {};
  if (proof == Proof::kHere) IBCOLL_TRY(of_input(file.path, verify(loaded.shape, loaded.programs)));
  const Status added = add_imported(loaded.shape, loaded.programs);
  return added ? added : fail(added.error().code, "{}: {}", file.path, added.error().message);
}

Status add_imported_of_environment() {
  IBCOLL_ASSIGN(const std::string directory, config_string("IBCOLL_PROGRAMS"));
  if (directory.empty()) return {};
  auto files = read_program_files(directory);
  if (!files) return fail(files.error().code, "IBCOLL_PROGRAMS: {}", files.error().message);
  for (const ProgramFile& file : *files) {
    const Status added = add_imported(file, INT_MAX, Proof::kHere);
    if (!added) return fail(added.error().code, "IBCOLL_PROGRAMS: {}", added.error().message);
  }
  return {};
}

}  // namespace ibcoll
