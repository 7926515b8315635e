// Whose turn it is, and how time passes.

#include <algorithm>
#include <cstdlib>

#include "tests/lockstep/bed/machine.h"
#include "tests/lockstep/bed/state.h"

namespace ibcoll::lockstep {

int64_t g_accesses_left = INT64_MAX;

namespace {

constexpr int64_t kAccessNs = 2;
/// A wake-up that is late is so much later.
constexpr uint64_t kLatestWakeNs = 200'000;
/// No sleep on a word of shared memory needs to be as long.
constexpr int64_t kLongSleepNs = 40'000'000;
/// Turns without a change that others are kept waiting for by one that never yields.
constexpr uint64_t kTurnsOfOne = 1000;

}  // namespace

void Bed::State::begin_slice(Fiber& fiber) {
  Process& process = processes[static_cast<size_t>(fiber.process)];
  slice = 1 + static_cast<int64_t>(random.below(2 * conditions.accesses_in_a_row));
  if (!process.due.empty() && process.due.front().at > process.accesses)
    slice = std::min(slice, static_cast<int64_t>(process.due.front().at - process.accesses));
  g_accesses_left = slice;
  g_updates_left = process.due_by_update.empty()
                       ? INT64_MAX
                       : static_cast<int64_t>(process.due_by_update.front().at) - process.updates;
}

void Bed::State::end_slice() {
  if (slice == 0) return;
  Process& process = processes[static_cast<size_t>(running->process)];
  if (!process.due_by_update.empty())
    process.updates = static_cast<int64_t>(process.due_by_update.front().at) - g_updates_left;
  g_updates_left = INT64_MAX;
  const int64_t used = slice - std::max<int64_t>(g_accesses_left, 0);
  process.accesses += static_cast<uint64_t>(used);
  counts.accesses += static_cast<uint64_t>(used);
  now += used * kAccessNs + conditions.turn_ns;
  slice = g_accesses_left = 0;
}

void Bed::State::sort_fibers() {
  ready.clear();
  idle.clear();
  waiting.clear();
  for (const auto& owned : fibers) {
    Fiber& fiber = *owned;
    if (fiber.is == Fiber::Is::kEnded) continue;
    Process& process = processes[static_cast<size_t>(fiber.process)];
    if (process.stopped_until > now) continue;
    switch (fiber.is) {
      case Fiber::Is::kReady:
        ready.push_back(&fiber);
        break;
      case Fiber::Is::kYielded:
        (fiber.yielded_after == g_changes ? idle : ready).push_back(&fiber);
        break;
      default:
        if (fiber.wake_ns != 0 && fiber.wake_ns <= now) {
          ready.push_back(&fiber);
        } else {
          waiting.push_back(&fiber);
        }
    }
  }
}

Fiber* Bed::State::choose() {
  if (conditions.wakes_early && !waiting.empty() && random.one_in(1024)) {
    Fiber& early = *waiting[random.below(waiting.size())];
    early.woken = true;
    ++counts.early_wakes;
    return &early;
  }
  Fiber* chosen = ready[random.below(ready.size())];
  if (counts.accesses > kUnevenAccesses) return chosen;
  for (int i = 0; i < 12 && processes[static_cast<size_t>(chosen->process)].slow; ++i)
    chosen = ready[random.below(ready.size())];
  return chosen;
}

bool Bed::State::move_time() {
  int64_t next = INT64_MAX;
  bool running_somewhere = false;
  for (const auto& fiber : fibers) {
    if (fiber->is == Fiber::Is::kEnded) continue;
    running_somewhere = true;
    const int64_t stopped = processes[static_cast<size_t>(fiber->process)].stopped_until;
    if (stopped > now) {
      next = std::min(next, stopped);
    } else if (fiber->is == Fiber::Is::kWaiting && fiber->wake_ns != 0) {
      next = std::min(next, std::max(fiber->wake_ns, now));
    }
  }
  if (!events.empty()) next = std::min(next, std::max(events.begin()->first, now));
  if (!idle.empty()) {
    // Stores that nobody has seen yet are seen before anything else happens.
    for (const auto& fiber : fibers) {
      while (!fiber->delayed.empty()) show_some(*fiber);
    }
    next = std::min(next, now + idle_ns);
    idle_ns = std::min(2 * idle_ns, kLongestIdleNs);
    for (Fiber* const fiber : idle) fiber->yielded_after = g_changes - 1;
  }
  if (next == INT64_MAX) {
    if (running_somewhere) why_stuck = "all ranks wait, and nothing can wake them";
    return false;
  }
  if (conditions.must_be_woken && missed_wake(next)) {
    why_stuck = "all ranks sleep, and only time wakes one: a wake-up was lost";
    return false;
  }
  now = std::max(now, next);
  return true;
}

bool Bed::State::missed_wake(int64_t next) const {
  bool in_vain = false;
  for (const auto& fiber : fibers) {
    if (fiber->is == Fiber::Is::kEnded) continue;
    if (fiber->is != Fiber::Is::kWaiting || fiber->key == 0 || fiber->woken) return false;
    in_vain |= fiber->wake_ns == next && next - fiber->since_ns > kLongSleepNs;
  }
  return in_vain && events.empty();
}

void Bed::State::run_events() {
  while (!events.empty() && events.begin()->first <= now) {
    const auto event = std::move(events.begin()->second);
    events.erase(events.begin());
    event();
  }
}

void Bed::State::run() {
  uint64_t changes = g_changes;
  uint64_t turns = 0;  // without a change
  for (uint64_t round = 0;; ++round) {
    run_events();
    if (round % 64 == 0 && bed->between) bed->between();
    if (counts.accesses > kMostAccesses || now > kMostNs * conditions.patience()) {
      why_stuck = "the job does not end";
      return;
    }
    sort_fibers();
    if (ready.empty()) {
      if (!move_time()) return;
      continue;
    }
    if (g_changes != changes) {
      changes = g_changes;
      idle_ns = kFirstIdleNs;
      turns = 0;
    }
    // Who looks and looks without giving its core away does not keep it for ever.
    if (++turns % kTurnsOfOne == 0) {
      for (Fiber* const fiber : idle) fiber->yielded_after = g_changes - 1;
    }
    resume(*choose());
  }
}

void decide() {
  if (!machine::in_fiber()) {  // the launcher's own accesses
    g_accesses_left = INT64_MAX;
    return;
  }
  Bed::State& bed = state();
  bed.end_slice();
  bed.disturb();
  if (g_has_delayed && bed.random.one_in(bed.conditions.store_patience)) bed.show_some(self());
  self().is = Fiber::Is::kReady;
  bed.leave();
}

namespace machine {

void yield() {
  show_stores();
  Fiber& fiber = self();
  state().end_slice();
  state().disturb();
  fiber.is = Fiber::Is::kYielded;
  fiber.yielded_after = g_changes;
  state().leave();
}

void sleep_until(int64_t ns) {
  Bed::State& bed = state();
  ns -= bed.processes[static_cast<size_t>(self().process)].clock_ahead;
  int64_t late = static_cast<int64_t>(bed.random.below(2000));
  if (bed.random.one_in(8)) late = static_cast<int64_t>(bed.random.below(1'000'000));
  wait_on(0, std::max(ns, bed.now + 1) + late);
}

bool wait_on(uint64_t key, int64_t until_ns) {
  show_stores();
  Fiber& fiber = self();
  state().end_slice();
  state().disturb();
  fiber.is = Fiber::Is::kWaiting;
  fiber.key = key;
  fiber.wake_ns = until_ns;
  fiber.since_ns = state().now;
  fiber.woken = false;
  state().leave();
  fiber.key = 0;
  return fiber.woken;
}

int wake(uint64_t key, int most) {
  Bed::State& bed = state();
  int woken = 0;
  // In any order.
  const size_t count = bed.fibers.size(), begin = bed.random.below(count);
  for (size_t i = 0; i < count && woken < most; ++i) {
    Fiber& fiber = *bed.fibers[(begin + i) % count];
    if (fiber.is != Fiber::Is::kWaiting || fiber.key != key || fiber.woken) continue;
    fiber.woken = true;
    ++woken;
    if (bed.conditions.late_wakes != 0 && bed.random.one_in(bed.conditions.late_wakes)) {
      ++bed.counts.late_wakes;
      const int64_t later = bed.now + 1 + static_cast<int64_t>(bed.random.below(kLatestWakeNs));
      fiber.wake_ns = fiber.wake_ns == 0 ? later : std::min(fiber.wake_ns, later);
    } else {
      fiber.is = Fiber::Is::kReady;
    }
  }
  if (woken != 0) ++g_changes;
  return woken;
}

}  // namespace machine

}  // namespace ibcoll::lockstep
