#include "engine/multicast/delivery_order.h"

#include <algorithm>

namespace ibcoll {

/// The first pending message that is not before `counter`.
std::vector<DeliveryOrder::Pending>::iterator DeliveryOrder::find(Master& master,
                                                                  uint64_t counter) {
  return std::lower_bound(
      master.pending.begin(), master.pending.end(), counter,
      [](const Pending& pending, uint64_t wanted) { return pending.counter < wanted; });
}

bool DeliveryOrder::announce(Rank master, uint64_t counter, uint64_t previous) {
  Master& known = masters_[master];
  if (counter <= known.done) return false;
  const auto at = find(known, counter);
  if (at != known.pending.end() && at->counter == counter) return false;
  known.pending.insert(at, {counter, previous, State::kAnnounced});
  return true;
}

void DeliveryOrder::complete(Rank master, uint64_t counter, std::vector<MessageName>& ready) {
  const auto found = masters_.find(master);
  if (found == masters_.end()) return;
  Master& known = found->second;
  const auto at = find(known, counter);
  if (at == known.pending.end() || at->counter != counter) return;
  if (at->state != State::kAnnounced) return;
  at->state = State::kComplete;
  advance(master, known, ready);
}

void DeliveryOrder::skip(Rank master, uint64_t counter, uint64_t previous,
                         std::vector<MessageName>& ready) {
  Master& known = masters_[master];
  if (counter <= known.done) return;
  const auto at = find(known, counter);
  if (at != known.pending.end() && at->counter == counter) {
    at->state = State::kSkipped;
  } else {
    known.pending.insert(at, {counter, previous, State::kSkipped});
  }
  advance(master, known, ready);
}

/// Hands over from the front what waits for nothing. What stands in front has no earlier one that
/// was announced; one that was not is its `previous`, or lies before that.
void DeliveryOrder::advance(Rank rank, Master& master, std::vector<MessageName>& ready) {
  auto at = master.pending.begin();
  for (; at != master.pending.end(); ++at) {
    if (at->state == State::kAnnounced || (at->previous > master.done && !master.lost)) break;
    if (at->state == State::kComplete) ready.emplace_back(rank, at->counter);
    master.done = at->counter;
  }
  master.pending.erase(master.pending.begin(), at);
}

void DeliveryOrder::lose(Rank master, std::vector<MessageName>& ready) {
  Master& known = masters_[master];
  known.lost = true;
  advance(master, known, ready);
}

bool DeliveryOrder::is_next(Rank master, uint64_t previous) const {
  if (previous == 0) return true;
  const auto found = masters_.find(master);
  return found != masters_.end() && (found->second.done >= previous || found->second.lost);
}

bool DeliveryOrder::knows(Rank master, uint64_t counter) const {
  if (counter == 0) return true;
  const auto found = masters_.find(master);
  if (found == masters_.end()) return false;
  if (found->second.lost) return true;
  const std::vector<Pending>& pending = found->second.pending;
  return counter <= found->second.done ||
         std::any_of(pending.begin(), pending.end(),
                     [&](const Pending& one) { return one.counter == counter; });
}

size_t DeliveryOrder::remembered() const {
  size_t messages = masters_.size();
  for (const auto& [rank, master] : masters_) messages += master.pending.size();
  return messages;
}

}  // namespace ibcoll
