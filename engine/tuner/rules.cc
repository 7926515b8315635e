#include "engine/tuner/rules.h"

#include <algorithm>
#include <tuple>

#include "engine/base/input.h"
#include "engine/base/units.h"
#include "engine/schedule/layout.h"

namespace ibcoll {
namespace {

constexpr size_t kMostRulesBytes = size_t{1} << 24;

}  // namespace

Result<Shape> shape_of_layout(std::string_view layout) {
  const size_t blank = layout.find(' ');
  const std::string_view placement =
      blank == std::string_view::npos ? "block" : layout.substr(blank + 1);
  IBCOLL_ASSIGN(const Placement placed, parse_placement(placement));
  return parse_layout(layout.substr(0, blank), placed);
}

bool has_sizes(Collective collective) {
  return moves_data(collective) && knows_all_lengths(collective);
}

std::string RulesJob::differences(const RulesJob& other) const {
  std::string text;
  const auto add = [&](std::string_view what, const auto& here, const auto& there) {
    if (here == there) return;
    text += fmt::format("{}{} {}, not {}", text.empty() ? "" : "; ", what, here, there);
  };
  if (!layout.empty()) add("layout", layout, other.layout);
  if (!transport.empty()) add("transport", transport, other.transport);
  if (machines != 0) add("machines:", machines, other.machines);
  if (!processor.empty()) add("processor", processor, other.processor);
  if (processors != 0) add("processors:", processors, other.processors);
  if (!engine.empty()) add("ibcoll", engine, other.engine);
  return text;
}

std::string Rule::describe() const {
  std::string text(algorithm->name);
  if (pacing) text += fmt::format("/{}", to_string(*pacing));
  if (window != 1) text += fmt::format(", window {}", window);
  if (pieces != 0) text += fmt::format(", {} piece{}", pieces, pieces == 1 ? "" : "s");
  return text;
}

Result<std::vector<RuleSection>> read_rules(const std::string& path) {
  IBCOLL_ASSIGN(const std::string text, read_input(path, kMostRulesBytes));
  return of_input(path, parse_rules(text));
}

Result<Rules> Rules::create(const RuleSection& section, const Shape& job) {
  Rules rules;
  for (const Rule& rule : section.rules) {
    uint64_t shape = job.hash();
    if (!rule.layout.empty()) {
      IBCOLL_ASSIGN(const Shape group, shape_of_layout(rule.layout));
      shape = group.hash();
    }
    rules.places_.push_back({shape, rule.collective, rule.from, rule});
  }
  const auto key = [](const Place& place) {
    return std::tuple(place.shape, place.collective, place.from);
  };
  std::sort(rules.places_.begin(), rules.places_.end(),
            [&](const Place& a, const Place& b) { return key(a) < key(b); });
  // parse_rules has seen to it where rules come from a file.
  for (size_t i = 1; i < rules.places_.size(); ++i) {
    const Place &a = rules.places_[i - 1], &b = rules.places_[i];
    if (a.shape != b.shape || a.collective != b.collective || a.rule.to < b.from) continue;
    return fail(ErrorCode::kInput, "two rules for {} of {} bytes, of layouts that are the same",
                to_string(a.collective), b.from);
  }
  return rules;
}

const Rule* Rules::find(Collective collective, const Shape& shape, int64_t block_bytes) const {
  if (places_.empty()) return nullptr;
  const int64_t bytes = std::max<int64_t>(block_bytes, 0);
  const auto wanted = std::tuple(shape.hash(), collective, bytes);
  const auto behind = std::upper_bound(places_.begin(), places_.end(), wanted,
                                       [](const auto& key, const Place& at) {
                                         return key < std::tuple(at.shape, at.collective, at.from);
                                       });
  if (behind == places_.begin()) return nullptr;
  const Place& place = *std::prev(behind);
  const bool fits =
      place.shape == shape.hash() && place.collective == collective && bytes <= place.rule.to;
  return fits ? &place.rule : nullptr;
}

}  // namespace ibcoll
