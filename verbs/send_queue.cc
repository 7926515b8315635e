#include "verbs/send_queue.h"

#include <algorithm>
#include <cerrno>

namespace ibcoll::verbs {

namespace {

/// Requests chained at a time, over all peers.
constexpr size_t kChained = 512;

}  // namespace

void SendState::use(const ReliableQueuePair& queue_pair) {
  qp = queue_pair.get();
  max_inline = queue_pair.max_inline();
  max_segments = queue_pair.max_segments();
  depth = queue_pair.depth();
  interval = std::clamp((depth - kReserved) / 2, 1u, kSignalInterval);
}

SendQueue::SendQueue() : requests_(kChained), pieces_(kChained) { chained_.reserve(kChained); }

size_t SendQueue::memory_bytes() {
  return kChained * (sizeof(ibv_send_wr) + sizeof(ibv_sge) + sizeof(void*));
}

ibv_send_wr& SendQueue::append(SendState& peer, std::span<const Piece> pieces, uint64_t bytes,
                               bool data) {
  if (used_ == requests_.size() || pieces_used_ + pieces.size() > pieces_.size()) {
    if (Status flushed = flush(); !flushed) failed_ = flushed;  // told by the next flush()
  }
  ibv_send_wr& work = requests_[used_++];
  const uint64_t position = ++peer.posted;
  if (data) peer.last_data = position;
  work = {};
  work.wr_id = static_cast<uint64_t>(peer.peer) << kPositionBits |
               (position & ((uint64_t{1} << kPositionBits) - 1));
  if (!pieces.empty()) {
    work.sg_list = &pieces_[pieces_used_];
    work.num_sge = static_cast<int>(pieces.size());
    if (bytes <= peer.max_inline) work.send_flags = IBV_SEND_INLINE;
  }
  for (const Piece& piece : pieces)
    pieces_[pieces_used_++] = {reinterpret_cast<uint64_t>(piece.base), piece.bytes, piece.key};
  if (position - peer.signaled >= peer.interval) signal(peer, work);
  if (peer.first) {
    peer.last->next = &work;
  } else {
    peer.first = &work;
    chained_.push_back(&peer);
  }
  peer.last = &work;
  return work;
}

void SendQueue::signal(SendState& peer, ibv_send_wr& work) {
  work.send_flags |= IBV_SEND_SIGNALED;
  peer.signaled = peer.posted;
}

uint64_t SendQueue::completed(SendState& peer) {
  if (!peer.quiet && peer.completed >= peer.last_data) {
    peer.quiet = true;
    peer.brief = peer.posted - peer.quiet_at <= peer.interval;
    peer.quiet_at = peer.posted;
  }
  if (peer.completed != peer.posted) ask_completion(peer);
  return peer.completed;
}

void SendQueue::ask_completion(SendState& peer) {
  if (peer.asked_at != peer.posted) {
    peer.asked_at = peer.posted;  // maybe more is about to be posted
    return;
  }
  if (peer.signaled > peer.completed || peer.signaled == peer.posted)
    return;  // one is under way, more is asked for once it is there
  if (!peer.first) {
    if (!peer.room(1, 0)) return;
    probe(peer);
  } else if (!(peer.last->send_flags & IBV_SEND_SIGNALED)) {
    signal(peer, *peer.last);
  }
  peer.asked_at = peer.posted;
}

void SendQueue::probe(SendState& peer) {
  ibv_send_wr& work = append(peer, {});
  work.opcode = IBV_WR_RDMA_WRITE;
  if (!(work.send_flags & IBV_SEND_SIGNALED)) signal(peer, work);
}

void SendQueue::drop(SendState& peer) {
  if (peer.first != nullptr) std::erase(chained_, &peer);
  peer.first = peer.last = nullptr;
  peer.qp = nullptr;
  peer.completed = peer.signaled = peer.posted;
}

Status SendQueue::flush() {
  for (SendState* peer : chained_) {
    if (peer->quiet && peer->last_data > peer->quiet_at) {
      if (peer->brief && !(peer->last->send_flags & IBV_SEND_SIGNALED)) signal(*peer, *peer->last);
      peer->quiet = false;
    }
    ibv_send_wr* bad = nullptr;
    if (const int error = ibv_post_send(peer->qp, peer->first, &bad); error != 0 && failed_) {
      errno = error;
      failed_ = fail_errno(fmt::format("posting to rank {} failed", peer->peer));
    }
    ++doorbells_;
    peer->first = peer->last = nullptr;
  }
  chained_.clear();
  used_ = pieces_used_ = 0;
  return failed_;
}

void SendQueue::complete(SendState& peer, uint64_t id) {
  ++completions_;
  const uint64_t mask = (uint64_t{1} << kPositionBits) - 1;
  peer.completed += (id - peer.completed) & mask;
}

}  // namespace ibcoll::verbs
