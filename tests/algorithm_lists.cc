#include "tests/algorithm_lists.h"

#include <fmt/ranges.h>

#include <string_view>

namespace ibcoll::testing {

std::vector<const Algorithm*> algorithms_of(Collective collective) {
  return find_algorithms(collective, "all").value();
}

std::vector<const Algorithm*> unplanned_algorithms_of(Collective collective) {
  std::vector<const Algorithm*> all = algorithms_of(collective);
  std::erase_if(all, [](const Algorithm* one) { return one->spec->planned; });
  return all;
}

std::string names_of(std::span<const Algorithm* const> some) {
  std::vector<std::string_view> names;
  for (const Algorithm* const one : some) names.push_back(one->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace ibcoll::testing
