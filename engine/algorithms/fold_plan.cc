#include "engine/algorithms/fold_plan.h"

#include <algorithm>

#include "engine/schedule/rank_order.h"

namespace ibcoll {

uint32_t FoldPlaces::scratch_places() const {
  if (sources_ <= 2) return 0;
  const int behind_the_first = sources_ - 2;
  if (ordered_) return static_cast<uint32_t>(behind_the_first);
  return static_cast<uint32_t>(behind_the_first - near(own_ + 1, behind_the_first));
}

// Places are numbered in the order in which they are first used. Ordered, that is the order of the
// sources, and the combining one's own data never has a place. Else the data of the source before
// it comes first, that of ranks of its server is combined as it is read, and the rest has a place
// each.
uint32_t FoldPlaces::number(int source) const {
  if (ordered_) return static_cast<uint32_t>(source - (source > own_ ? 1 : 0));
  const int distance = (own_ - source + sources_) % sources_;
  if (distance == 1 || near(source, 1) == 1) return 0;
  return static_cast<uint32_t>(distance - 1 - near(source + 1, distance - 2));
}

int FoldPlaces::near(int first, int count) const {
  if (all_near_) return count;
  const auto in = [this](int begin, int end) {
    return static_cast<int>(std::lower_bound(near_.begin(), near_.end(), end) -
                            std::lower_bound(near_.begin(), near_.end(), begin));
  };
  first %= sources_;
  const int end = first + count;
  return end <= sources_ ? in(first, end) : in(first, sources_) + in(0, end - sources_);
}

FoldPlan::FoldPlan(const std::vector<bool>& apart, int own, bool ordered)
    : apart_(apart), own_(own), ordered_(ordered) {
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
  const auto kind = source == own_ ? Step::Kind::kCopyOwn : Step::Kind::kExpect;
  steps_.push_back({kind, into, static_cast<uint32_t>(source)});
}

/// Combines a source's data with what is in a place.
void FoldPlan::add(int source, uint32_t into, bool before) {
  if (source == own_) {
    steps_.push_back({Step::Kind::kAddOwn, into, 0, before});
  } else if (!ordered_ && !apart_[source]) {
    steps_.push_back({Step::Kind::kExpectCombined, into, static_cast<uint32_t>(source), before});
  } else {
    const uint32_t landing = places_++;
    take(source, landing);
    steps_.push_back({Step::Kind::kAddPlace, into, landing, before});
  }
}

void FoldPlan::write(ProgramBuilder& program, RankSpan sources, Slice own, Slice result,
                     uint32_t scratch, const std::function<void(int)>& give) const {
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

void FoldPlan::write(const Step& step, ProgramBuilder& program, RankSpan sources, Slice own,
                     Slice result, uint32_t scratch) const {
  const Slice into = FoldPlaces::slice(step.into, result, scratch);
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
      return program.reduce(into, FoldPlaces::slice(step.from, result, scratch), fold);
  }
}

}  // namespace ibcoll
