#include "perf/compare/verdict.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "perf/compare/cells.h"

namespace ibcoll::compare {
namespace {

constexpr double kLongUs = 1;
constexpr double kLeastOfShort = 0.8;
/// Of the geometric means.
constexpr double kLeastMean = 1.0, kLeastMeanPrivate = 1.4, kLeastMeanOwn = 1.9;

/// A cell among those of one memory.
using CellName = std::tuple<contest_collective, int, int64_t>;
CellName name_in_table(const Cell& cell) { return {cell.collective, cell.ranks, cell.bytes}; }

/// What --all-tables measures of one memory.
std::set<CellName> whole_table() {
  std::set<CellName> names;
  Options all;
  all.sizes = *parse_sizes(kAllSizes);
  for (const std::string_view ranks : split(kAllRanks, ',')) {
    const auto count = static_cast<int>(*parse_integer(ranks, 1, CONTEST_MAX_RANKS, "ranks"));
    for (int i = 0; i < CONTEST_COLLECTIVES; ++i) {
      const auto collective = static_cast<contest_collective>(i);
      if (!is_comparable(collective, count)) continue;
      for (const int64_t bytes : sizes_of(all, collective)) names.emplace(collective, count, bytes);
    }
  }
  return names;
}

}  // namespace

bool is_long(const Cell& cell) { return cell.ours_us >= kLongUs; }

double least_faster(const Cell& cell, int cores) {
  return is_long(cell) ? least_faster(cell.ranks, cores) : kLeastOfShort;
}

bool seems_slow(const Cell& cell, int cores) { return cell.of_rounds < least_faster(cell, cores); }

bool is_slow(const Cell& cell, int cores) {
  return seems_slow(cell, cores) && cell.again && cell.again->high < least_faster(cell, cores);
}

std::vector<MeanLimit> mean_limits(bool private_memory) {
  return {
      {"all", private_memory ? kLeastMeanPrivate : kLeastMeanOwn,
       [](const Cell&, int) { return true; }},
      {"calls of less than 1 us", kLeastMean, [](const Cell& cell, int) { return !is_long(cell); }},
      {"calls of 1 us and more, more ranks than cores", kLeastMean,
       [](const Cell& cell, int cores) { return is_long(cell) && cell.ranks > cores; }}};
}

bool Verdict::passes() const {
  return slow.empty() &&
         std::none_of(means.begin(), means.end(), [](const Mean& mean) { return mean.fails(); });
}

bool is_whole(const std::vector<Cell>& cells, bool private_memory) {
  std::set<CellName> there;
  for (const Cell& cell : cells)
    if (cell.private_memory == private_memory) there.insert(name_in_table(cell));
  return std::ranges::includes(there, whole_table());
}

Verdict judge(const std::vector<Cell>& cells, int cores) {
  Verdict verdict;
  verdict.cells = cells.size();
  for (const Cell& cell : cells) {
    verdict.again += cell.again ? 1 : 0;
    if (is_slow(cell, cores)) verdict.slow.push_back(cell);
  }
  const std::set<CellName> whole = whole_table();
  for (const bool private_memory : {true, false}) {
    if (!is_whole(cells, private_memory)) continue;
    for (const MeanLimit& limit : mean_limits(private_memory)) {
      std::vector<double> faster;
      for (const Cell& cell : cells)
        if (cell.private_memory == private_memory && whole.contains(name_in_table(cell)) &&
            limit.counts(cell, cores))
          faster.push_back(cell.faster.value);
      if (faster.empty()) continue;
      verdict.means.push_back({private_memory, limit, faster.size(), geometric_mean(faster)});
    }
  }
  return verdict;
}

std::optional<std::string> why_not_to_judge(const Tables& tables, double most_load) {
  if (tables.after_barrier) return "its calls followed barriers, and the limits are for others";
  if (tables.cores() == 0) return "how many cores the machine has is not known";
  for (const char* when : {"before", "during"}) {
    const State* const state = tables.state(when);
    if (state == nullptr)
      return fmt::format("the state of the machine {} the comparison is not known", when);
    if (auto why = why_not_to_judge(*state, most_load)) return why;
  }
  for (const Cell& cell : tables.cells) {
    if (seems_slow(cell, tables.cores()) && !cell.again)
      return fmt::format("{} seems slow and was not measured again", name_of(cell));
  }
  return std::nullopt;
}

void add_judged(nlohmann::ordered_json& line, const Cell& cell, int cores) {
  line["least"] = least_faster(cell, cores);
  line["slow"] = is_slow(cell, cores);
  if (!cell.again) return;
  line["again"] = {{"rounds", kRoundsAgain}};
  add_interval(line["again"], "speedup", *cell.again);
}

nlohmann::ordered_json verdict_line(const Verdict& verdict, double most_load) {
  nlohmann::ordered_json line = {{"kind", "verdict"},
                                 {"passes", verdict.passes()},
                                 {"most_load", most_load},
                                 {"cells", verdict.cells},
                                 {"cells_again", verdict.again},
                                 {"slow", nlohmann::ordered_json::array()},
                                 {"means", nlohmann::ordered_json::array()}};
  for (const Cell& cell : verdict.slow) {
    line["slow"].push_back({{"collective", contest_name(cell.collective)},
                            {"ranks", cell.ranks},
                            {"bytes_per_pair", cell.bytes},
                            {"memory", memory_member(cell.private_memory)}});
  }
  for (const Mean& mean : verdict.means) {
    line["means"].push_back({{"memory", memory_member(mean.private_memory)},
                             {"of", mean.limit.of},
                             {"cells", mean.cells},
                             {"speedup", mean.faster},
                             {"least", mean.limit.least},
                             {"fails", mean.fails()}});
  }
  return line;
}

std::string verdict_text(const Verdict& verdict, int cores) {
  std::string text = fmt::format("\nVerdict: {} cells, {} measured again, {} slower than allowed\n",
                                 verdict.cells, verdict.again, verdict.slow.size());
  for (const Cell& cell : verdict.slow) {
    text += fmt::format("  slow: {}: {:.2f}x, again {:.2f}x ({:.2f}-{:.2f}), at least {:.2f}x\n",
                        name_of(cell), cell.of_rounds, cell.again->value, cell.again->low,
                        cell.again->high, least_faster(cell, cores));
  }
  for (const Mean& mean : verdict.means) {
    text += fmt::format("  {}: {}, {}: {:.2f}x in geometric mean over {} cells, at least {:.2f}x\n",
                        mean.fails() ? "slow" : "mean", memory_text(mean.private_memory),
                        mean.limit.of, mean.faster, mean.cells, mean.limit.least);
  }
  if (verdict.means.empty())
    text += "  means: not judged, for not all cells of --all-tables were measured\n";
  return text;
}

}  // namespace ibcoll::compare
