// How the executor serves who makes calls because mails arrive.

#include "engine/base/clock.h"
#include "engine/execute/arrival_runs.h"
#include "engine/execute/executor.h"
#include "engine/execute/poll_for.h"
#include "engine/execute/shared_waits.h"

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

/// The wait of a program's only thread for what is no call.
class Executor::PatientWait {
 public:
  PatientWait(Executor& executor, const Completion& completion, int64_t until_ns)
      : executor_(executor), completion_(completion), until_ns_(until_ns) {}

  bool over() const { return completion_.done || (until_ns_ != 0 && now_ns() >= until_ns_); }
  void after_round(bool) {}
  void yield() { sched_yield(); }
  bool serves_host() const { return true; }
  void serve_host() { executor_.host_.progress(executor_.host_.host); }
  void look_after(int64_t) { executor_.look_after_nothing(); }
  int64_t longest_sleep_ns() const {
    return until_ns_ == 0 ? Idling::kSleepNs : std::max<int64_t>(until_ns_ - now_ns(), 1);
  }
  bool sleep(uint32_t announced, int64_t limit_ns) {
    sleep_on(executor_.bell_, announced, limit_ns);
    return true;
  }

 private:
  Executor& executor_;
  const Completion& completion_;
  int64_t until_ns_;
};

Status Executor::wait(Completion& completion, int64_t until_ns) {
  if (shared_ != nullptr) [[unlikely]] {
    IBCOLL_TRY(shared_->wait(completion, until_ns));
  } else {
    PatientWait waiter(*this, completion, until_ns);
    Idling idling(manner());
    poll_for(waiter, idling);
  }
  // Where others take the core for long, the time is over before the wait has looked at anything:
  // one that is made of many short ones would never do.
  if (!completion.done && !end_.has_come()) look_after_nothing();
  return status();
}

/// At deaths and the job's end, where no call is waited for.
void Executor::look_after_nothing() {
  int64_t never = 0;
  health_.check(nullptr, 0, never);
}

}  // namespace ibcoll
