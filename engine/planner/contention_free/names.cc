#include <array>

#include "engine/planner/contention_free/plan.h"

namespace ibcoll::contention_free {

namespace {

constexpr std::array<const char*, kKinds> kKindNames = {
    "gather", "scatter", "alltoall", "allgather", "bcast", "reduce", "reduce_scatter", "allreduce"};
constexpr std::array<const char*, kPlanners> kPlannerNames = {"thesis", "fixed", "list", "best"};
constexpr std::array<const char*, kPolicies> kPolicyNames = {"random", "max-cost", "min-cost",
                                                             "max-sync", "min-sync"};

template <class Value, size_t count>
Result<Value> parse_name(const std::array<const char*, count>& names, const char* what,
                         std::string_view text) {
  std::string known;
  for (size_t i = 0; i < count; ++i) {
    if (text == names[i]) return static_cast<Value>(i);
    known += fmt::format("{}{}", i == 0 ? "" : ", ", names[i]);
  }
  return fail(ErrorCode::kInvalidArgument, "unknown {} '{}': one of {}", what, text, known);
}

}  // namespace

const char* to_string(Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }
const char* to_string(Planner planner) { return kPlannerNames[static_cast<size_t>(planner)]; }
const char* to_string(Policy policy) { return kPolicyNames[static_cast<size_t>(policy)]; }

Result<Kind> parse_kind(std::string_view text) {
  return parse_name<Kind>(kKindNames, "collective", text);
}
Result<Planner> parse_planner(std::string_view text) {
  return parse_name<Planner>(kPlannerNames, "planner", text);
}
Result<Policy> parse_policy(std::string_view text) {
  return parse_name<Policy>(kPolicyNames, "policy", text);
}

}  // namespace ibcoll::contention_free
