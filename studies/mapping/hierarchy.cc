#include "studies/mapping/hierarchy.h"

#include <fmt/ranges.h>
#include <cstdint>

#include "engine/base/units.h"

namespace ibcoll::topology {
namespace {

Result<std::vector<int>> parse_list(std::string_view text, int most, const char* what) {
  std::vector<int> numbers;
  for (const std::string_view part : split(text, ':')) {
    IBCOLL_ASSIGN(const int64_t number, parse_integer(part, 1, most, what));
    numbers.push_back(static_cast<int>(number));
  }
  return numbers;
}

}  // namespace

Result<Hierarchy> Hierarchy::create(std::vector<int> groups, std::vector<int> distances) {
  if (groups.empty() || groups.size() > kMaxLevels) {
    return fail(ErrorCode::kInvalidArgument, "a hierarchy of {} levels: 1 to {}", groups.size(),
                kMaxLevels);
  }
  if (distances.size() != groups.size()) {
    return fail(ErrorCode::kInvalidArgument, "{} distances for a hierarchy of {} levels",
                distances.size(), groups.size());
  }
  Hierarchy made;
  made.spans_.push_back(1);
  for (size_t level = 0; level < groups.size(); ++level) {
    const int64_t span = static_cast<int64_t>(made.spans_.back()) * groups[level];
    if (groups[level] < 1 || span > kMaxNodes) {
      return fail(ErrorCode::kInvalidArgument,
                  "a hierarchy {}: groups of 1 and more, at most {} nodes", fmt::join(groups, ":"),
                  kMaxNodes);
    }
    if (distances[level] < (level == 0 ? 1 : distances[level - 1]) ||
        distances[level] > kMaxDistance) {
      return fail(ErrorCode::kInvalidArgument,
                  "distances {}: 1 to {}, none smaller than the one before",
                  fmt::join(distances, ":"), kMaxDistance);
    }
    made.spans_.push_back(static_cast<int>(span));
  }
  made.groups_ = std::move(groups);
  made.distances_ = std::move(distances);
  made.first_link_.push_back(0);
  for (int level = 0; level < made.levels(); ++level)
    made.first_link_.push_back(made.first_link_.back() + made.nodes() / made.span(level));
  made.group_of_.reserve(static_cast<size_t>(made.nodes()) * made.groups_.size());
  for (int node = 0; node < made.nodes(); ++node) {
    for (int level = 0; level < made.levels(); ++level)
      made.group_of_.push_back(node / made.span(level));
  }
  return made;
}

Result<Hierarchy> Hierarchy::parse(std::string_view groups, std::string_view distances) {
  IBCOLL_ASSIGN(std::vector<int> members,
                parse_list(groups, kMaxNodes, "the size of a group of --hierarchy"));
  IBCOLL_ASSIGN(std::vector<int> apart, parse_list(distances, kMaxDistance, "one of --distances"));
  return create(std::move(members), std::move(apart));
}

std::string Hierarchy::name() const { return fmt::format("hierarchy:{}", fmt::join(groups_, ":")); }

}  // namespace ibcoll::topology
