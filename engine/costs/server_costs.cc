#include "engine/costs/server_costs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "engine/base/hash.h"
#include "engine/base/input.h"
#include "engine/base/unique_fd.h"
#include "engine/bootstrap/machine_info.h"
#include "engine/costs/measure_costs.h"

namespace ibcoll {
namespace {

/// What shares the machine with a job changes.
constexpr time_t kKeptSeconds = 3600;
/// Figures that are farther apart were measured under load.
constexpr double kMostSpread = 0.2;
constexpr size_t kMostKeptBytes = size_t{1} << 16;

const PairCosts* most_distant(const MachineCosts& costs, const std::vector<CorePair>* pairs) {
  const PairCosts* found = nullptr;
  for (size_t i = 0; i < kDistances; ++i) {
    if (!costs.pairs[i]) continue;
    bool there = pairs == nullptr;
    for (size_t k = 0; pairs != nullptr && k < pairs->size(); ++k)
      there = there || (*pairs)[k].distance == static_cast<Distance>(i);
    if (there) found = &*costs.pairs[i];
  }
  return found;
}

std::optional<PairCosts> most_distant(const std::optional<MachineCosts>& costs) {
  const PairCosts* const found = costs ? most_distant(*costs, nullptr) : nullptr;
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

Result<std::optional<PairCosts>> costs_of_file(const std::string& path,
                                               const cpu_set_t& processors) {
  IBCOLL_ASSIGN(const std::string text, read_input(path));
  IBCOLL_ASSIGN(const MachineCosts costs, of_input(path, parse_costs(text)));
  const Result<std::vector<CorePair>> pairs = core_pairs(processors);
  const PairCosts* found = pairs ? most_distant(costs, &*pairs) : nullptr;
  if (found == nullptr) found = most_distant(costs, nullptr);
  return *found;
}

/// Whether nobody else can have written it.
bool is_own(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
         std::time(nullptr) - status.st_mtime < kKeptSeconds;
}

}  // namespace

std::string kept_costs_path(const cpu_set_t& processors) {
  const auto directory = [](const char* name) -> std::filesystem::path {
    const char* const value = std::getenv(name);
    return value != nullptr && value[0] == '/' ? value : "";
  };
  std::filesystem::path cache = directory("XDG_CACHE_HOME");
  if (cache.empty() && !directory("HOME").empty()) cache = directory("HOME") / ".cache";
  if (cache.empty()) return "";
  uint64_t hash = hash_bytes(processor_name());
  hash = mix(hash, static_cast<uint64_t>(online_processors()));
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &processors)) hash = mix(hash, static_cast<uint64_t>(i));
  return cache / "ibcoll" / fmt::format("costs-{:016x}.jsonl", hash);
}

std::optional<MachineCosts> kept_costs(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid() || !is_own(file.get())) return std::nullopt;
  std::string text(kMostKeptBytes, '\0');
  const ssize_t got = read(file.get(), text.data(), text.size());
  if (got <= 0) return std::nullopt;
  text.resize(static_cast<size_t>(got));
  Result<MachineCosts> costs = parse_costs(text);
  return costs ? std::optional(std::move(*costs)) : std::nullopt;
}

void keep_costs(const std::string& path, const MachineCosts& costs) {
  if (path.empty() || costs.spread > kMostSpread) return;
  // Nobody's home is made: some users have none.
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  (void)mkdir(folder.parent_path().c_str(), S_IRWXU);
  (void)mkdir(folder.c_str(), S_IRWXU);
  const std::string part = fmt::format("{}.{}", path, getpid());
  const std::string text = costs_text(costs);
  bool written = false;
  {
    const UniqueFd file(
        open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!file.valid()) return;
    written = write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  if (!written || rename(part.c_str(), path.c_str()) != 0) unlink(part.c_str());
}

Result<std::optional<PairCosts>> server_costs(const std::string& setting,
                                              const cpu_set_t& processors) {
  if (setting == kCostsOff) return std::nullopt;
  if (setting != kCostsMeasured) {
    auto costs = costs_of_file(setting, processors);
    if (!costs) return fail(costs.error().code, "IBCOLL_COSTS: {}", costs.error().message);
    return costs;
  }
  const std::string path = kept_costs_path(processors);
  if (std::optional<MachineCosts> kept = kept_costs(path)) return most_distant(kept);
  const Result<std::vector<CorePair>> pairs = core_pairs(processors);
  if (!pairs || pairs->empty()) return std::nullopt;
  const Result<MachineCosts> costs = measure_costs(*pairs, {});
  if (!costs) return std::nullopt;
  keep_costs(path, *costs);
  return most_distant(*costs);
}

}  // namespace ibcoll
