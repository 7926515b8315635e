#pragma once
/// The loop of every wait. Included by those that wait only.

#include <algorithm>

#include "engine/base/pause.h"
#include "engine/execute/idling.h"
#include "engine/execute/wait_services.h"
#include "engine/sharing/bell.h"

namespace ibcoll {

/// Rounds of progress until the waiter is over or the job has ended. A waiter says
///   over()            whether it has what it waits for;
///   after_round(bool) what follows from a round, which moved something or not;
///   yield()           how other threads are let run;
///   look_after(ns)    what may keep it waiting for ever, when nothing has moved for so long;
///   longest_sleep_ns()    how long it may sleep then;
///   serves_host()    whether the host may be called from here;
///   serve_host()     calls it: what the waiter waits for may be over afterwards;
///   sleep(announced, ns)  how it sleeps on the bell; false: another thread has ended the sleep
///                         that was announced.
template <class Waiter>
void poll_for(const WaitServices& services, Waiter& waiter, Idling& idling) {
  Rounds& rounds = services.rounds;
  const JobEnd& end = services.end;
  while (!waiter.over()) {
    const bool moved = rounds.make();
    waiter.after_round(moved);
    if (moved) {
      idling.moved();
      continue;
    }
    if (end.has_come()) [[unlikely]]
      return;
    if (waiter.over()) return;
    const Idling::Next next = idling.next();
    const bool host = services.host.progress != nullptr && waiter.serves_host();
    if (host && idling.hosts_turn(next)) [[unlikely]] {
      waiter.serve_host();
      if (end.has_come() || waiter.over()) return;
    }
    switch (next) {
      case Idling::Next::kSpin:
        pause_core();
        continue;
      case Idling::Next::kYield:
        waiter.yield();
        continue;
      case Idling::Next::kSleep:
        break;
    }
    rounds.take_rare_mails();
    waiter.look_after(idling.waited_ns());
    if (end.has_come()) return;
    idling.slept();
    const uint32_t announced = announce_sleep(services.bell);
    const bool woken = rounds.can_be_woken(services.bell);
    bool stands = true;
    if (rounds.make_before_sleep()) {
      idling.moved();
      waiter.after_round(true);
    } else if (!waiter.over()) {
      // Nobody rings for what comes for the host.
      const int64_t longest = woken && !host ? Idling::kSleepNs : Idling::kNapNs;
      stands = waiter.sleep(announced, std::min(longest, waiter.longest_sleep_ns()));
    }
    if (stands) end_sleep(services.bell);
  }
}

}  // namespace ibcoll
