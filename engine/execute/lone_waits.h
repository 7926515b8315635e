#pragma once
/// Waits of a program's only thread. See poll_for() for what a waiter says.

#include <sched.h>

#include <algorithm>
#include <cstdint>

#include "engine/base/clock.h"
#include "engine/execute/poll_for.h"

namespace ibcoll {

/// What both have in common.
class LoneWaiter {
 public:
  LoneWaiter(const WaitServices& services, const Completion& completion)
      : services_(services), completion_(completion) {}

  void after_round(bool) {}
  void yield() { sched_yield(); }
  bool serves_host() const { return true; }
  void serve_host() { services_.serve_host(); }
  /// True: the announcement that a thread of this rank sleeps still stands.
  bool sleep(uint32_t announced, int64_t limit_ns) {
    sleep_on(services_.bell, announced, limit_ns);
    return true;
  }

 protected:
  const WaitServices& services_;
  const Completion& completion_;
};

/// For a call of the program's.
class LoneWait : public LoneWaiter {
 public:
  using LoneWaiter::LoneWaiter;

  bool over() const { return completion_.done; }
  void look_after(int64_t waited_ns) {
    Health& health = services_.health;
    services_.under_way.waiting = &completion_;
    if (waited_ns < waited_ns_) next_report_ns_ = health.late_ns();  // something moved
    waited_ns_ = waited_ns;
    health.check(completion_.call, waited_ns, next_report_ns_);
  }
  int64_t longest_sleep_ns() const {
    const int64_t deadline = services_.health.deadline_ns();
    return deadline > 0 ? std::max<int64_t>(deadline - waited_ns_, 1) : Idling::kSleepNs;
  }

 private:
  int64_t waited_ns_ = INT64_MAX, next_report_ns_ = 0;
};

/// For what is no call, at most until some time.
class PatientWait : public LoneWaiter {
 public:
  PatientWait(const WaitServices& services, const Completion& completion, int64_t until_ns)
      : LoneWaiter(services, completion), until_ns_(until_ns) {}

  bool over() const { return completion_.done || (until_ns_ != 0 && now_ns() >= until_ns_); }
  void look_after(int64_t) { services_.health.check_job(); }
  int64_t longest_sleep_ns() const {
    return until_ns_ == 0 ? Idling::kSleepNs : std::max<int64_t>(until_ns_ - now_ns(), 1);
  }

 private:
  int64_t until_ns_;
};

}  // namespace ibcoll
