#include <array>

#include "engine/planner/contention_free/plan.h"

namespace ibcoll::contention_free {

namespace {

constexpr auto kPlannedNames = [] {
  std::array<const char*, kPlanned.size()> names{};
  for (size_t i = 0; i < names.size(); ++i) names[i] = to_string(kPlanned[i]);
  return names;
}();
constexpr std::array<const char*, kPlanners> kPlannerNames = {"thesis", "fixed", "list", "best"};
constexpr std::array<const char*, kPolicies> kPolicyNames = {"random", "max-cost", "min-cost",
                                                             "max-sync", "min-sync"};

template <size_t count>
std::string joined(const std::array<const char*, count>& names) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += fmt::format("{}{}", i == 0 ? "" : ", ", names[i]);
  return all;
}

template <class Value, size_t count>
Result<Value> parse_name(const std::array<const char*, count>& names, const char* what,
                         std::string_view text) {
  for (size_t i = 0; i < count; ++i) {
    if (text == names[i]) return static_cast<Value>(i);
  }
  return fail(ErrorCode::kInvalidArgument, "unknown {} '{}': one of {}", what, text, joined(names));
}

}  // namespace

const char* to_string(Planner planner) { return kPlannerNames[static_cast<size_t>(planner)]; }
const char* to_string(Policy policy) { return kPolicyNames[static_cast<size_t>(policy)]; }

Result<Collective> parse_planned(std::string_view text) {
  IBCOLL_ASSIGN(const size_t place, parse_name<size_t>(kPlannedNames, "collective", text));
  return kPlanned[place];
}
Result<Planner> parse_planner(std::string_view text) {
  return parse_name<Planner>(kPlannerNames, "planner", text);
}
Result<Policy> parse_policy(std::string_view text) {
  return parse_name<Policy>(kPolicyNames, "policy", text);
}
std::string planned_names() { return joined(kPlannedNames); }

}  // namespace ibcoll::contention_free
