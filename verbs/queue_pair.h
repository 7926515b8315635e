#pragma once
/// Queue pairs: the reliable ones that carry data and the datagram one that wires them up.

#include <cstdint>

#include "engine/base/result.h"
#include "verbs/device.h"
#include "verbs/route.h"

namespace ibcoll::verbs {

/// How a reliable queue pair behaves when the peer does not answer.
struct RetryOptions {
  /// The local ACK timeout is 4.096 us times two to this power: 14 is 67 ms (devices may wait up to
  /// four times that). 0: chosen, see timeout_exponent_for().
  int timeout_exponent = 0;
  /// 0 to 7, of timeouts; a peer that only has no receives is waited for. Soft-RoCE takes 7 as
  /// "without end".
  int retries = 6;
  /// How long a way to a peer is looked for that is not there, 5 s.
  int64_t unreachable_ns = 5'000'000'000;
};

/// What a queue pair's timeout is set to: the least one, from 14 on, with which all retries
/// together take unreachable_ns, so that data on the way outlives a link that is down for less.
int timeout_exponent_for(const RetryOptions& retry);
/// How long a device may repeat itself before it gives a peer up.
int64_t longest_patience_ns(const RetryOptions& retry);

/// The most work requests a queue pair is asked to hold; devices may offer less.
inline constexpr uint32_t kSendDepth = 128;
/// The most bytes a send asks to carry inside its work request; devices may offer less.
inline constexpr uint32_t kWantedInline = 256;
/// The most pieces of memory a send asks to take its data from: a device's list of them has 16
/// bytes for each, and stands where data inside the work request would, so that this makes queues
/// no longer.
inline constexpr uint32_t kWantedSegments = kWantedInline / 16;
/// The work requests that a queue pair of that port asks to hold.
uint32_t send_depth(const PortInfo& port);
/// How many pieces it asks for.
uint32_t wanted_segments(const PortInfo& port);

/// A reliable connected queue pair.
class ReliableQueuePair {
 public:
  /// In state INIT: a peer may be told its number. `depth`: work requests that it holds, at most
  /// send_depth().
  static Result<ReliableQueuePair> create(const Device& device, ibv_cq* sends, ibv_cq* receives,
                                          ibv_srq* shared_receives, uint32_t depth);
  /// To states RTR and RTS: packets are accepted and may be sent. ErrorCode::kPeerFailed: there is
  /// no way to the peer now; may be tried again.
  Status connect(const Device& device, const Way& way, uint32_t peer_number, uint32_t peer_psn,
                 uint32_t own_psn, const RetryOptions& retry);

  /// To state RTR or RTS with attributes that librdmacm gave, but for what is ours to say.
  Status advance(const Device& device, ibv_qp_attr& attributes, int mask,
                 const RetryOptions& retry);

  /// Back to what it was when new. Nothing must have been posted to it.
  Status restart(const Device& device);

  /// To state ERR: packets are refused, what was posted is flushed.
  Status break_off(const Device& device);

  uint32_t number() const { return handle_->qp_num; }
  uint32_t max_inline() const { return max_inline_; }
  uint32_t max_segments() const { return max_segments_; }
  /// How many work requests it holds.
  uint32_t depth() const { return depth_; }
  ibv_qp* get() const { return handle_.get(); }

 private:
  QueuePairHandle handle_;
  uint32_t max_inline_ = 0;
  uint32_t max_segments_ = 1;
  uint32_t depth_ = 0;
};

/// Makes a datagram queue pair ready that is new or in an error state, and empty.
Status start_datagram(const Device& device, ibv_qp* qp, uint32_t qkey);

}  // namespace ibcoll::verbs
