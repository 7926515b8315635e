/// Messages that go through the ring in chunks, and what a sender does where its peer has set much
/// aside.

#include <algorithm>
#include <cstring>

#include "shm/transport.h"

namespace ibcoll::shm {

Offer Transport::offer_chunks(Peer& peer, const MessageKey& key, const StridedView& source,
                              size_t bytes, uint32_t& ticket) {
  Unsent unsent{key, source, bytes, 0, (peer.chunked + 1) & ~kChunked};
  const bool held = !peer.outgoing.is_open();
  if (held) {
    if (const Offer offer = hold(peer, unsent); offer != Offer::kPending) return offer;
  }
  ++peer.chunked;
  ticket = kChunked | unsent.number;
  peer.unsent.push_back(unsent);
  ++unsent_;
  if (!held) {
    peer.outgoing.set_open(false);
    send_chunks(peer);
  }
  return Offer::kPending;
}

/// To a peer that has set much aside: a line stands for the message, and the operation stays under
/// way until the peer takes it. What it can read is read where it lies; there must be a byte of
/// that.
Offer Transport::offer_sparingly(Peer& peer, const MessageKey& key, const void* source,
                                 size_t bytes, uint32_t& ticket) {
  auto* const memory = static_cast<std::byte*>(const_cast<void*>(source));
  const bool shared = in_region(source, bytes);
  if (bytes == 0 || (!shared && !peer.reads_me))
    return offer_chunks(peer, key, {memory}, bytes, ticket);
  return offer_direct(peer, key, direct_data(source, bytes, shared), ticket);
}

/// Tells a peer that nothing more of a message comes until it asks: kPending, or why not.
Offer Transport::hold(Peer& peer, Unsent& unsent) {
  std::byte* const payload = room_for_other(peer, sizeof(DirectSource));
  if (payload == nullptr) return Offer::kNoRoom;
  const Result<uint32_t> receipt = receipts_->take();
  if (!receipt) return no_memory(receipt.error());
  const DirectSource source{0, unsent.bytes, receipts_->offset(*receipt), kElsewhere | *receipt,
                            false};
  std::memcpy(payload, &source, sizeof(source));
  const bool again = unsent.state == Unsent::State::kAsked;
  publish(peer, unsent.key, again ? MessageKind::kHeldAgain : MessageKind::kHeld, sizeof(source));
  unsent.state = Unsent::State::kHeld;
  unsent.receipt = *receipt;
  return Offer::kPending;
}

/// A message in chunks of which not all is in the ring; null: all of it is. They stand in the order
/// of their numbers, which wrap around.
Transport::Unsent* Transport::find_unsent(Peer& peer, uint32_t ticket) {
  std::vector<Unsent>& all = peer.unsent;
  if (all.empty()) return nullptr;
  const uint32_t first = all.front().number;
  const auto place = [first](uint32_t number) { return (number - first) & ~kChunked; };
  const auto found = std::lower_bound(
      all.begin(), all.end(), place(ticket),
      [&place](const Unsent& one, uint32_t wanted) { return place(one.number) < wanted; });
  return found != all.end() && place(found->number) == place(ticket) ? &*found : nullptr;
}

/// Sends as much of the unsent messages as the ring has room for, and the peer will have.
bool Transport::send_chunks(Peer& peer) {
  bool moved = false;
  for (size_t i = 0; i < peer.unsent.size();) {
    if (send_on(peer, peer.unsent[i], moved)) {
      peer.unsent.erase(peer.unsent.begin() + static_cast<ptrdiff_t>(i));
      --unsent_;
    } else {
      ++i;
    }
  }
  return moved;
}

/// True: all of it is in the ring.
bool Transport::send_on(Peer& peer, Unsent& unsent, bool& moved) {
  if (unsent.state == Unsent::State::kHeld) {
    if (!receipts_->came_in(unsent.receipt)) return false;
    unsent.state = Unsent::State::kAsked;
    unsent.granted = granted_bytes_;
  }
  const bool asked = unsent.state == Unsent::State::kAsked;
  for (;;) {
    if (unsent.granted == 0 && peer.outgoing.sparing().load(std::memory_order_relaxed) != 0) {
      const Offer held = hold(peer, unsent);
      moved |= held == Offer::kPending;
      if (held != Offer::kNoMemory) return false;  // else the peer has to take it as it comes
    }
    const size_t room = chunk_bytes_ - sizeof(uint64_t);
    const size_t piece = std::min(room, unsent.bytes - unsent.sent);
    std::byte* const payload = room_for_other(peer, sizeof(uint64_t) + piece);
    if (payload == nullptr) return false;
    const uint64_t total = unsent.bytes;
    std::memcpy(payload, &total, sizeof(total));
    if (piece != 0) copy_strided({payload + sizeof(total)}, unsent.source.from(unsent.sent), piece);
    publish(peer, unsent.key, asked ? MessageKind::kAnswer : MessageKind::kChunk,
            sizeof(total) + piece);
    unsent.sent += piece;
    unsent.granted -= std::min(unsent.granted, piece);
    moved = true;
    if (unsent.sent == unsent.bytes) return true;
  }
}

}  // namespace ibcoll::shm
