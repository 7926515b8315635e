#include "engine/core/call_slots.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace ibcoll {
namespace {

constexpr uint64_t kStart = 0;  ///< where the only block of a side begins

/// Checked to be not negative, so they may be read as unsigned.
const uint64_t* unsigned_of(const int64_t* counts) {
  return reinterpret_cast<const uint64_t*>(counts);
}

uint64_t mean(const uint64_t* bytes, size_t slots) {
  return slots == 0 ? 0 : std::accumulate(bytes, bytes + slots, uint64_t{0}) / slots;
}

/// The lengths and places of blocks, as the program gives them.
void bind_lists(const CallArguments& arguments, SlotMemory& slots) {
  const CollectiveTraits& row = traits(arguments.collective);
  const auto bind_side = [&](Buffer buffer, bool lists, const int64_t* counts,
                             const int64_t* displacements) {
    slots[buffer].bytes = unsigned_of(lists ? counts : &arguments.own_count);
    slots[buffer].offsets = lists ? unsigned_of(displacements) : &kStart;
  };
  bind_side(Buffer::kSend, row.send.lists(), arguments.send_counts, arguments.send_displacements);
  bind_side(Buffer::kRecv, row.recv.lists(), arguments.recv_counts, arguments.recv_displacements);
}

}  // namespace

Status CallSlots::bind(const CallArguments& arguments, const CallPlan& plan, SlotMemory& slots) {
  const CollectiveTraits& row = traits(arguments.collective);
  const bool parts = plan.program->has_uneven_slots();
  // Parts of a block differ in length also where they lie in scratch; the places of neighbours'
  // blocks travel with the exposures.
  slots.unequal = row.unequal || row.has_graph || parts;
  slots[Buffer::kRecv] = {static_cast<std::byte*>(arguments.recv), nullptr, nullptr};
  slots[Buffer::kSend] = {static_cast<std::byte*>(const_cast<void*>(arguments.send)), nullptr,
                          nullptr};
  slots[Buffer::kScratch] = {nullptr, nullptr, nullptr};
  const Task task{arguments, plan, slots};
  return !slots.unequal  ? bind_equal(task)
         : parts         ? bind_parts(task)
         : row.reduces   ? bind_side_by_side(task)
         : row.has_graph ? bind_neighbors(task)
                         : bind_unequal(task);
}

Status CallSlots::bind_equal(const Task& task) {
  const RankProgram& program = *task.plan.program;
  const uint64_t block = task.arguments.block_bytes;
  task.slots.block_bytes = cut_slot_bytes(block, program.cut);
  task.slots.limit = program.cut > 1 ? block : UINT64_MAX;
  if (!program.scratch.empty()) {
    IBCOLL_ASSIGN(scratch_, group_.services().scratch.take(program.scratch.size() * block));
    task.slots[Buffer::kScratch].base = scratch_;
  }
  return task.arguments.in_place ? bind_in_place(task) : Status();
}

/// The buffer that the call has not is a block of the other one, or a copy of it.
Status CallSlots::bind_in_place(const Task& task) {
  const RankProgram& program = *task.plan.program;
  const uint64_t block = task.arguments.block_bytes;
  const InPlace in_place = traits(task.arguments.collective).in_place;
  if (in_place == InPlace::kAside)
    return bind_aside(program.send_slots(group_.shape()) / program.cut * block, task.slots);
  const bool keeps = in_place == InPlace::kSend;
  std::byte* const base = task.slots[keeps ? Buffer::kSend : Buffer::kRecv].base;
  task.slots[keeps ? Buffer::kRecv : Buffer::kSend].base =
      base + static_cast<size_t>(group_.rank()) * block;
  return {};
}

/// Slots that are parts of blocks of one length.
Status CallSlots::bind_parts(const Task& task) {
  const RankProgram& program = *task.plan.program;
  const Shape& shape = group_.shape();
  const uint64_t block = task.arguments.block_bytes;
  const uint32_t element = task.arguments.reduction.element_bytes;
  slot_offsets_.resize(std::max(program.send_slots(shape), program.recv_slots(shape)));
  slot_bytes_.resize(slot_offsets_.size());
  for (size_t slot = 0; slot < slot_offsets_.size(); ++slot) {
    slot_offsets_[slot] = cut_offset(block, program.cut, slot, element);
    slot_bytes_[slot] = cut_offset(block, program.cut, slot + 1, element) - slot_offsets_[slot];
  }
  task.slots.block_bytes = block / program.cut;
  task.slots.limit = UINT64_MAX;
  for (const Buffer buffer : {Buffer::kSend, Buffer::kRecv}) {
    task.slots[buffer].offsets = slot_offsets_.data();
    task.slots[buffer].bytes = slot_bytes_.data();
  }
  if (task.arguments.in_place) IBCOLL_TRY(bind_in_place(task));
  scratch_bytes_.clear();
  for (const Block& part : program.scratch) {
    scratch_bytes_.push_back(slot_bytes_[part_number(part, program.cut)]);
  }
  return bind_scratch_slots(task.slots);
}

/// Slots that lie side by side, and of which every rank knows the lengths.
Status CallSlots::bind_side_by_side(const Task& task) {
  const CallArguments& arguments = task.arguments;
  const auto me = static_cast<size_t>(group_.rank());
  const auto ranks = static_cast<uint32_t>(group_.size());
  const uint32_t element = arguments.reduction.element_bytes;
  slot_bytes_.resize(ranks);
  slot_offsets_.resize(ranks);
  for (uint32_t slot = 0; slot < ranks; ++slot)
    slot_bytes_[slot] = static_cast<uint64_t>(arguments.recv_counts[slot]) * element;
  std::exclusive_scan(slot_bytes_.begin(), slot_bytes_.end(), slot_offsets_.begin(), uint64_t{0});
  const uint64_t total = slot_offsets_.back() + slot_bytes_.back();
  task.slots.block_bytes = total / ranks;
  task.slots.limit = UINT64_MAX;
  task.slots[Buffer::kSend].offsets = slot_offsets_.data();
  task.slots[Buffer::kSend].bytes = slot_bytes_.data();
  task.slots[Buffer::kRecv].offsets = &kStart;
  task.slots[Buffer::kRecv].bytes = slot_bytes_.data() + me;
  if (arguments.in_place) IBCOLL_TRY(bind_aside(total, task.slots));
  scratch_bytes_.clear();
  for (const Block& block : task.plan.program->scratch)
    scratch_bytes_.push_back(slot_bytes_[static_cast<size_t>(block.target)]);
  return bind_scratch_slots(task.slots);
}

Status CallSlots::bind_unequal(const Task& task) {
  const CallArguments& arguments = task.arguments;
  SlotMemory& slots = task.slots;
  const Shape& shape = group_.shape();
  const RankProgram& program = *task.plan.program;
  const auto ranks = static_cast<size_t>(shape.ranks());
  const size_t sends = program.send_slots(shape), receives = program.recv_slots(shape);
  bind_lists(arguments, slots);
  const InPlace in_place = traits(arguments.collective).in_place;
  if (arguments.in_place && in_place == InPlace::kAside) {
    send_offsets_.resize(ranks);
    const uint64_t* bytes = slots[Buffer::kRecv].bytes;
    std::exclusive_scan(bytes, bytes + ranks, send_offsets_.begin(), uint64_t{0});
    IBCOLL_TRY(bind_aside(send_offsets_.back() + bytes[ranks - 1], slots));
    slots[Buffer::kSend].offsets = send_offsets_.data();
    slots[Buffer::kSend].bytes = bytes;
  } else if (arguments.in_place) {
    const auto me = static_cast<size_t>(group_.rank());
    const bool keeps = in_place == InPlace::kSend;
    const BufferBinding& all = slots[keeps ? Buffer::kSend : Buffer::kRecv];
    slots[keeps ? Buffer::kRecv : Buffer::kSend] = {all.base, all.offsets + me, all.bytes + me};
  }
  const Buffer most = sends > receives ? Buffer::kSend : Buffer::kRecv;
  slots.block_bytes = mean(slots[most].bytes, std::max(sends, receives));
  if (task.plan.relays) return {};  // only the ranks on the way know what passes through this one
  scratch_bytes_.clear();
  for (const Block& block : program.scratch)
    scratch_bytes_.push_back(slots[Buffer::kRecv].bytes[block.origin]);
  return bind_scratch_slots(slots);
}

/// Slot by slot, since only the receiver knows in which of its slots a block belongs.
Status CallSlots::bind_neighbors(const Task& task) {
  const CallArguments& arguments = task.arguments;
  const Shape& shape = group_.shape();
  const RankProgram& program = *task.plan.program;
  const size_t sends = program.send_slots(shape), receives = program.recv_slots(shape);
  if (is_unequal(arguments.collective)) {
    bind_lists(arguments, task.slots);
    task.slots.block_bytes = mean(task.slots[Buffer::kRecv].bytes, receives);
    return {};
  }
  task.slots.block_bytes = arguments.block_bytes;
  slot_bytes_.assign(std::max(sends, receives), arguments.block_bytes);
  slot_offsets_.resize(slot_bytes_.size());
  std::exclusive_scan(slot_bytes_.begin(), slot_bytes_.end(), slot_offsets_.begin(), uint64_t{0});
  for (const Buffer buffer : {Buffer::kSend, Buffer::kRecv}) {
    task.slots[buffer].offsets = slot_offsets_.data();
    task.slots[buffer].bytes = slot_bytes_.data();
  }
  scratch_bytes_.assign(program.scratch.size(), arguments.block_bytes);
  return bind_scratch_slots(task.slots);
}

/// Memory for a copy of what is to be sent.
Status CallSlots::bind_aside(size_t bytes, SlotMemory& slots) {
  aside_bytes_ = bytes;
  IBCOLL_ASSIGN(aside_, group_.services().scratch.take(bytes));
  slots[Buffer::kSend].base = aside_;
  return {};
}

Status CallSlots::bind_scratch(std::span<const uint64_t> bytes, SlotMemory& slots) {
  scratch_bytes_.assign(bytes.begin(), bytes.end());
  return bind_scratch_slots(slots);
}

/// Memory for scratch slots of scratch_bytes_.
Status CallSlots::bind_scratch_slots(SlotMemory& slots) {
  if (scratch_bytes_.empty()) return {};
  scratch_offsets_.resize(scratch_bytes_.size());
  std::exclusive_scan(scratch_bytes_.begin(), scratch_bytes_.end(), scratch_offsets_.begin(),
                      uint64_t{0});
  IBCOLL_ASSIGN(scratch_,
                group_.services().scratch.take(scratch_offsets_.back() + scratch_bytes_.back()));
  slots[Buffer::kScratch] = {scratch_, scratch_offsets_.data(), scratch_bytes_.data()};
  return {};
}

void CallSlots::copy_aside(const CallArguments& arguments, const CallBlocks* blocks) {
  if (blocks != nullptr && blocks->pack(Buffer::kRecv, aside_)) return;
  const auto* recv = static_cast<const std::byte*>(arguments.recv);
  if (!is_unequal(arguments.collective) || reduces(arguments.collective)) {
    std::memcpy(aside_, recv, aside_bytes_);
    return;
  }
  for (int i = 0; i < group_.size(); ++i) {
    if (arguments.recv_counts[i] == 0) continue;
    std::memcpy(aside_ + send_offsets_[i], recv + arguments.recv_displacements[i],
                arguments.recv_counts[i]);
  }
}

void CallSlots::release() {
  for (std::byte** const memory : {&scratch_, &aside_}) {
    if (*memory != nullptr) group_.services().scratch.put(*memory);
    *memory = nullptr;
  }
}

}  // namespace ibcoll
