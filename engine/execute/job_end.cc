#include "engine/execute/job_end.h"

#include <algorithm>

#include "engine/base/thread_end.h"
#include "engine/execute/waits.h"

namespace ibcoll {

void JobEnd::note_deaths() {
  const uint32_t noted = bootstrap_.ends_noted();
  if (noted == noted_) return;
  const std::vector<Rank> ended = bootstrap_.ended();
  // In this order: ranks that end because the job is over have not died.
  if (const auto first = bootstrap_.failure(); first && !deaths_.survives(*first)) return;
  noted_ = noted;
  for (const Rank rank : ended)
    if (const auto end = bootstrap_.end_of(rank)) (void)deaths_.survives(*end);
}

void JobEnd::abort(const Failure& reported) {
  Failure failure = reported;
  // What goes wrong because a rank has died, as may be known by now, is none of the job's.
  // Once the job is over ranks leave, which is no death.
  if (const auto first = bootstrap_.failure(); !first || deaths_.survives(*first)) {
    note_deaths();
    if (const auto end = bootstrap_.end_of(failure.culprit)) (void)deaths_.survives(*end);
    if (failure.error_code() == ErrorCode::kPeerFailed && deaths_.include(failure.culprit)) return;
  }
  // Others would take it for a death, and go on, once that rank has left because of this.
  if (failure.code == ErrorCode::kRankDied && deaths_.deny(failure.culprit))
    failure.code = ErrorCode::kPeerFailed;
  // After a death ranks leave alone: whoever is gone may have died, too.
  if (!deaths_.known().empty() && failure.code == ErrorCode::kPeerFailed && failure.culprit >= 0 &&
      (bootstrap_.has_left(failure.culprit) || bootstrap_.is_leaving(failure.culprit))) {
    failure.code = ErrorCode::kRankDied;
    if (deaths_.survives(failure)) return;
  }
  bootstrap_.abort(failure);
  // Somebody else's failure may have been first: every survivor names that one, unless the job goes
  // on after it.
  std::optional<Failure> first = bootstrap_.failure();
  if (!first || deaths_.survives(*first)) {
    note_deaths();
    // How that rank died stands beside the record, which tells of the first failure only.
    const std::optional<Failure> death = failure.error_code() == ErrorCode::kPeerFailed
                                             ? bootstrap_.end_of(failure.culprit)
                                             : std::nullopt;
    Failure end = death ? *death : failure;
    const bool gone = failure.error_code() == ErrorCode::kPeerFailed && !deaths_.known().empty() &&
                      bootstrap_.has_left(failure.culprit);
    if (gone) end.code = ErrorCode::kRankDied;
    if ((first || death || gone) && deaths_.survives(end)) return;
    if (first) bootstrap_.end_after_death(end);
    first = bootstrap_.failure();
  }
  end_with(first.value_or(failure));
}

void JobEnd::end_with(const Failure& failure) {
  if (error_) return;  // the calls that were under way may be gone
  if (deaths_.survives(failure)) return;
  const std::string place = calls_.started.empty() ? "" : describe(*calls_.started.front(), local_);
  const bool said = failure.what.find(place) != std::string::npos;
  error_ = {failure.error_code(), said ? failure.what : fmt::format("{}; {}", failure.what, place),
            Scope::kJob};
  has_come_.store(true, std::memory_order_release);
  withdraw_();
}

Error JobEnd::give_up(const Error& error) {
  if (!error_) {
    abort({bootstrap_.rank(), error.code,
           fmt::format("rank {}: {}", bootstrap_.rank(), error.message)});
  }
  return *error_;
}

void JobEnd::give_up_for_thread() {
  calls_.waiting = nullptr;
  give_up({ErrorCode::kPeerFailed,
           "a thread has ended inside a call, by pthread_exit in a function of the program's"});
}

void JobEnd::give_up_if_thread_ends() {
  if (thread_ends()) give_up_for_thread();
}

}  // namespace ibcoll
