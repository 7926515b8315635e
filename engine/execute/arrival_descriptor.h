#pragma once
/// A file descriptor for programs that sleep in poll() or epoll: readable when something may have
/// moved.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "engine/sharing/bell.h"

namespace ibcoll {

/// An eventfd, and a thread that, when it is armed, sleeps on the rank's bell in the program's
/// place. It touches nothing else of the rank.
class ArrivalDescriptor {
 public:
  /// How often a program looks where the network can't wake a sleeper.
  static constexpr int64_t kNapNs = 1'000'000;

  /// The bell must outlive it.
  static Result<std::unique_ptr<ArrivalDescriptor>> create(Bell& bell);
  ~ArrivalDescriptor();
  ArrivalDescriptor(const ArrivalDescriptor&) = delete;
  ArrivalDescriptor& operator=(const ArrivalDescriptor&) = delete;

  int fd() const { return event_.get(); }
  /// From now on the descriptor becomes readable, once, when the bell rings, or after some time.
  /// `look` is called when the sleep has been announced: true if something has moved that the
  /// program should see first; it may set the longest time in nanoseconds. False: it is not armed,
  /// or need not be.
  template <class Look>
  bool arm(Look&& look) {
    const std::lock_guard lock(mutex_);
    drain();
    // Where it is armed still, the thread's sleep is announced already.
    const bool was_armed = armed_;
    const uint32_t announced = was_armed ? announced_ : announce_sleep(bell_);
    int64_t limit_ns = kNoLimit;
    const bool moved = look(limit_ns);
    if (was_armed) {
      if (limit_ns < limit_ns_) ring_slow(bell_);  // its sleep would be too long
      return !moved;
    }
    if (moved) {
      end_sleep(bell_);
      return false;
    }
    set(announced, limit_ns);
    return true;
  }
  /// A call has been started: one that was armed without any has no limit yet.
  void started();

 private:
  static constexpr int64_t kNoLimit = 3'600'000'000'000;

  ArrivalDescriptor(Bell& bell, UniqueFd event) : bell_(bell), event_(std::move(event)) {}
  void drain();
  void set(uint32_t announced, int64_t limit_ns);
  void run();

  Bell& bell_;
  UniqueFd event_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool armed_ = false, stop_ = false;
  uint32_t announced_ = 0;
  int64_t limit_ns_ = 0;
  std::thread thread_;
};

}  // namespace ibcoll
