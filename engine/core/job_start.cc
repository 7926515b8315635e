#include "engine/core/job_start.h"

#include <algorithm>
#include <array>
#include <string>

#include "engine/bootstrap/machine.h"

namespace ibcoll {
namespace {

/// What all ranks or none have to have.
struct Setting {
  const char* variable;
  std::string ContextOptions::*value = nullptr;
  bool is_set(const ContextOptions& options) const {
    return !(value != nullptr ? options.*value : options.fabric.fabric).empty();
  }
};
constexpr std::array<Setting, 3> kSettings{{{"IBCOLL_FABRIC"},
                                            {"IBCOLL_PROGRAMS", &ContextOptions::programs},
                                            {"IBCOLL_RULES", &ContextOptions::rules_file}}};

struct Record {
  MachineId machine;
  int64_t eager_bytes = 0;
  CheckMode check = CheckMode::kOff;
  uint8_t settings = 0;  ///< a bit for each of kSettings: whether it is set

  bool is_set(size_t setting) const { return (settings >> setting & 1) != 0; }
};
static_assert(sizeof(Record) <= 32, "each rank of a job gets those of all others");

uint8_t settings_of(const ContextOptions& options) {
  static_assert(kSettings.size() <= 8);
  unsigned bits = 0;
  for (size_t i = 0; i < kSettings.size(); ++i)
    if (kSettings[i].is_set(options)) bits |= 1U << i;
  return static_cast<uint8_t>(bits);
}

Status check_settings(const std::vector<Record>& all) {
  for (size_t i = 0; i < kSettings.size(); ++i) {
    for (size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank].is_set(i) == all[0].is_set(i)) continue;
      return fail(ErrorCode::kInvalidArgument,
                  "{} is set on rank {}, but not on rank {}: all ranks must have it",
                  kSettings[i].variable, all[0].is_set(i) ? 0 : rank, all[0].is_set(i) ? rank : 0);
    }
  }
  return {};
}

std::vector<JobStart::EagerBytes> eager_bytes_of(const std::vector<Record>& all) {
  std::vector<JobStart::EagerBytes> different;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const int64_t value = all[rank].eager_bytes;
    if (std::none_of(different.begin(), different.end(),
                     [value](const JobStart::EagerBytes& known) { return known.value == value; }))
      different.push_back({value, static_cast<Rank>(rank)});
  }
  return different;
}

}  // namespace

Result<JobStart> JobStart::exchange(Bootstrap& bootstrap, const ContextOptions& options) {
  const Record mine{this_machine(), options.eager_bytes, options.check, settings_of(options)};
  std::vector<Record> all(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, all.data()));
  IBCOLL_TRY(check_settings(all));
  std::vector<MachineId> machines;
  machines.reserve(all.size());
  for (const Record& record : all) machines.push_back(record.machine);
  return JobStart{number_distinct(machines), eager_bytes_of(all), all[0].check};
}

size_t JobStart::record_bytes() { return sizeof(Record); }

Result<int64_t> JobStart::agreed_eager_bytes(int64_t longest) const {
  const int64_t first = std::min(eager_bytes.front().value, longest);
  for (const EagerBytes& other : eager_bytes) {
    const int64_t value = std::min(other.value, longest);
    if (value == first) continue;
    return fail(ErrorCode::kInvalidArgument,
                "IBCOLL_EAGER is {} on rank 0, but {} on rank {}: it must be the same on all ranks",
                first, value, other.first);
  }
  return first;
}

}  // namespace ibcoll
