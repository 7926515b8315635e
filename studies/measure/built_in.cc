#include "studies/measure/built_in.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/tuner/choose.h"
#include "studies/measure/candidates.h"

namespace ibcoll::measure {
namespace {

/// Sizes at which the choice is looked at, so many in each power of two. Where costs are compared
/// it may change back and forth, by a byte, until one is clearly less: so near a change each size
/// counts.
constexpr int64_t kLargest = int64_t{1} << 40, kSteps = 64, kNear = 4096;

/// Of one collective.
class OwnChoices {
 public:
  OwnChoices(Collective collective, const Shape& shape, bool costs_cores)
      : collective_(collective), shape_(shape), costs_cores_(costs_cores) {}

  CallFacts facts(int64_t bytes) const {
    return {.collective = collective_,
            .shape = shape_,
            .block_bytes = size_to_choose_by(collective_, bytes),
            .costs_cores = costs_cores_};
  }
  Rule at(int64_t bytes) const {
    const CallFacts of = facts(bytes);
    const Choice choice = choose(of);
    Rule rule;
    rule.collective = collective_;
    rule.algorithm = find_algorithm(collective_, choice.algorithm).value();
    if (rule.algorithm->paced) rule.pacing = choice.options.pacing;
    if (choice.pieces != choose_pieces(*rule.algorithm, of)) rule.pieces = choice.pieces;
    return rule;
  }
  /// Sizes whose choice is not that of one byte less.
  std::set<int64_t> changes() const {
    std::set<int64_t> found;
    int64_t before = 0;
    for (int64_t power = 1; power < kLargest; power *= 2) {
      for (int64_t step = 0; step < kSteps; ++step) {
        const int64_t size = power + power * step / kSteps;
        look_between(before, at(before), size, at(size), found);
        before = size;
      }
    }
    for (const int64_t change : std::set(found)) {
      int64_t size = std::max<int64_t>(0, change - kNear);
      for (Rule last = at(size); size < change + kNear;) {
        Rule next = at(++size);
        if (!same_choice(last, next)) found.insert(size);
        last = std::move(next);
      }
    }
    return found;
  }

 private:
  void look_between(int64_t low, const Rule& of_low, int64_t high, const Rule& of_high,
                    std::set<int64_t>& found) const {
    if (high == low || same_choice(of_low, of_high)) return;
    if (high - low == 1) {
      found.insert(high);
      return;
    }
    const int64_t middle = low + (high - low) / 2;
    const Rule of_middle = at(middle);
    look_between(low, of_low, middle, of_middle, found);
    look_between(middle, of_middle, high, of_high, found);
  }

  Collective collective_;
  const Shape& shape_;
  bool costs_cores_;
};

std::string note_on(const CallFacts& facts) {
  std::string note = describe(row_for(facts).when);
  const std::string_view planned = choose(facts).planned;
  if (!planned.empty()) note += fmt::format("; {} where a plan for the network pays", planned);
  return note;
}

}  // namespace

RuleSection built_in_rules(const RulesJob& job, const Shape& shape, bool costs_cores,
                           std::vector<std::string>& notes) {
  RuleSection section;
  section.job = job;
  notes.clear();
  for (const Collective collective : kCollectives) {
    if (has_graph(collective)) continue;
    const OwnChoices own(collective, shape, costs_cores);
    int64_t from = 0;
    const auto add = [&](int64_t to) {
      Rule rule = own.at(from);
      rule.from = from;
      rule.to = to;
      section.rules.push_back(std::move(rule));
      notes.push_back(note_on(own.facts(from)));
    };
    if (has_sizes(collective)) {
      for (const int64_t change : own.changes()) {
        add(change - 1);
        from = change;
      }
    }
    add(INT64_MAX);
  }
  return section;
}

}  // namespace ibcoll::measure
