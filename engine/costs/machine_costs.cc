#include "engine/costs/machine_costs.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "engine/base/json.h"
#include "engine/base/units.h"

namespace ibcoll {
namespace {

constexpr std::array<const char*, kDistances> kDistanceNames = {"siblings", "near", "far"};

}  // namespace

const char* to_string(Distance distance) { return kDistanceNames[static_cast<size_t>(distance)]; }

const std::vector<Figure<PairCosts>>& pair_figures() {
  using P = PairCosts;
  static const std::vector<Figure<P>> figures = {
      {{"round_trip_ns", "a line to the other core and one back"}, &P::round_trip, nullptr},
      {{"write_ns", "copying into lines that the other core has read"}, nullptr, &P::write},
      {{"read_ns", "copying out of lines that the other core has written"}, nullptr, &P::read},
      {{"stream_write_ns", "as write, past the caches"}, nullptr, &P::stream_write},
      {{"stream_read_ns", "as read, of what was written past the caches"},
       nullptr,
       &P::stream_read},
      {{"vm_call_ns", "process_vm_readv, besides its pages"}, &P::vm_call, nullptr},
      {{"vm_page_ns", "a page that it copies"}, &P::vm_page, nullptr},
      {{"vm_huge_ns_per_kb", "the same of a huge page, a KB"}, &P::vm_huge_per_kb, nullptr},
      {{"wake_ns", "waking a rank that sleeps"}, &P::wake, nullptr},
  };
  return figures;
}

const std::vector<Figure<MachineCosts>>& machine_figures() {
  using M = MachineCosts;
  static const std::vector<Figure<M>> figures = {
      {{"copy_ns", "copying inside a core's own caches"}, nullptr, &M::copy},
      {{"memory_ns_per_kb", "copying from memory to memory, a KB"}, &M::memory_per_kb, nullptr},
      {{"yield_ns", "sched_yield where nobody else wants the core"}, &M::yield, nullptr},
      {{"hand_over_ns", "giving the core to another thread"}, &M::hand_over, nullptr},
      {{"spread", "worst of all figures: between quartiles, of the median"}, &M::spread, nullptr},
  };
  return figures;
}

namespace {

template <class Costs>
void add_figures(nlohmann::ordered_json& line, const std::vector<Figure<Costs>>& figures,
                 const Costs& costs) {
  for (const Figure<Costs>& figure : figures) {
    if (figure.single != nullptr)
      line[figure.name] = costs.*figure.single;
    else
      line[figure.name] = costs.*figure.by_length;
  }
}

}  // namespace

std::string costs_text(const MachineCosts& costs) {
  std::string text;
  for (size_t i = 0; i < kDistances; ++i) {
    if (!costs.pairs[i]) continue;
    nlohmann::ordered_json line = {
        {"kind", "pair_costs"}, {"distance", kDistanceNames[i]}, {"bytes", kCopyBytes}};
    add_figures(line, pair_figures(), *costs.pairs[i]);
    text += json_text(line) + "\n";
  }
  nlohmann::ordered_json line = {{"kind", "machine_costs"}, {"bytes", kCopyBytes}};
  add_figures(line, machine_figures(), costs);
  return text + json_text(line) + "\n";
}

namespace {

Status take_time(const nlohmann::ordered_json& value, const char* name, double& time) {
  time = value.is_number() ? value.get<double>() : -1;
  if (time >= 0 && std::isfinite(time)) return {};
  return fail(ErrorCode::kInput, "'{}' is no time from 0 on", name);
}

/// Takes the figures of a line out of it.
template <class Costs>
Status take_figures(nlohmann::ordered_json& line, const std::vector<Figure<Costs>>& figures,
                    Costs& costs) {
  if (line.value("bytes", nlohmann::ordered_json()) != nlohmann::ordered_json(kCopyBytes))
    return fail(ErrorCode::kInput, "'bytes' is not [{}]", fmt::join(kCopyBytes, ", "));
  line.erase("bytes");
  for (const Figure<Costs>& figure : figures) {
    const auto found = line.find(figure.name);
    if (found == line.end()) return fail(ErrorCode::kInput, "'{}' is missing", figure.name);
    if (figure.single != nullptr) {
      IBCOLL_TRY(take_time(*found, figure.name, costs.*figure.single));
    } else {
      CopyTimes& times = costs.*figure.by_length;
      if (!found->is_array() || found->size() != times.size())
        return fail(ErrorCode::kInput, "'{}' is no array of {} times", figure.name, times.size());
      for (size_t i = 0; i < times.size(); ++i)
        IBCOLL_TRY(take_time((*found)[i], figure.name, times[i]));
    }
    line.erase(found);
  }
  if (!line.empty()) return fail(ErrorCode::kInput, "unknown member '{}'", line.begin().key());
  return {};
}

Result<std::string> take_text(nlohmann::ordered_json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end() || !found->is_string())
    return fail(ErrorCode::kInput, "'{}' is missing, or no text", name);
  auto text = found->get<std::string>();
  line.erase(found);
  return text;
}

Status take_line(std::string_view text, MachineCosts& costs, bool& has_machine) {
  IBCOLL_ASSIGN(nlohmann::ordered_json line, parse_json(text));
  if (!line.is_object()) return fail(ErrorCode::kInput, "it is no object");
  IBCOLL_ASSIGN(const std::string kind, take_text(line, "kind"));
  if (kind == "machine_costs") {
    has_machine = true;
    return take_figures(line, machine_figures(), costs);
  }
  if (kind != "pair_costs")
    return fail(ErrorCode::kInput, "'kind' is '{}', neither pair_costs nor machine_costs", kind);
  IBCOLL_ASSIGN(const std::string distance, take_text(line, "distance"));
  const auto* const name = std::find(kDistanceNames.begin(), kDistanceNames.end(), distance);
  if (name == kDistanceNames.end())
    return fail(ErrorCode::kInput, "'distance' is '{}', neither siblings, near nor far", distance);
  std::optional<PairCosts>& pair = costs.pairs[static_cast<size_t>(name - kDistanceNames.begin())];
  pair.emplace();
  IBCOLL_TRY(take_figures(line, pair_figures(), *pair));
  const auto is_free = [](double time) { return time == 0; };
  if (pair->round_trip == 0 || std::any_of(pair->write.begin(), pair->write.end(), is_free) ||
      std::any_of(pair->read.begin(), pair->read.end(), is_free))
    return fail(ErrorCode::kInput, "lines move between two cores in no time");
  return {};
}

}  // namespace

Result<MachineCosts> parse_costs(std::string_view text) {
  MachineCosts costs;
  bool has_machine = false;
  int number = 0;
  for (const std::string_view row : split(text, '\n')) {
    ++number;
    if (row.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (const Status taken = take_line(row, costs, has_machine); !taken)
      return fail(ErrorCode::kInput, "line {}: {}", number, taken.error().message);
  }
  if (!has_machine) return fail(ErrorCode::kInput, "no line is about the machine");
  const auto is_known = [](const auto& pair) { return pair.has_value(); };
  if (std::none_of(costs.pairs.begin(), costs.pairs.end(), is_known))
    return fail(ErrorCode::kInput, "no line is about two cores");
  return costs;
}

}  // namespace ibcoll
