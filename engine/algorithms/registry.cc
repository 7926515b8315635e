#include "engine/algorithms/registry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "engine/algorithms/acks.h"
#include "engine/algorithms/imported.h"
#include "engine/base/units.h"

namespace ibcoll {
namespace {

/// Files register in no particular order.
std::vector<const AlgorithmSpec*>& specs() {
  static std::vector<const AlgorithmSpec*> all;
  return all;
}

/// All ranks, and all builds, shall see the same order.
std::vector<Algorithm> sorted() {
  std::vector<Algorithm> all;
  for (const AlgorithmSpec* spec : specs()) {
    for (const Collective collective : kCollectives) {
      if (!spec->collectives.contain(collective)) continue;
      // Where every rank knows the lengths of all blocks nobody must be told them.
      const bool told = spec->relays && (!is_unequal(collective) || !knows_all_lengths(collective));
      all.push_back({spec, collective, spec->name, spec->paced, told, spec->largest_put});
    }
  }
  std::sort(all.begin(), all.end(), [](const Algorithm& a, const Algorithm& b) {
    return std::tie(a.collective, a.name) < std::tie(b.collective, b.name);
  });
  return all;
}

}  // namespace

Registered::Registered(const AlgorithmSpec& spec) { specs().push_back(&spec); }

ProgramPtr Algorithm::build(const Shape& shape, Rank me, const AlgorithmOptions& options) const {
  AlgorithmOptions heeded = options;
  if (!spec->cuts) heeded.cut = 0;
  ProgramPtr program = spec->imported != nullptr ? spec->imported->find(shape, me, options.root)
                                                 : spec->build(collective, shape, me, heeded);
  return options.acks && collective == Collective::kBcast ? with_acks(shape, *program) : program;
}

bool Algorithm::is_for(const Shape& shape, Rank root) const {
  return spec->imported == nullptr || spec->imported->has(shape, root);
}

std::span<const Algorithm> algorithms() {
  static const std::vector<Algorithm> all = sorted();
  return all;
}

std::vector<ProgramPtr> build_all(const Algorithm& algorithm, const Shape& shape,
                                  const AlgorithmOptions& options) {
  std::vector<ProgramPtr> programs;
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    programs.push_back(algorithm.build(shape, rank, options));
  }
  return programs;
}

const Algorithm* look_up_algorithm(Collective collective, std::string_view name) {
  const std::span<const Algorithm> all = algorithms();
  const auto at = std::lower_bound(all.begin(), all.end(), std::tie(collective, name),
                                   [](const Algorithm& algorithm, const auto& wanted) {
                                     return std::tie(algorithm.collective, algorithm.name) < wanted;
                                   });
  const bool found = at != all.end() && at->collective == collective && at->name == name;
  return found ? &*at : look_up_imported(collective, name);
}

Result<const Algorithm*> find_algorithm(Collective collective, std::string_view name) {
  if (const Algorithm* const found = look_up_algorithm(collective, name)) return found;
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.collective == collective) names.push_back(algorithm.name);
  for (const Algorithm* const algorithm : imported_algorithms())
    if (algorithm->collective == collective) names.push_back(algorithm->name);
  return fail(ErrorCode::kInvalidArgument, "unknown {} algorithm '{}': one of {}",
              to_string(collective), name, fmt::join(names, ", "));
}

Result<std::vector<const Algorithm*>> find_algorithms(Collective collective,
                                                      std::string_view names) {
  std::vector<const Algorithm*> found;
  if (names == "all") {
    for (const Algorithm& algorithm : algorithms())
      if (algorithm.collective == collective) found.push_back(&algorithm);
    return found;
  }
  for (const std::string_view name : split(names, ',')) {
    IBCOLL_ASSIGN(const Algorithm* const algorithm, find_algorithm(collective, name));
    found.push_back(algorithm);
  }
  return found;
}

Status check_order(const Algorithm& algorithm, const Shape& shape,
                   const AlgorithmOptions& options) {
  if (!algorithm.is_for(shape, options.root)) {
    const bool rooted = has_root(algorithm.collective);
    return fail(
        ErrorCode::kInvalidArgument, "{} algorithm '{}' has programs for layouts {}, not {}{}",
        to_string(algorithm.collective), algorithm.name, algorithm.spec->imported->describe(),
        shape.describe(), rooted ? fmt::format(" with root {}", options.root) : "");
  }
  if (!options.ordered || !reduces(algorithm.collective) || algorithm.keeps_order(shape)) return {};
  std::vector<std::string_view> names;
  for (const Algorithm& other : algorithms()) {
    if (other.collective == algorithm.collective && other.keeps_order(shape)) {
      names.push_back(other.name);
    }
  }
  return fail(ErrorCode::kInvalidArgument,
              "{} algorithm '{}' can't combine in the order of ranks here: one of {}",
              to_string(algorithm.collective), algorithm.name, fmt::join(names, ", "));
}

}  // namespace ibcoll
