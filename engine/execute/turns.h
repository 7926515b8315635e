#pragma once
/// Who of a context's threads may touch its engine: one at a time, in the order they came.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "engine/sharing/shared_access.h"

namespace ibcoll {

/// A lock that is handed over: who gives the turn up while others stand in line can't have it again
/// before they had it. Whoever has it sees with one load that others want it, so a thread that
/// polls for long lets them in between two rounds. Nobody spins.
class Turns {
 public:
  /// Where one thread stands in line, or rests beside it. On that thread's stack.
  class Place {
   public:
    Place() = default;
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    friend class Turns;
    std::condition_variable come_;
    Place* next_ = nullptr;
    bool in_line_ = false;
    bool has_turn_ = false;
  };

  Turns() = default;
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Waits for the turn.
  void take();
  // The rest is for the thread that has it.
  void give();
  /// Whether others stand in line.
  bool wanted() const { return in_line_.load(std::memory_order_relaxed) != 0; }
  /// Gives the turn to those in line, and takes it after them.
  void let_others_in();
  /// Gives the turn, and rests until somebody has called recall() and the turn has come.
  void rest(Place& place);
  /// The same, but stands in line by itself once so much time has passed.
  void nap(Place& place, std::chrono::nanoseconds longest);
  /// Puts a thread that rests or naps, or is about to, in line. Once a rest.
  void recall(Place& place);

 private:
  void line_up(Place& place);
  void pass_on();
  static void await(Place& place, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  bool taken_ = false;
  Place* first_ = nullptr;
  Place* last_ = nullptr;
  Shared<uint32_t> in_line_{0};
};

}  // namespace ibcoll
