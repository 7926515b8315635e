#include "engine/transport/loopback_queue.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "engine/base/hash.h"
#include "engine/base/quiet_thread.h"

namespace ibcoll::loopback {
namespace {

/// How far behind the first open post an adversarial network places data.
constexpr uint32_t kReorderDepth = 8;
/// What one call of the owner does at most.
constexpr int kStepsPerCall = 8;
/// How long the owner may be away before the thread takes over.
constexpr auto kOwnerAway = std::chrono::microseconds(300);

/// True if placing `late` before `early` would leave the wrong bytes.
bool overlap(const Post& early, const Post& late) {
  return early.target.address < late.target.address + late.bytes &&
         late.target.address < early.target.address + early.bytes;
}

/// True if `late` may not be placed before `early` is done: what opens a connection comes first.
bool holds_up(const Post& early, const Post& late) {
  return early.entry.kind == Kind::kWord || (!early.placed() && overlap(early, late));
}

}  // namespace

SendQueue::SendQueue(Wire& wire, Placer* placer, Failures& failures, uint64_t seed)
    : wire_(wire),
      placer_(placer),
      failures_(failures),
      seed_(seed),
      random_(seed * kGolden + static_cast<uint64_t>(wire.me())),
      lanes_(static_cast<size_t>(wire.ranks())) {
  active_.reserve(lanes_.size());
  thread_ = quiet_thread([this] { run(); });
}

SendQueue::~SendQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_one();
  thread_.join();
}

SendQueue::Lane& SendQueue::lane(Rank peer) {
  auto& lane = lanes_[static_cast<size_t>(peer)];
  if (lane == nullptr) lane = std::make_unique<Lane>();
  return *lane;
}

bool SendQueue::spurious_refusal() {
  if (seed_ == 0 || !one_in(6)) return false;
  ring(wire_.bell(wire_.me()));  // nothing else would have the rank try again
  return true;
}

bool SendQueue::post(Rank peer, const Post& post) {
  const std::lock_guard lock(mutex_);
  if (lane(peer).count == kDepth || spurious_refusal()) return false;
  accept(peer, post);
  return true;
}

bool SendQueue::post_mail(Rank peer, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  // A refusal that is none rings the bell: only where there is room, or a rank whose peer is away
  // would never sleep.
  if (lane(peer).count == kDepth || !wire_.has_room_for_mail(peer) || spurious_refusal())
    return false;
  Post post;
  post.delivers = true;
  post.entry = wire_.write_mail(peer, bytes);
  accept(peer, post);
  return true;
}

/// Where there is room.
void SendQueue::accept(Rank peer, Post post) {
  Lane& lane = this->lane(peer);
  post.piece_bytes = placer_ == nullptr ? DataSlot::kBytes : std::max<size_t>(post.bytes, 1);
  if (seed_ != 0) {
    const size_t pieces = 1 + random_() % 12;
    post.piece_bytes =
        std::min(post.piece_bytes, std::max<size_t>(post.bytes / pieces, 1) + random_() % 64);
  }
  if (lane.failed) {
    lane.completed.store(++lane.finished, std::memory_order_release);
    return;
  }
  lane.at(lane.count++) = post;
  if (lane.active) return;
  lane.active = true;
  active_.push_back(peer);
  busy_.store(true, std::memory_order_relaxed);
  if (seed_ == 0) serve(active_.size() - 1);
  if (active_.size() == 1) work_.notify_one();
}

void SendQueue::progress() {
  if (!busy()) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;  // the thread is at it
  const int steps =
      seed_ == 0 ? static_cast<int>(active_.size()) : static_cast<int>(random_() % kStepsPerCall);
  for (int i = 0; i < steps && !active_.empty(); ++i) step();
}

uint64_t SendQueue::completed(Rank peer) const {
  const auto& lane = lanes_[static_cast<size_t>(peer)];
  return lane == nullptr ? 0 : lane->completed.load(std::memory_order_acquire);
}

void SendQueue::lose(Rank peer) {
  const std::lock_guard lock(mutex_);
  drop_all(lane(peer));
}

void SendQueue::abandon() {
  const std::lock_guard lock(mutex_);
  active_.clear();
  for (auto& lane : lanes_) {
    if (lane == nullptr) continue;
    lane->active = false;
    lane->failed = true;
    lane->count = 0;
  }
  busy_.store(false, std::memory_order_relaxed);
}

void SendQueue::step() { serve((seed_ == 0 ? turn_++ : random_()) % active_.size()); }

/// Moves one active peer's posts on.
void SendQueue::serve(size_t at) {
  const Rank peer = active_[at];
  Lane& lane = this->lane(peer);
  if (!lane.failed && wire_.refused(peer)) {
    failures_.set({peer, ErrorCode::kSystem,
                   fmt::format("remote access error: rank {} refused data of rank {}: its memory "
                               "was no longer registered when the data arrived",
                               peer, wire_.me())});
    drop_all(lane);
  }
  if (seed_ == 0) {
    while (lane.count > 0 && advance(peer, lane)) {
    }
  } else if (lane.count > 0) {
    advance(peer, lane);
  }
  const uint64_t completed = lane.completed.load(std::memory_order_relaxed);
  if (completed != lane.finished && (seed_ == 0 || one_in(4))) {
    lane.completed.store(lane.finished, std::memory_order_release);
    ring(wire_.bell(wire_.me()));
  }
  if (lane.count == 0 && lane.completed.load(std::memory_order_relaxed) == lane.finished) {
    lane.active = false;
    active_[at] = active_.back();
    active_.pop_back();
    if (active_.empty()) busy_.store(false, std::memory_order_relaxed);
  }
}

bool SendQueue::advance(Rank peer, Lane& lane) {
  const bool placed = place_some(peer, lane);
  const bool delivered = lane.count > 0 && deliver_first(peer, lane);
  return placed || delivered;
}

bool SendQueue::place_some(Rank peer, Lane& lane) {
  uint32_t choice = 0;
  if (seed_ != 0) {
    choice = static_cast<uint32_t>(random_() % std::min(lane.count, kReorderDepth));
    for (uint32_t i = 0; i < choice;) {
      if (holds_up(lane.at(i), lane.at(choice))) {
        choice = i;
        i = 0;
      } else {
        ++i;
      }
    }
  }
  Post& post = lane.at(choice);
  if (post.placed()) return false;
  const size_t open = std::min<size_t>(post.pieces() - post.first_open, Post::kWindow);
  auto piece = static_cast<uint32_t>(std::countr_one(post.done));
  if (seed_ != 0) {
    const auto wanted = static_cast<uint32_t>(random_() % open);
    if ((post.done >> wanted & 1) == 0) piece = wanted;
  }
  if (!place_piece(peer, post, post.first_open + piece)) return false;
  if (lane.count == 0) return true;  // given up
  post.done |= 1u << piece;
  const int closed = std::countr_one(post.done);
  post.first_open += static_cast<size_t>(closed);
  post.done >>= closed;
  return true;
}

/// False if there is no room for it now.
bool SendQueue::place_piece(Rank peer, Post& post, size_t piece) {
  const size_t offset = piece * post.piece_bytes;
  const size_t bytes = std::min(post.piece_bytes, post.bytes - offset);
  const RemoteAddress target{post.target.address + offset, post.target.key};
  if (!wire_.accessible(peer, target.key, target.address, bytes)) {
    failures_.set(remote_access_error(wire_.me(), peer, post.target, post.bytes,
                                      Error{ErrorCode::kSystem, "no registration covers them"}));
    drop_all(lane(peer));
    return true;
  }
  if (placer_ == nullptr) return wire_.push_data(peer, target, post.source(), offset, bytes);
  if (auto error = placer_->place(peer, target.address, post.source(), offset, bytes)) {
    failures_.note_of_peer(remote_access_error(wire_.me(), peer, post.target, post.bytes, *error));
    drop_all(lane(peer));
  }
  return true;
}

bool SendQueue::deliver_first(Rank peer, Lane& lane) {
  const Post& post = lane.at(0);
  if (!post.placed()) return false;
  if (seed_ != 0 && one_in(3)) return false;
  if (post.delivers && !wire_.push(peer, post.entry)) return false;
  lane.first = (lane.first + 1) % kDepth;
  --lane.count;
  ++lane.finished;
  return true;
}

/// What is to come is dropped, too.
void SendQueue::drop_all(Lane& lane) {
  lane.failed = true;
  lane.finished += lane.count;
  lane.count = 0;
}

void SendQueue::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (active_.empty()) {
      work_.wait(lock);
      continue;
    }
    lock.unlock();
    std::this_thread::sleep_for(kOwnerAway);
    lock.lock();
    for (int i = 0; i < kStepsPerCall && !active_.empty(); ++i) step();
  }
}

}  // namespace ibcoll::loopback
