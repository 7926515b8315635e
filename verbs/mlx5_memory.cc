#include "verbs/mlx5_memory.h"

#include <algorithm>
#include <bit>

#include "engine/base/pages.h"

namespace ibcoll::verbs::mlx5 {

namespace {

constexpr size_t kBlock = 64;  ///< a work request takes so many bytes, or a multiple
// Parts of work requests.
constexpr size_t kControl = 16, kRemoteAddress = 16, kAtomic = 16, kDatagram = 48, kPiece = 16,
                 kInlineHead = 4, kNextReceive = 16;
/// What a reliable queue pair sets aside for the binding of a memory window.
constexpr size_t kWindow = 48 + 64 + 64;
/// What the driver notes for each block of a queue: the request's number, its length and its head.
constexpr size_t kNoted = 8 + 4 + 4;
constexpr size_t kReceiveNoted = 8;
constexpr size_t kCompletion = 64;

size_t with_pages(size_t buffer, size_t noted) { return round_up(buffer, page_bytes()) + noted; }

size_t queue_pair_bytes(const QueuePairSize& size, size_t overhead) {
  const size_t gathered = overhead + size.send_pieces * kPiece;
  const size_t inlined =
      size.inline_bytes == 0 ? 0 : overhead + round_up(kInlineHead + size.inline_bytes, 16);
  const size_t request = round_up(std::max(gathered, inlined), kBlock);
  const size_t sends = std::bit_ceil(size.sends * request);
  const size_t receives =
      size.receives == 0 ? 0 : std::max(std::bit_ceil(size.receives) * kPiece, kBlock);
  return with_pages(sends + receives, sends / kBlock * kNoted + receives / kPiece * kReceiveNoted);
}

}  // namespace

PortInfo typical_port() {
  PortInfo port;
  port.max_queue_pairs = 1 << 18;
  port.max_work_requests = 32768;
  port.max_segments = 30;
  port.max_completions = (1 << 22) - 1;
  port.max_shared_receives = 32767;
  return port;
}

size_t reliable_queue_pair_bytes(const QueuePairSize& size) {
  return queue_pair_bytes(size, kControl + std::max(kAtomic + kRemoteAddress, kWindow));
}

size_t datagram_queue_pair_bytes(const QueuePairSize& size) {
  return queue_pair_bytes(size, kControl + kDatagram);
}

size_t completion_queue_bytes(uint64_t entries) {
  return with_pages(std::bit_ceil(entries + 1) * kCompletion, 0);
}

size_t shared_receive_queue_bytes(uint32_t receives) {
  // Twice as many: those that are used go to the end of a queue of their own.
  const size_t all = std::bit_ceil(2 * size_t{receives} + 1);
  return with_pages(all * (kNextReceive + kPiece), all * kReceiveNoted);
}

}  // namespace ibcoll::verbs::mlx5
