#pragma once
/// How a wait spends the time in which nothing moves: it spins while an answer may come within
/// microseconds, then lets other threads and processes run, then sleeps.

#include <sched.h>

#include <cstdint>

#include "engine/base/clock.h"
#include "engine/sharing/test_hooks.h"

namespace ibcoll {

class Idling {
 public:
  /// The longest sleep, after which peers' health is looked at again.
  static constexpr int64_t kSleepNs = 50'000'000;
  /// The same where the network can't wake a sleeper.
  static constexpr int64_t kNapNs = 200'000;

  enum class Next : uint8_t { kSpin, kYield, kSleep };
  enum class Manner : uint8_t {
    kSpin,   ///< at first
    kYield,  ///< at first: more ranks than cores
    kSleep,  ///< at once: nobody waits for the result
  };
  explicit Idling(Manner manner)
      : spins_(manner == Manner::kSpin ? kSpins : 0), sleeps_(manner == Manner::kSleep) {}

  void moved() {
    rounds_ = 0;
    since_ns_ = 0;
  }
  /// What to do after a round in which nothing has moved.
  Next next() {
    if (++rounds_ <= spins_) return Next::kSpin;
    if ((rounds_ - spins_) % kYieldsBetweenClocks != 0 && !sleeps_) return Next::kYield;
    const int64_t now = now_ns();
    if (since_ns_ == 0) since_ns_ = now;
    waited_ns_ = now - since_ns_;
    return waited_ns_ < kYieldNs && !sleeps_ ? Next::kYield : Next::kSleep;
  }
  /// Whether the host of this process is to move on in this round: seldom enough while it spins
  /// that nothing comes later for it.
  bool hosts_turn(Next next) const {
    if (next == Next::kSleep) return true;
    return rounds_ % (next == Next::kSpin ? kSpinsOfHost : kYieldsOfHost) == 0;
  }
  /// After a sleep the clock is looked at in the next round already.
  void slept() { rounds_ -= 1; }
  /// How long nothing has moved, as of the latest kSleep.
  int64_t waited_ns() const { return waited_ns_; }

 private:
  IBCOLL_LIMIT(int, kSpins, 2000);
  IBCOLL_LIMIT(int, kYieldsBetweenClocks, 32);
  static constexpr int kSpinsOfHost = 128, kYieldsOfHost = 4;
  IBCOLL_LIMIT(int64_t, kYieldNs, 2'000'000);

  const int spins_;
  const bool sleeps_;
  int rounds_ = 0;
  int64_t since_ns_ = 0, waited_ns_ = 0;
};

}  // namespace ibcoll
