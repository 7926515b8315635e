#pragma once
/// Sending: work requests are chained per queue pair and handed to the device with one doorbell a
/// chain. Few of them ask for a completion: every kSignalInterval-th, what somebody waits for, and
/// the end of the first chain with data after a quiet moment: most blocking calls send no more than
/// that to a peer. Where the last one did, the end is left to be asked for.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/shape.h"
#include "verbs/queue_pair.h"

namespace ibcoll::verbs {

/// Every so many work requests one asks for a completion; more often where a queue pair holds few.
inline constexpr uint32_t kSignalInterval = 32;
/// Work requests left free for what keeps the connection going: credits, probes, completions asked
/// for.
inline constexpr uint32_t kReserved = 8;
static_assert(kSendDepth >= 2 * kSignalInterval + kReserved,
              "completions must come while there is still room to send");
/// The least depth of a queue pair that will do.
inline constexpr uint32_t kLeastSendDepth = kReserved + 2;

/// What was sent to one peer. Positions count work requests from 1.
struct SendState {
  Rank peer = -1;
  ibv_qp* qp = nullptr;
  uint32_t max_inline = 0;
  uint32_t max_segments = 1;
  uint32_t depth = 0;     ///< work requests the queue pair holds
  uint32_t interval = 0;  ///< between those that ask for a completion
  uint64_t posted = 0;
  uint64_t completed = 0;  ///< known to be: the last signaled one
  uint64_t signaled = 0;   ///< the last one that asked for a completion
  uint64_t asked_at = 0;   ///< `posted` when somebody last asked for completed
  uint64_t last_data = 0;  ///< the last one whose source somebody may want back
  uint64_t quiet_at = 0;   ///< `posted` when it last became quiet
  bool quiet = true;       ///< no data is on the way: a blocking call ended, or none began
  bool brief = true;       ///< the last call sent few requests
  ibv_send_wr* first = nullptr;
  ibv_send_wr* last = nullptr;

  /// What is known of a peer's queue pair.
  void use(const ReliableQueuePair& queue_pair);
  /// Whether so many requests more fit; see kReserved.
  bool room(uint32_t requests, uint32_t reserved = kReserved) const {
    return posted - completed + requests + reserved <= depth;
  }
};

/// A piece of local memory to send.
struct Piece {
  const void* base = nullptr;
  uint32_t bytes = 0;
  uint32_t key = 0;
};

class SendQueue {
 public:
  SendQueue();
  /// What it takes.
  static size_t memory_bytes();

  /// Chains a request: opcode, immediate (host order) and remote place are the caller's to set in
  /// what is returned, before the next call of anything here.
  /// `data`: its source may be wanted back before the peer says anything.
  ibv_send_wr& append(SendState& peer, const Piece& piece, bool data = false) {
    return append(peer, {&piece, piece.bytes > 0 ? size_t{1} : 0}, piece.bytes, data);
  }
  /// The same of several pieces, `bytes` bytes together, at most as many as the queue pair takes.
  ibv_send_wr& append(SendState& peer, std::span<const Piece> pieces, uint64_t bytes, bool data);
  /// The position up to which all is complete. Asking twice with nothing posted in between makes a
  /// completion for all of it come.
  uint64_t completed(SendState& peer);
  /// Chains a write of no bytes that asks for a completion; the caller has looked for room.
  void probe(SendState& peer);
  /// Asks for a completion of the request chained last.
  void ask_for_last(SendState& peer) {
    if (!(peer.last->send_flags & IBV_SEND_SIGNALED)) signal(peer, *peer.last);
  }
  /// The peer's queue pair is no more: all that was posted to it is as good as complete.
  void drop(SendState& peer);
  /// Hands all chains to the device.
  Status flush();
  /// To be called for a completion with this work request id.
  void complete(SendState& peer, uint64_t id);
  /// Which peer a work request id belongs to.
  static Rank peer_of(uint64_t id) { return static_cast<Rank>(id >> kPositionBits); }

  uint64_t doorbells() const { return doorbells_; }
  uint64_t completions() const { return completions_; }

 private:
  static constexpr int kPositionBits = 40;
  void signal(SendState& peer, ibv_send_wr& work);
  void ask_completion(SendState& peer);

  std::vector<ibv_send_wr> requests_;
  std::vector<ibv_sge> pieces_;  ///< of the requests
  size_t used_ = 0, pieces_used_ = 0;
  std::vector<SendState*> chained_;
  Status failed_;
  uint64_t doorbells_ = 0;
  uint64_t completions_ = 0;
};

}  // namespace ibcoll::verbs
