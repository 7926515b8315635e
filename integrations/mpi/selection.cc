#include "integrations/mpi/selection.h"

#include <algorithm>

#include "engine/base/units.h"

namespace ibcoll::mpi {

namespace {

constexpr uint64_t kK = 1024;

/// Reductions that take the MPI less time, on one server, with private memory
/// (perf/compare_preload, two cores). What others come to may be measured as they are made; the
/// bits of a sum of floating-point numbers depend on who computes it, so it has to be the same one
/// from the first call on, in each run.
constexpr std::array kFaster = {
    Faster{"Open MPI", Function::kAllreduce, 2, 2, {0, 512}},
    Faster{"Open MPI", Function::kReduceScatter, 2, 2, {0, 1 * kK}},
    Faster{"Open MPI", Function::kReduceScatterBlock, 2, 2, {0, 512}},
    Faster{"Open MPI", Function::kReduce, 2, 2, {0, 256}},
    Faster{"Open MPI", Function::kScan, 2, 2, {0, 256}},
    Faster{"Open MPI", Function::kExscan, 2, 2, {0, 256}},
    Faster{"Open MPI", Function::kReduce, 3, 8, {0, 128}},
    Faster{"Open MPI", Function::kScan, 3, 8, {0, 64}},
    Faster{"Open MPI", Function::kExscan, 3, 8, {0, 64}},
    Faster{"MPICH", Function::kReduceScatter, 2, 2, {0, 128}},
};

std::string all_names() {
  std::string names;
  for (int i = 0; i < kFunctions; ++i) names += fmt::format("{}{}", i == 0 ? "" : ", ", name_of(i));
  return names;
}

/// Whether all ranks of a call know one size. Of neighbours only those have to pass the same that
/// are neighbours of each other.
bool has_size(Function function) {
  return moves_data(function) && lies_side_by_side(function) && !has_graph(function);
}

Result<int> function_of(std::string_view name) {
  for (int i = 0; i < kFunctions; ++i)
    if (name == name_of(i)) return i;
  return fail(ErrorCode::kInvalidArgument,
              "IBCOLL_MPI_FUNCTIONS: '{}' is none of the functions that can be taken over: {}",
              name, all_names());
}

/// "0-4K", "64K-" or "-64K".
Result<SizeRange> range_of(std::string_view text) {
  SizeRange range;
  const size_t dash = text.find('-');
  const auto bad = [&] {
    return fail(ErrorCode::kInvalidArgument,
                "IBCOLL_MPI_FUNCTIONS: '{}' is no range of sizes such as 0-4K", text);
  };
  if (dash == std::string_view::npos || text.size() == 1) return bad();
  const std::string_view low = text.substr(0, dash), high = text.substr(dash + 1);
  const Result<int64_t> from = parse_size(low.empty() ? "0" : low);
  if (!from) return bad();
  range.low = static_cast<uint64_t>(*from);
  if (!high.empty()) {
    const Result<int64_t> to = parse_size(high);
    if (!to || *to < *from) return bad();
    range.high = static_cast<uint64_t>(*to);
  }
  return range;
}

}  // namespace

bool Selection::takes_size(Function function, uint64_t bytes, int ranks) const {
  const auto of = static_cast<size_t>(function);
  if (!sizes[of].has(bytes)) return false;
  return std::none_of(left[of].begin(), left[of].end(), [&](const Faster& faster) {
    return faster.sizes.has(bytes) && faster.least_ranks <= ranks && ranks <= faster.most_ranks;
  });
}

Result<Selection> selection_of(const std::string& list) {
  Selection selection;
  if (list.empty() || list == "all") {
    selection.functions = (uint64_t{1} << kFunctions) - 1;
    return selection;
  }
  for (const std::string_view part : split(list, ',')) {
    const size_t colon = part.find(':');
    const std::string_view name = part.substr(0, colon);
    IBCOLL_ASSIGN(const int function, function_of(name));
    selection.functions |= uint64_t{1} << function;
    if (colon == std::string_view::npos) continue;
    if (!has_size(kCollectives[function])) {
      return fail(ErrorCode::kInvalidArgument,
                  "IBCOLL_MPI_FUNCTIONS: {} takes no range of sizes ('{}'): its ranks do not all "
                  "know the same size",
                  name, part);
    }
    IBCOLL_ASSIGN(selection.sizes[static_cast<size_t>(function)], range_of(part.substr(colon + 1)));
  }
  look_at_sizes(selection);
  return selection;
}

void leave_what_is_faster(Selection& selection, std::string_view family) {
  for (const Faster& faster : kFaster)
    if (faster.family == family)
      selection.left[static_cast<size_t>(faster.function)].push_back(faster);
  look_at_sizes(selection);
}

void look_at_sizes(Selection& selection) {
  selection.has_range = 0;
  for (int i = 0; i < kFunctions; ++i)
    if (selection.sizes[i].low != 0 || selection.sizes[i].high != UINT64_MAX ||
        !selection.left[i].empty())
      selection.has_range |= uint64_t{1} << i;
}

}  // namespace ibcoll::mpi
