#include "perf/compare/options.h"

#include <algorithm>
#include <cstdint>

#include "engine/base/units.h"
#include "perf/compare/contest.h"
#include "perf/compare/machines.h"
#include "tools/frame/frame.h"

namespace ibcoll::compare {
namespace {

Result<contest_collective> parse_contest(std::string_view text) {
  std::string names;
  for (int i = 0; i < CONTEST_COLLECTIVES; ++i) {
    if (text == contest_name(i)) return static_cast<contest_collective>(i);
    names += fmt::format("{}{}", i == 0 ? "" : ", ", contest_name(i));
  }
  return fail(ErrorCode::kInvalidArgument, "unknown collective '{}': all, or of {}", text, names);
}

/// Which collectives the text names, each once.
Result<std::vector<contest_collective>> parse_collectives(std::string_view text) {
  std::vector<contest_collective> found;
  for (int i = 0; text == "all" && i < CONTEST_COLLECTIVES; ++i)
    found.push_back(static_cast<contest_collective>(i));
  if (!found.empty()) return found;
  for (const std::string_view name : split(text, ',')) {
    IBCOLL_ASSIGN(const contest_collective one, parse_contest(name));
    if (std::find(found.begin(), found.end(), one) == found.end()) found.push_back(one);
  }
  if (found.empty()) return fail(ErrorCode::kInvalidArgument, "--collective names none");
  return found;
}

/// Each once, in the order in which they come first.
void drop_repeated(std::vector<int64_t>& values) {
  std::vector<int64_t> once;
  for (const int64_t one : values)
    if (std::find(once.begin(), once.end(), one) == once.end()) once.push_back(one);
  values = std::move(once);
}

}  // namespace

void add_options(tools::Command app, Arguments& typed, Options& options) {
  app.option("--collective", typed.collectives, "Which, by name: alltoall,bcast,... or all")
      .with_default();
  app.option("--ranks", typed.ranks, "Rank counts, each a comparison of its own").with_default();
  app.option("--sizes", typed.sizes,
             "Bytes a pair; of bcast and reductions, of a block: 64,1K,1M or 64-4M (doubling) "
             "or 64-4M:4")
      .with_default();
  app.option("--rounds", options.rounds, "How often everybody is measured in turn")
      .between(1, 1000)
      .with_default();
  app.option("--samples", options.samples, "Batches a round")
      .between(1, static_cast<int>(CONTEST_MAX_SAMPLES))
      .with_default();
  app.option("--batch", typed.batch, "Calls are timed in batches of about this long")
      .with_default();
  tools::add_json_option(app, options.json);
}

Status understand(const Arguments& arguments, Options& options) {
  IBCOLL_ASSIGN(options.collectives, parse_collectives(arguments.collectives));
  if (arguments.machines) {
    IBCOLL_ASSIGN(options.machines, machines_here());
    options.ranks.push_back(options.machines->ranks());
  }
  for (const std::string_view part : split(arguments.machines ? "" : arguments.ranks, ',')) {
    IBCOLL_ASSIGN(const int64_t count,
                  parse_integer(part, 1, CONTEST_MAX_RANKS, "the number of ranks"));
    options.ranks.push_back(count);
  }
  if (options.ranks.empty()) return fail(ErrorCode::kInvalidArgument, "--ranks names no number");
  IBCOLL_ASSIGN(options.sizes, parse_sizes(arguments.sizes));
  drop_repeated(options.ranks);
  drop_repeated(options.sizes);
  // Of doubles, and of runs of eight bytes.
  const auto whole =
      std::find_if(options.collectives.begin(), options.collectives.end(),
                   [](auto one) { return contest_reduces(one) || one == CONTEST_ALLTOALLW; });
  for (const int64_t size : options.sizes) {
    if (size < 1 || size > INT32_MAX) {
      return fail(ErrorCode::kInvalidArgument,
                  "size {} is out of range: 1 to {} bytes (MPI counts are ints)", size, INT32_MAX);
    }
    if (whole != options.collectives.end() && size % 8 != 0) {
      return fail(ErrorCode::kInvalidArgument, "size {}: of {} sizes must be multiples of 8", size,
                  contest_name(*whole));
    }
  }
  IBCOLL_ASSIGN(options.batch_ns, parse_duration(arguments.batch));
  if (options.batch_ns < 1000 || options.batch_ns > 10'000'000'000)
    return fail(ErrorCode::kInvalidArgument, "--batch must be 1us to 10s, not {}", arguments.batch);
  return {};
}

}  // namespace ibcoll::compare
