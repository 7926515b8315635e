#include "engine/core/call_blocks.h"

#include <algorithm>
#include <numeric>

namespace ibcoll {
namespace {

/// Runs of private memory shorter than this are copied through the ring, not read by their
/// receiver: that takes half as long with 4 KB (strided_bench).
constexpr uint64_t kShortRun = 16 * 1024;

/// Whether data in place lies in the send buffer.
bool keeps_in_place(Collective collective) { return traits(collective).in_place == InPlace::kSend; }

/// What the network does with a slot.
enum Moved : uint64_t { kNot, kOut, kIn };

/// Marks all slots of a buffer that operations of the program move through the network. What comes
/// in and is passed on counts as coming in.
void mark_moved(const RankProgram& program, Buffer buffer, std::vector<uint64_t>& marks) {
  for (const Op& op : program.lane(Lane::kSend)) {
    if (op.kind == OpKind::kPut && op.src_buffer == buffer)
      std::fill_n(marks.begin() + op.src_first, op.count, kOut);
  }
  for (const Op& op : program.lane(Lane::kRecv)) {
    if (op.kind == OpKind::kExpect && op.dst_buffer == buffer)
      std::fill_n(marks.begin() + op.dst_first, op.count, kIn);
  }
}

/// What holds all runs of some blocks.
class Hull {
 public:
  void add(const StridedBlock& block) {
    if (block.bytes == 0) return;
    const StridedBlock::Reach reach = block.reach();
    begin_ = std::min(begin_, reach.begin);
    end_ = std::max(end_, reach.end);
    used_ += block.bytes;
  }
  bool empty() const { return used_ == 0; }
  int64_t begin() const { return begin_; }
  size_t bytes() const { return static_cast<size_t>(end_ - begin_); }
  /// Bytes of the blocks themselves.
  uint64_t used() const { return used_; }

 private:
  int64_t begin_ = INT64_MAX, end_ = INT64_MIN;
  uint64_t used_ = 0;
};

}  // namespace

StridedBlock strided(const ibcoll_block& given) {
  return canonical({.offset = given.offset,
                    .bytes = static_cast<uint64_t>(ibcoll_block_bytes(given)),
                    .run = static_cast<uint64_t>(given.bytes),
                    .count = static_cast<uint64_t>(given.count),
                    .stride = given.stride,
                    .outer_count = static_cast<uint64_t>(given.outer_count),
                    .outer_stride = given.outer_stride});
}

void CallBlocks::Side::take(const ibcoll_block* given, uint32_t slots) {
  used = given != nullptr && slots != 0;
  if (!used) return;
  blocks.resize(slots);
  counts.resize(slots);
  for (uint32_t i = 0; i < slots; ++i) {
    blocks[i] = strided(given[i]);
    counts[i] = static_cast<int64_t>(blocks[i].bytes);
  }
}

void CallBlocks::take(const Shape& shape, Rank me, CallArguments& a) {
  const auto take_side = [&](Buffer buffer, const ibcoll_block* blocks, const int64_t*& counts,
                             const int64_t*& places) {
    const bool sends = buffer == Buffer::kSend;
    // In place the one side says for both.
    const bool absent = a.in_place && sends != keeps_in_place(a.collective);
    Side& taken = side(buffer);
    taken.take(absent ? nullptr : blocks,
               sends ? send_slots(a.collective, shape, me, a.root, a.options.graph.get())
                     : recv_slots(a.collective, shape, me, a.root, a.options.graph.get()));
    if (!taken.used || !is_unequal(a.collective)) return;
    taken.places.assign(taken.counts.size(), 0);
    if ((sends ? traits(a.collective).send : traits(a.collective).recv).lists()) {
      counts = taken.counts.data();
      places = taken.places.data();
    } else {
      a.own_count = taken.counts[0];
    }
  };
  take_side(Buffer::kSend, a.send_blocks, a.send_counts, a.send_displacements);
  take_side(Buffer::kRecv, a.recv_blocks, a.recv_counts, a.recv_displacements);
}

Status CallBlocks::bind(ScratchPool& scratch, const RankProgram& program, const CallArguments& a,
                        Binding& binding) {
  auto* const send = static_cast<std::byte*>(const_cast<void*>(a.send));
  auto* const recv = static_cast<std::byte*>(a.recv);
  const StridedBlock* own_block = nullptr;
  Buffer own = Buffer::kNone;
  if (a.in_place && traits(a.collective).in_place != InPlace::kAside) {
    // The other side has one block, which is this rank's of all that this side has.
    const Buffer all = keeps_in_place(a.collective) ? Buffer::kSend : Buffer::kRecv;
    own = all == Buffer::kSend ? Buffer::kRecv : Buffer::kSend;
    Side& one = side(own);
    const Side& whole = side(all);
    one.used = whole.used;
    if (one.used) {
      const auto me = static_cast<size_t>(program.me);
      one.blocks.assign(1, whole.blocks[me]);
      one.counts.assign(1, whole.counts[me]);
      own_block = &whole.blocks[me];
    }
  }
  for (const Buffer buffer : {Buffer::kSend, Buffer::kRecv}) {
    const bool sends = buffer == Buffer::kSend;
    const bool from_send = a.in_place ? keeps_in_place(a.collective) : sends;
    if (side(buffer).used)
      IBCOLL_TRY(bind_side(scratch, program, buffer, from_send ? send : recv, binding));
  }
  // The same block in the same place, which is not copied.
  if (own_block != nullptr) side(own).buffer.memory.blocks = own_block;
  return {};
}

Status CallBlocks::bind_side(ScratchPool& scratch, const RankProgram& program, Buffer buffer,
                             std::byte* base, Binding& binding) {
  Side& here = side(buffer);
  const uint32_t slots = static_cast<uint32_t>(here.blocks.size()) * program.cut;
  here.in_image.assign(slots, 0);
  StridedBuffer& bound = here.buffer;
  bound = {};
  bound.memory = {base, here.blocks.data(), base, 0, false};
  bound.parts = program.cut > 1;
  bound.in_image = here.in_image.data();
  Hull all;
  for (const StridedBlock& block : here.blocks) {
    all.add(block);
    bound.memory.short_runs |= !block.is_contiguous() && block.run < kShortRun;
  }
  if (!all.empty()) {
    bound.memory.reach = base + all.begin();
    bound.memory.reach_bytes = all.bytes();
  }
  if (!binding.eager || binding.one_way) mark_moved(program, buffer, here.in_image);
  bool any = false;
  Hull gathered;
  for (uint32_t slot = 0; slot < slots; ++slot) {
    any |= here.in_image[slot] != kNot;
    const bool seen = bound.parts && !gathered.empty();
    if (here.in_image[slot] == kOut && bound.has_long_runs(slot, true) && !seen)
      gathered.add(here.blocks[bound.parts ? 0 : slot]);
  }
  if (!gathered.empty()) {
    bound.gathered = base + gathered.begin();
    bound.gathered_reach = gathered.bytes();
    bound.gathered_bytes = gathered.used();
  }
  if (binding.unequal) {
    here.places.assign(slots, 0);
    for (uint32_t slot = 0; slot < slots; ++slot) {
      here.places[slot] = static_cast<int64_t>(bound.image_bytes);
      if (here.in_image[slot] != kNot) bound.image_bytes += here.blocks[slot].bytes;
    }
    binding[buffer].offsets = reinterpret_cast<const uint64_t*>(here.places.data());
  } else if (any) {
    bound.image_bytes = binding.offset(slots);
  }
  IBCOLL_ASSIGN(here.image, scratch.take(bound.image_bytes));
  binding[buffer].base = here.image;
  binding[buffer].strided = &bound;
  return {};
}

void CallBlocks::start() {
  for (Side& one : sides_) std::fill(one.in_image.begin(), one.in_image.end(), 0);
}

bool CallBlocks::pack(Buffer buffer, std::byte* to) const {
  const Side& from = side(buffer);
  if (!from.used) return false;
  uint64_t bytes = 0;
  for (const StridedBlock& block : from.blocks) bytes += block.bytes;
  copy_strided(
      {to},
      {from.buffer.memory.base, from.blocks.data(), static_cast<uint32_t>(from.blocks.size())},
      bytes);
  return true;
}

void CallBlocks::release(ScratchPool& scratch) {
  for (Side& one : sides_) {
    if (one.image != nullptr) scratch.put(one.image);
    one.image = nullptr;
    one.used = false;
  }
}

}  // namespace ibcoll
