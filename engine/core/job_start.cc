#include "engine/core/job_start.h"

#include <algorithm>
#include <array>
#include <string>

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
  ProcessPlace place;
  int64_t eager_bytes = 0;
  CheckMode check = CheckMode::kOff;
  std::array<bool, kSettings.size()> is_set{};
};

}  // namespace

Result<JobStart> JobStart::exchange(Bootstrap& bootstrap, const ContextOptions& options) {
  Record mine{this_place(), options.eager_bytes, options.check, {}};
  for (size_t i = 0; i < kSettings.size(); ++i) mine.is_set[i] = kSettings[i].is_set(options);
  std::vector<Record> all(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, all.data()));
  for (size_t i = 0; i < kSettings.size(); ++i) {
    for (size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank].is_set[i] == all[0].is_set[i]) continue;
      return fail(ErrorCode::kInvalidArgument,
                  "{} is set on rank {}, but not on rank {}: all ranks must have it",
                  kSettings[i].variable, all[0].is_set[i] ? 0 : rank, all[0].is_set[i] ? rank : 0);
    }
  }
  JobStart start;
  start.check = all[0].check;
  start.places.reserve(all.size());
  start.eager_bytes.reserve(all.size());
  for (const Record& record : all) {
    start.places.push_back(record.place);
    start.eager_bytes.push_back(record.eager_bytes);
  }
  return start;
}

size_t JobStart::record_bytes() { return sizeof(Record); }

Result<int64_t> JobStart::agreed_eager_bytes(int64_t longest) const {
  const auto of = [&](size_t rank) { return std::min(eager_bytes[rank], longest); };
  for (size_t rank = 1; rank < eager_bytes.size(); ++rank) {
    if (of(rank) == of(0)) continue;
    return fail(ErrorCode::kInvalidArgument,
                "IBCOLL_EAGER is {} on rank 0, but {} on rank {}: it must be the same on all ranks",
                of(0), of(rank), rank);
  }
  return of(0);
}

}  // namespace ibcoll
