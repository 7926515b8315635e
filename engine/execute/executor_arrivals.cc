// How the executor serves who makes calls because mails arrive.

#include "engine/execute/arrival_runs.h"
#include "engine/execute/executor.h"

namespace ibcoll {

void Executor::serve(ArrivalRuns* runs) {
  runs_ = runs;
  told_ = 0;
  mailroom_.serve(runs);
}

/// A death is not told where it is found, amid operations of calls: the runs may end these.
bool Executor::runs_are_busy() const { return runs_->busy() || told_ < survived_.size(); }

/// One round; `moved`: whether anything has moved in it so far, as the result says for what
/// follows. On a single server the queue of mails is looked at only here, and where waits take
/// long.
bool Executor::advance_runs(bool moved) {
  if (network_ == nullptr) moved |= mailroom_.take_local_mails(Mailroom::kMailsAtOnce);
  while (told_ < survived_.size()) {
    const Failure death = survived_[told_++];  // a copy: there may be another one meanwhile
    runs_->lost(death.culprit, death);
    moved = true;
  }
  if (runs_->busy()) moved |= runs_->advance();
  if (moved && network_ != nullptr) network_->flush();
  return moved;
}

}  // namespace ibcoll
