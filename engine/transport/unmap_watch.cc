#include "engine/transport/unmap_watch.h"

#include <sched.h>

namespace ibcoll {

namespace {

class SpinGuard {
 public:
  explicit SpinGuard(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) sched_yield();
  }
  ~SpinGuard() { flag_.clear(std::memory_order_release); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  std::atomic_flag& flag_;
};

}  // namespace

void UnmapWatch::note(AddressRange range) {
  const SpinGuard guard(busy_);
  if (count_ < kRemembered)
    ranges_[count_++] = range;
  else
    overflow_ = true;
  any_.store(true, std::memory_order_release);
}

bool UnmapWatch::take(std::vector<AddressRange>& ranges) {
  // What the vector frees or gets could call back into note(): make room before locking.
  ranges.clear();
  ranges.reserve(kRemembered);
  const SpinGuard guard(busy_);
  ranges.assign(ranges_.begin(), ranges_.begin() + static_cast<std::ptrdiff_t>(count_));
  const bool all = !overflow_;
  count_ = 0;
  overflow_ = false;
  any_.store(false, std::memory_order_release);
  return all;
}

}  // namespace ibcoll
