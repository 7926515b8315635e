#include "engine/execute/job_end.h"

#include <algorithm>

#include "engine/base/thread_end.h"
#include "engine/execute/waits.h"

namespace ibcoll {

void JobEnd::abort(const Failure& failure) {
  bootstrap_.abort(failure);
  // Somebody else's failure may have been first: every survivor names that one, unless the job goes
  // on after it.
  const std::optional<Failure> first = bootstrap_.failure();
  const bool went_on = first && deaths_.survives(*first);
  // How that rank died stands beside the record, which tells of the first failure only.
  const bool died = went_on && failure.code == ErrorCode::kRankDied;
  const std::optional<Failure> end = died ? bootstrap_.end_of(failure.culprit) : std::nullopt;
  end_with(first && !went_on ? *first : end.value_or(failure));
  // The job's record tells of the first failure only: those that wait for this rank learn that it
  // has left.
  if (went_on && error_) bootstrap_.set_gone();
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
