#pragma once
/// What the software network has accepted and not yet done: data that waits for slots in shared
/// memory, and everything an adversarial network delays.

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "engine/sharing/shared_access.h"
#include "engine/transport/loopback_placer.h"
#include "engine/transport/loopback_wire.h"

namespace ibcoll::loopback {

/// A message on its way.
struct Post {
  bool delivers = false;  ///< an entry goes to the peer once the data is in place
  Entry entry;
  std::array<PutSegment, kMaxSegments> segments;
  size_t segment_count = 0;
  RemoteAddress target;
  size_t bytes = 0;  ///< of all segments

  // Which pieces have been placed: all before `first_open`, and of the next kWindow those in
  // `done`.
  static constexpr uint32_t kWindow = 16;
  size_t piece_bytes = 1;
  size_t first_open = 0;
  uint32_t done = 0;
  size_t pieces() const { return (bytes + piece_bytes - 1) / piece_bytes; }
  bool placed() const { return first_open >= pieces(); }
  Segments source() const { return Segments(segments).first(segment_count); }
};

/// A queue a peer. The owner's calls move it on, and a thread does when the owner makes none: a
/// network adapter does not need its host either.
class SendQueue {
 public:
  static constexpr uint32_t kDepth = 32;

  /// `placer`: nullptr to send data through the wire's slots. seed 0: in order, as fast as
  /// possible.
  SendQueue(Wire& wire, Placer* placer, Failures& failures, uint64_t seed);
  ~SendQueue();
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  /// False: no room.
  bool post(Rank peer, const Post& post);
  bool post_mail(Rank peer, std::span<const std::byte> bytes);
  void progress();
  uint64_t completed(Rank peer) const;
  /// The peer has died: forgets all for it, and so does with what comes; no source of it is read
  /// after this returns.
  void lose(Rank peer);
  /// Forgets everything; no source is read after this returns.
  void abandon();
  /// True if something is on its way.
  bool busy() const { return busy_.load(std::memory_order_relaxed); }

 private:
  struct Lane {
    std::array<Post, kDepth> posts;
    uint32_t first = 0, count = 0;
    uint64_t finished = 0;
    Shared<uint64_t> completed{0};  ///< what the owner is told; behind `finished` when late
    bool active = false, failed = false;
    Post& at(uint32_t index) { return posts[(first + index) % kDepth]; }
  };

  Lane& lane(Rank peer);
  void accept(Rank peer, Post post);
  bool spurious_refusal();
  bool one_in(uint32_t n) { return random_() % n == 0; }
  void step();
  void serve(size_t at);
  bool advance(Rank peer, Lane& lane);
  bool place_some(Rank peer, Lane& lane);
  bool place_piece(Rank peer, Post& post, size_t piece);
  bool deliver_first(Rank peer, Lane& lane);
  void drop_all(Lane& lane);
  void run();

  Wire& wire_;
  Placer* const placer_;
  Failures& failures_;
  const uint64_t seed_;
  std::mt19937_64 random_;

  std::mutex mutex_;
  std::condition_variable work_;
  std::vector<std::unique_ptr<Lane>> lanes_;  ///< made at first use
  std::vector<Rank> active_;
  size_t turn_ = 0;
  Shared<bool> busy_{false};
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ibcoll::loopback
