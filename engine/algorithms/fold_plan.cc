#include "engine/algorithms/fold_plan.h"

#include "engine/schedule/rank_order.h"

namespace ibcoll {

FoldPlan::FoldPlan(const std::vector<bool>& apart, int own, bool ordered)
    : apart_(apart), own_(own), ordered_(ordered), landing_(apart.size()) {
  const int sources = static_cast<int>(apart.size());
  if (ordered || sources == 1) {
    combine(0, sources, 0);
    return;
  }
  take((own + sources - 1) % sources, 0);
  add(own, 0, false);
  for (int i = 2; i < sources; ++i) add((own + sources - i) % sources, 0, false);
}

/// Puts the combination of some sources into a place that nothing is in yet.
void FoldPlan::combine(int first, int end, uint32_t into) {
  if (end - first == 1) return take(first, into);
  const int middle = middle_of(first, end);
  if (middle - first == 1 && first == own_) {  // saves a copy
    combine(middle, end, into);
    return add(own_, into, true);
  }
  combine(first, middle, into);
  if (end - middle == 1) return add(middle, into, false);
  const uint32_t second = places_++;
  combine(middle, end, second);
  steps_.push_back({Step::Kind::kAddPlace, into, second});
}

void FoldPlan::take(int source, uint32_t into) {
  if (source != own_) landing_[source] = into;
  const auto kind = source == own_ ? Step::Kind::kCopyOwn : Step::Kind::kExpect;
  steps_.push_back({kind, into, static_cast<uint32_t>(source)});
}

/// Combines a source's data with what is in a place.
void FoldPlan::add(int source, uint32_t into, bool before) {
  if (source == own_) {
    steps_.push_back({Step::Kind::kAddOwn, into, 0, before});
  } else if (!ordered_ && !apart_[source]) {
    landing_[source] = into;
    steps_.push_back({Step::Kind::kExpectCombined, into, static_cast<uint32_t>(source), before});
  } else {
    const uint32_t landing = places_++;
    take(source, landing);
    steps_.push_back({Step::Kind::kAddPlace, into, landing, before});
  }
}

void FoldPlan::write(ProgramBuilder& program, std::span<const Rank> sources, Slice own,
                     Slice result, uint32_t scratch, const std::function<void(int)>& give) const {
  const int count = static_cast<int>(sources.size());
  int given = 0;
  const auto give_next = [&] {
    if (give && ++given < count) give((own_ + given) % count);
  };
  // What combines waits for all that stands before it in the lane, puts as well.
  if (ordered_) {
    for (int i = 1; i < count; ++i) give_next();
    for (const Step& step : steps_) {
      if (step.kind == Step::Kind::kExpect) write(step, program, sources, own, result, scratch);
    }
  }
  for (const Step& step : steps_) {
    const bool takes = step.kind == Step::Kind::kExpect || step.kind == Step::Kind::kExpectCombined;
    if (ordered_ && takes) continue;
    if (takes) give_next();
    write(step, program, sources, own, result, scratch);
  }
}

void FoldPlan::write(const Step& step, ProgramBuilder& program, std::span<const Rank> sources,
                     Slice own, Slice result, uint32_t scratch) const {
  const Slice into = place(step.into, result, scratch);
  const ProgramBuilder::Fold fold{ordered_, step.before};
  switch (step.kind) {
    case Step::Kind::kCopyOwn:
      return program.copy(into, own);
    case Step::Kind::kAddOwn:
      return program.reduce(into, own, fold);
    case Step::Kind::kExpect:
      return program.expect(sources[step.from], into);
    case Step::Kind::kExpectCombined:
      return program.expect_combined(sources[step.from], into, fold);
    case Step::Kind::kAddPlace:
      return program.reduce(into, place(step.from, result, scratch), fold);
  }
}

}  // namespace ibcoll
