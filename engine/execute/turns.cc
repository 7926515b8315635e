#include "engine/execute/turns.h"

namespace ibcoll {

void Turns::line_up(Place& place) {
  place.next_ = nullptr;
  place.in_line_ = true;
  place.has_turn_ = false;
  (first_ == nullptr ? first_ : last_->next_) = &place;
  last_ = &place;
  in_line_.fetch_add(1, std::memory_order_relaxed);
}

void Turns::pass_on() {
  if (first_ == nullptr) {
    taken_ = false;
    return;
  }
  Place& next = *first_;
  first_ = next.next_;
  in_line_.fetch_sub(1, std::memory_order_relaxed);
  next.in_line_ = false;
  next.has_turn_ = true;
  next.come_.notify_one();  // under the lock: the place may be gone as soon as that is free
}

void Turns::await(Place& place, std::unique_lock<std::mutex>& lock) {
  while (!place.has_turn_) place.come_.wait(lock);
}

void Turns::take() {
  std::unique_lock lock(mutex_);
  if (!taken_) {
    taken_ = true;
    return;
  }
  Place own;
  line_up(own);
  await(own, lock);
}

void Turns::give() {
  const std::lock_guard lock(mutex_);
  pass_on();
}

void Turns::let_others_in() {
  std::unique_lock lock(mutex_);
  if (first_ == nullptr) return;
  Place own;
  line_up(own);
  pass_on();
  await(own, lock);
}

void Turns::rest(Place& place) {
  std::unique_lock lock(mutex_);
  place.has_turn_ = false;  // nobody has recalled it yet: that takes the turn
  pass_on();
  await(place, lock);
}

void Turns::nap(Place& place, std::chrono::nanoseconds longest) {
  std::unique_lock lock(mutex_);
  place.has_turn_ = false;
  pass_on();
  const auto until = std::chrono::steady_clock::now() + longest;
  const auto recalled = [&place] { return place.has_turn_ || place.in_line_; };
  if (!place.come_.wait_until(lock, until, recalled)) {
    if (!taken_) {
      taken_ = true;
      return;
    }
    line_up(place);
  }
  await(place, lock);
}

void Turns::recall(Place& place) {
  const std::lock_guard lock(mutex_);
  if (!place.in_line_) line_up(place);  // the time may be over of one that naps
}

}  // namespace ibcoll
