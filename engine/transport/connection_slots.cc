#include "engine/transport/connection_slots.h"

#include <algorithm>
#include <memory>

#include "engine/base/clock.h"

namespace ibcoll {

ConnectionSlots::ConnectionSlots(Rank me, int ranks, uint32_t most, Network& network)
    : me_(me), most_(std::max(most, 1u)), network_(network) {
  pairs_.resize(static_cast<size_t>(ranks));
}

ConnectionSlots::Pair& ConnectionSlots::pair(Rank peer) {
  const auto number = static_cast<size_t>(peer);
  if (Pair* const known = pairs_.find(number)) return *known;
  return pairs_.put(number, std::make_unique<Pair>(peer));
}

bool ConnectionSlots::may_send(Rank peer) {
  Pair& pair = this->pair(peer);
  if (pair.state == State::kOpen) [[likely]]
    return true;
  // Of one that is about to be closed nothing is kept: it is asked for again once it is.
  if (pair.state != State::kClosing) pair.wanted = true;
  if (pair.state == State::kClosed) {
    if (me_ < peer) {
      line_up(pair);
    } else {
      pair.state = State::kAsked;
      tell_later(pair, Word::kAsk);
    }
    network_.wake();
  }
  return false;
}

bool ConnectionSlots::received(Rank peer) {
  Pair& pair = this->pair(peer);
  if (pair.state != State::kOpen && pair.state != State::kClosing) return false;
  touch(pair);
  return !pair.peer_closes;
}

bool ConnectionSlots::heard(Rank peer, Word word) {
  Pair& pair = this->pair(peer);
  const bool lower = me_ < peer;
  // Who asks for another connection has seen the end of the one before. (Over verbs that is known
  // by the count of connections before.)
  const bool is_over = pair.state == State::kClosing && pair.peer_closes && pair.untold == Word{};
  if (is_over && (word == Word::kAsk || word == Word::kOffer)) end(pair);
  switch (word) {
    case Word::kAsk:
      if (!lower || pair.state == State::kOpen || pair.state == State::kClosing) return false;
      if (pair.state == State::kClosed) line_up(pair);
      return true;
    case Word::kOffer:
      if (lower || (pair.state != State::kClosed && pair.state != State::kAsked)) return false;
      pair.untold = Word{};
      line_up(pair);
      return true;
    case Word::kAccept:
      if (pair.state != State::kHeld || pair.untold != Word{}) return false;
      open(pair);
      return true;
    case Word::kClose:
      if ((pair.state != State::kOpen && pair.state != State::kClosing) || pair.peer_closes)
        return false;
      pair.peer_closes = true;
      if (!end_if_over(pair)) do_later(pair);
      return true;
  }
  return false;
}

bool ConnectionSlots::has_slot(Rank peer) const {
  const Pair* const pair = pairs_.find(static_cast<size_t>(peer));
  return pair != nullptr && pair->state >= State::kHeld;
}

bool ConnectionSlots::is_closed_by(Rank peer) const {
  const Pair* const pair = pairs_.find(static_cast<size_t>(peer));
  return pair != nullptr && pair->peer_closes;
}

bool ConnectionSlots::is_kept(Pair& pair) {
  if (!pair.is_ready) {
    if (!network_.is_ready(pair.peer)) return true;
    pair.is_ready = true;
    pair.since = round_;
    pair.since_ns = now_ns();
  }
  return pair.wanted && (round_ - pair.since <= kKeptRounds || now_ns() - pair.since_ns < kKeptNs);
}

void ConnectionSlots::line_up(Pair& pair) {
  pair.state = State::kInLine;
  line_.push_back(&pair);
}

void ConnectionSlots::tell_later(Pair& pair, Word word) {
  pair.untold = word;
  do_later(pair);
}

void ConnectionSlots::do_later(Pair& pair) {
  if (pair.in_to_do) return;
  pair.in_to_do = true;
  to_do_.push_back(&pair);
}

void ConnectionSlots::open(Pair& pair) {
  pair.state = State::kOpen;
  pair.is_ready = false;
  pair.use = by_use_.insert(by_use_.end(), &pair);
}

/// Nothing is sent from now on; the peer is told once all has arrived.
void ConnectionSlots::close(Pair& pair) {
  pair.state = State::kClosing;
  pair.since_ns = now_ns();
  pair.wanted = false;
  ++closing_;
  tell_later(pair, Word::kClose);
}

void ConnectionSlots::end(Pair& pair) {
  by_use_.erase(pair.use);
  pair.state = State::kClosed;
  pair.peer_closes = false;
  --closing_;
  --taken_;
  ++closed_;
  network_.ended(pair.peer);
}

void ConnectionSlots::lose(Rank peer) {
  Pair* const pair = pairs_.find(static_cast<size_t>(peer));
  if (pair == nullptr || pair->state == State::kClosed) return;
  if (pair->state == State::kInLine) line_.remove(pair);
  if (pair->state >= State::kOpen) by_use_.erase(pair->use);
  if (pair->state == State::kClosing) --closing_;
  if (pair->state >= State::kHeld) --taken_;
  if (pair->in_to_do) std::erase(to_do_, pair);
  pair->state = State::kClosed;
  pair->untold = Word{};
  pair->peer_closes = pair->in_to_do = pair->wanted = false;
  network_.wake();  // others may wait for the slot
}

bool ConnectionSlots::advance_all() {
  ++round_;
  bool again = see_to_all();
  again |= make_room();
  again |= see_to_all();
  return again || (taken_ < most_ && !line_.empty());
}

/// True: a round will come in which there is more to do.
bool ConnectionSlots::see_to_all() {
  bool again = false;
  for (size_t i = 0; i < to_do_.size();) {
    Pair& pair = *to_do_[i];
    again |= see_to(pair);
    if (pair.untold == Word{} && !pair.peer_closes) {
      pair.in_to_do = false;
      to_do_[i] = to_do_.back();
      to_do_.pop_back();
    } else {
      ++i;
    }
  }
  return again;
}

bool ConnectionSlots::see_to(Pair& pair) {
  if (pair.peer_closes && pair.state == State::kOpen) {
    if (is_kept(pair)) return true;
    close(pair);
  }
  const bool closing = pair.state == State::kClosing;
  if (closing && !network_.has_arrived(pair.peer)) return false;
  if (pair.untold != Word{}) {
    if (!network_.tell(pair.peer, pair.untold)) return false;
    pair.untold = Word{};
    if (pair.state == State::kGranted) open(pair);
  }
  (void)end_if_over(pair);
  return false;
}

/// Ends a connection of which both ends have told that they close it.
bool ConnectionSlots::end_if_over(Pair& pair) {
  if (pair.state != State::kClosing || !pair.peer_closes || pair.untold != Word{} ||
      !network_.has_arrived(pair.peer))
    return false;
  end(pair);
  return true;
}

/// Connections that are being closed, without those whose peers are late.
size_t ConnectionSlots::closing_in_time() const {
  if (closing_ == 0) return 0;
  const int64_t late_ns = now_ns() - kLateNs;
  return static_cast<size_t>(std::ranges::count_if(by_use_, [late_ns](const Pair* pair) {
    return pair->state == State::kClosing && pair->since_ns > late_ns;
  }));
}

/// Gives the slots that are free to those in line, and closes connections for the others. True: a
/// round will come in which more can be closed.
bool ConnectionSlots::make_room() {
  bool again = false;
  while (taken_ < most_ && !line_.empty()) {
    Pair& pair = *line_.front();
    line_.pop_front();
    ++taken_;
    const bool lower = me_ < pair.peer;
    pair.state = lower ? State::kHeld : State::kGranted;
    tell_later(pair, lower ? Word::kOffer : Word::kAccept);
  }
  if (line_.empty()) return again;
  // Not all at once, however many wait: what is open is in use.
  const size_t wanted = std::min<size_t>(line_.size(), std::max(most_ / 4, 1u));
  size_t closing = closing_in_time();
  for (auto at = by_use_.begin(); at != by_use_.end() && closing < wanted; ++at) {
    Pair& pair = **at;
    if (pair.state != State::kOpen) continue;
    if (is_kept(pair)) {
      again = true;
    } else {
      close(pair);
      ++closing;
    }
  }
  return again;
}

}  // namespace ibcoll
