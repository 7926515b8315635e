/// Messages that were taken off their rings before their calls were ready for them.

#include <algorithm>
#include <cstring>

#include "shm/transport.h"

namespace ibcoll::shm {

void Transport::stash_front(Peer& peer) {
  const RingMessage message = peer.incoming.message();
  const MessageHeader& front = *message.header;
  const MessageStore::Key key{front.group, front.sequence, front.token != 0};
  if (static_cast<MessageKind>(front.kind) >= MessageKind::kAnswer) {
    peer.answers.keep(key, message.head(), message.body());
  } else {
    peer.stash.keep(key, message.head(), message.body());
    strays_.push_back({peer.rank, {front.group, front.sequence, front.program, front.token != 0}});
  }
  note_set_aside(peer);
}

/// Sets aside all that stands in the ring.
void Transport::set_aside_all(Peer& peer) {
  while (peer.incoming.has_message()) {
    stash_front(peer);
    peer.incoming.release();
    touched(peer);
  }
}

/// Tells the peer to hold back what is not asked for, or no longer to.
void Transport::note_set_aside(Peer& peer) {
  const size_t bytes = set_aside(peer);
  if (peer.sparing ? bytes > most_set_aside_ / 2 : bytes <= most_set_aside_) return;
  peer.sparing = !peer.sparing;
  peer.incoming.sparing().store(static_cast<uint32_t>(peer.sparing), std::memory_order_relaxed);
}

/// Takes from messages that were set aside, which all came before those in the ring. Nothing: none
/// of that key is left there, so that the ring has what comes next: another message, or the next
/// chunks of this one.
std::optional<Pull> Transport::take_stashed(Peer& peer, const Wanted& wanted, size_t& progress) {
  const MessageStore::Key kept{wanted.key.group, wanted.key.sequence, wanted.key.token};
  const size_t before = progress;
  for (auto message = peer.stash.front(kept); !message.empty(); message = peer.stash.front(kept)) {
    bool finished = false;
    if (is_held(RingMessage::at(message))) [[unlikely]] {
      const Pull asked = take_held(peer, RingMessage::at(message), wanted, progress);
      return asked == Pull::kNotYet && progress != before ? Pull::kPartial : asked;
    }
    const Pull result = take(peer, RingMessage::at(message), wanted, progress, finished);
    if (finished) {
      took(Way::kSetAside);
      peer.stash.pop(kept);
      note_set_aside(peer);
    }
    if (result != Pull::kPartial || !finished || progress - before >= kPieceBytes) return result;
  }
  return std::nullopt;
}

/// Has the sender of a held message go on with it.
void Transport::ask(Peer& peer, const RingMessage& held) {
  DirectSource source{};
  std::memcpy(&source, held.payload, sizeof(source));
  receipt(source.receipt).store(source.ticket, std::memory_order_release);
  touched(peer);
}

/// Takes from a message that stands first among those of its key that were set aside, and of which
/// nothing comes that is not asked for. It stays there until all of it has come, since what follows
/// it may stand there, too.
Pull Transport::take_held(Peer& peer, const RingMessage& held, const Wanted& wanted,
                          size_t& progress) {
  const MessageKey& key = wanted.key;
  const auto is_this = [&key](const MessageKey& one) {
    return one.group == key.group && one.sequence == key.sequence;
  };
  const auto asked = std::find_if(peer.asked.begin(), peer.asked.end(), is_this);
  if (asked == peer.asked.end()) {
    if (held.header->program != key.program) return refuse_program(peer);
    DirectSource source{};
    std::memcpy(&source, held.payload, sizeof(source));
    if (source.bytes != wanted.bytes) return refuse_length(peer, source.bytes, wanted.bytes);
    ask(peer, held);
    peer.asked.push_back(key);
  }
  const Pull result = take_answers(peer, wanted, progress);
  if (result == Pull::kDone) {
    peer.asked.erase(std::find_if(peer.asked.begin(), peer.asked.end(), is_this));
    peer.stash.pop({key.group, key.sequence, key.token});
    note_set_aside(peer);
  }
  return result;
}

Pull Transport::take_answers(Peer& peer, const Wanted& wanted, size_t& progress) {
  const MessageStore::Key kept{wanted.key.group, wanted.key.sequence, wanted.key.token};
  const size_t before = progress;
  for (;;) {
    const auto aside = peer.answers.front(kept);
    if (aside.empty()) {
      if (!peer.incoming.has_message()) return progress != before ? Pull::kPartial : Pull::kNotYet;
      const MessageHeader& front = peer.incoming.front();
      if (front.group != kept.group || front.sequence != kept.sequence ||
          static_cast<MessageKind>(front.kind) < MessageKind::kAnswer) {
        stash_front(peer);
        peer.incoming.release();
        touched(peer);
        continue;
      }
    }
    const RingMessage message = aside.empty() ? peer.incoming.message() : RingMessage::at(aside);
    Pull result = Pull::kPartial;
    bool finished = true;
    if (static_cast<MessageKind>(message.header->kind) == MessageKind::kHeldAgain) {
      ask(peer, message);
    } else {
      result = take(peer, message, wanted, progress, finished);
    }
    if (finished && aside.empty()) {
      peer.incoming.release();
      touched(peer);
    } else if (finished) {
      peer.answers.pop(kept);
      note_set_aside(peer);
    }
    if (result != Pull::kPartial || progress - before >= kPieceBytes) return result;
  }
}

bool Transport::relieve() {
  bool moved = false;
  for (Peer& peer : peers_) {
    if (peer.wants_room && !peer.says_full) {
      peer.says_full = true;
      peer.outgoing.full().store(1, std::memory_order_relaxed);
      touched(peer);
    }
    if (!peer.incoming_made && !find_incoming(peer)) continue;
    if (peer.incoming.full().load(std::memory_order_relaxed) == 0) continue;
    moved |= peer.incoming.has_message();
    set_aside_all(peer);
  }
  if (!dirty_.empty()) ring_touched();
  return moved;
}

}  // namespace ibcoll::shm
