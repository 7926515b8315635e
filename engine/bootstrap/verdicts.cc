#include "engine/bootstrap/verdicts.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/base/pages.h"
#include "engine/sharing/robust_mutex.h"

namespace ibcoll {
namespace {

/// Questions are forgotten once all living ranks have their answers; a death may prevent that.
constexpr size_t places_for(size_t ranks) { return 64 + 4 * std::min<size_t>(ranks, 1024); }

}  // namespace

struct Verdicts::Place {
  enum class State : uint64_t { kProposed, kPassedOn, kGiven, kForgotten };
  uint64_t question;  ///< 0: it is free
  int64_t answer;     ///< or what is proposed
  State state;
};

/// Guarded by the mutex. The question is written last, and an answer before its state, so a rank
/// that dies inside leaves no half of an answer.
struct Verdicts::Control {
  RobustMutex mutex;
  alignas(64) Place places[1];  ///< as many as there is room for
};

size_t Verdicts::bytes(size_t job_ranks) {
  return round_up(sizeof(Control) + places_for(job_ranks) * sizeof(Place), 64);
}

void Verdicts::prepare(std::byte* memory) { reinterpret_cast<Control*>(memory)->mutex.prepare(); }

Verdicts::Verdicts(std::byte* memory, size_t job_ranks)
    : control_(reinterpret_cast<Control*>(memory)), places_(places_for(job_ranks)) {}

Verdicts::Place* Verdicts::place_of(uint64_t question) const {
  Place* free = nullptr;
  for (Place& place : std::span(control_->places, places_)) {
    if (place.question == question) return &place;
    if (place.question == 0 && free == nullptr) free = &place;
  }
  return free;
}

Result<std::optional<int64_t>> Verdicts::settle(const Verdict& mine, Given given) {
  const RobustMutex::Lock lock(control_->mutex);
  Place* const place = place_of(mine.question);
  if (place == nullptr) {
    return fail(ErrorCode::kNoMemory, "the ranks of this job shrink more than {} groups at once",
                places_);
  }
  const bool known = place->question != 0, here = given == Given::kHere;
  using State = Place::State;
  // What is forgotten here has been given before, and comes back from who has not heard of that.
  if (known && (place->state == State::kGiven || (place->state == State::kForgotten && here)))
    return std::optional(place->answer);
  if (!known || here) place->answer = mine.answer;
  keep_order();
  if (here)
    place->state = State::kGiven;
  else if (!known)
    place->state = State::kProposed;
  keep_order();
  place->question = mine.question;
  return here ? std::optional(mine.answer) : std::nullopt;
}

std::optional<int64_t> Verdicts::find(uint64_t question) const {
  const RobustMutex::Lock lock(control_->mutex);
  for (const Place& place : std::span(control_->places, places_))
    if (place.question == question && place.state == Place::State::kGiven) return place.answer;
  return std::nullopt;
}

void Verdicts::forget(uint64_t question, Given given) {
  const RobustMutex::Lock lock(control_->mutex);
  for (Place& place : std::span(control_->places, places_)) {
    if (place.question != question) continue;
    if (given == Given::kHere)
      place.question = 0;
    else
      place.state = Place::State::kForgotten;
  }
}

std::vector<Verdict> Verdicts::take_questions() {
  const RobustMutex::Lock lock(control_->mutex);
  std::vector<Verdict> taken;
  for (Place& place : std::span(control_->places, places_)) {
    if (place.question == 0 || place.state != Place::State::kProposed) continue;
    taken.push_back({place.question, place.answer});
    place.state = Place::State::kPassedOn;
  }
  return taken;
}

void Verdicts::ask_again() {
  const RobustMutex::Lock lock(control_->mutex);
  for (Place& place : std::span(control_->places, places_))
    if (place.question != 0 && place.state == Place::State::kPassedOn)
      place.state = Place::State::kProposed;
}

std::vector<uint64_t> Verdicts::take_forgotten() {
  const RobustMutex::Lock lock(control_->mutex);
  std::vector<uint64_t> taken;
  for (Place& place : std::span(control_->places, places_)) {
    if (place.question != 0 && place.state == Place::State::kForgotten)
      taken.push_back(std::exchange(place.question, 0));
  }
  return taken;
}

std::vector<Verdict> Verdicts::given() const {
  const RobustMutex::Lock lock(control_->mutex);
  std::vector<Verdict> given;
  for (const Place& place : std::span(control_->places, places_))
    if (place.question != 0 && place.state == Place::State::kGiven)
      given.push_back({place.question, place.answer});
  return given;
}

}  // namespace ibcoll
