#include "engine/core/verdicts.h"

#include <span>

#include "engine/base/pages.h"
#include "engine/sharing/robust_mutex.h"

namespace ibcoll {
namespace {

/// Questions are forgotten once all living ranks have their answers; a death may prevent that.
constexpr size_t places_for(size_t ranks) { return 64 + 4 * ranks; }

}  // namespace

/// Guarded by the mutex. The question is written last, so a rank that dies inside leaves no half of
/// an answer.
struct Verdicts::Control {
  struct Place {
    uint64_t question;  ///< 0: it is free
    int64_t verdict;
  };
  RobustMutex mutex;
  alignas(64) Place places[1];  ///< as many as there is room for
};

size_t Verdicts::bytes(size_t ranks) {
  return round_up(sizeof(Control) + places_for(ranks) * sizeof(Control::Place), 64);
}

void Verdicts::prepare(std::byte* memory) { reinterpret_cast<Control*>(memory)->mutex.prepare(); }

Verdicts::Verdicts(std::byte* memory, size_t ranks)
    : control_(reinterpret_cast<Control*>(memory)), places_(places_for(ranks)) {}

Result<int64_t> Verdicts::settle(uint64_t question, int64_t proposal) {
  const RobustMutex::Lock lock(control_->mutex);
  Control::Place* free = nullptr;
  for (Control::Place& place : std::span(control_->places, places_)) {
    if (place.question == question) return place.verdict;
    if (place.question == 0 && free == nullptr) free = &place;
  }
  if (free == nullptr) {
    return fail(ErrorCode::kNoMemory,
                "the ranks of this machine shrink more than {} groups at once", places_);
  }
  free->verdict = proposal;
  keep_order();
  free->question = question;
  return proposal;
}

std::optional<int64_t> Verdicts::find(uint64_t question) const {
  const RobustMutex::Lock lock(control_->mutex);
  for (const Control::Place& place : std::span(control_->places, places_))
    if (place.question == question) return place.verdict;
  return std::nullopt;
}

void Verdicts::forget(uint64_t question) {
  const RobustMutex::Lock lock(control_->mutex);
  for (Control::Place& place : std::span(control_->places, places_))
    if (place.question == question) place.question = 0;
}

}  // namespace ibcoll
