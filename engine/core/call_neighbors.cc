// Of a Call what the neighbour collectives have of their own: they are bound slot by slot, since
// only the receiver knows in which of its slots a block belongs.

#include <algorithm>
#include <numeric>

#include "engine/core/call.h"

namespace ibcoll {

Status Call::bind_neighbors() {
  const Shape& shape = group_->shape();
  const RankProgram& program = *plan_.program;
  const size_t sends = program.send_slots(shape), receives = program.recv_slots(shape);
  const size_t scratch = program.scratch.size();
  BufferBinding& send = binding_[Buffer::kSend];
  BufferBinding& recv = binding_[Buffer::kRecv];
  if (!is_unequal(arguments_.collective)) {
    binding_.block_bytes = arguments_.block_bytes;
    slot_bytes_.assign(std::max(sends, receives), arguments_.block_bytes);
    slot_offsets_.resize(slot_bytes_.size());
    std::exclusive_scan(slot_bytes_.begin(), slot_bytes_.end(), slot_offsets_.begin(), uint64_t{0});
    for (BufferBinding* const buffer : {&send, &recv}) {
      buffer->offsets = slot_offsets_.data();
      buffer->bytes = slot_bytes_.data();
    }
    scratch_bytes_.assign(scratch, arguments_.block_bytes);
    return scratch == 0 ? Status{} : take_scratch_slots();
  }
  // Checked to be not negative, so they may be read as unsigned.
  const auto unsigned_of = [](const int64_t* counts) {
    return reinterpret_cast<const uint64_t*>(counts);
  };
  static constexpr uint64_t kStart = 0;
  const bool own = !traits(arguments_.collective).send.lists();
  send.bytes = unsigned_of(own ? &arguments_.own_count : arguments_.send_counts);
  send.offsets = own ? &kStart : unsigned_of(arguments_.send_displacements);
  recv.bytes = unsigned_of(arguments_.recv_counts);
  recv.offsets = unsigned_of(arguments_.recv_displacements);
  binding_.block_bytes =
      receives == 0 ? 0
                    : std::accumulate(recv.bytes, recv.bytes + receives, uint64_t{0}) / receives;
  if (!plan_.relays) return {};
  // Whether or not this rank holds blocks of others: all ranks must take part in the first phase.
  IBCOLL_ASSIGN(lengths_, group_->context().scratch().take(
                              std::max<size_t>(1, sends + receives + scratch) * sizeof(uint64_t)));
  return {};
}

/// Gives the slots of the first phase, eight bytes each, their places.
void Call::place_lengths(Binding& lengths) {
  const Shape& shape = group_->shape();
  const RankProgram& program = *plan_.program;
  const auto slots = std::max({size_t{program.send_slots(shape)}, size_t{program.recv_slots(shape)},
                               program.scratch.size()});
  length_bytes_.assign(slots, sizeof(uint64_t));
  length_offsets_.resize(slots);
  std::exclusive_scan(length_bytes_.begin(), length_bytes_.end(), length_offsets_.begin(),
                      uint64_t{0});
  lengths.unequal = true;
  for (const Buffer buffer : {Buffer::kSend, Buffer::kRecv, Buffer::kScratch}) {
    lengths[buffer].offsets = length_offsets_.data();
    lengths[buffer].bytes = length_bytes_.data();
  }
}

}  // namespace ibcoll
