#include "engine/core/bound_call.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/base/hash.h"

namespace ibcoll {
namespace {

constexpr uint64_t kStart = 0;  ///< where the only block of a side begins

/// What stands for the size of a call's blocks where all ranks pass the same counts.
uint64_t hash_of(const int64_t* counts, int ranks) {
  uint64_t hash = 0;
  for (int i = 0; i < ranks; ++i) hash = mix(hash, static_cast<uint64_t>(counts[i]));
  return hash;
}

/// Checked to be not negative, so they may be read as unsigned.
const uint64_t* unsigned_of(const int64_t* counts) {
  return reinterpret_cast<const uint64_t*>(counts);
}

uint64_t mean(const uint64_t* bytes, size_t slots) {
  return slots == 0 ? 0 : std::accumulate(bytes, bytes + slots, uint64_t{0}) / slots;
}

}  // namespace

Status BoundCall::bind(const CallArguments& arguments) {
  arguments_ = arguments;
  arguments_.options.ordered |= !arguments.reduction.commutes;
  if (arguments.send_blocks != nullptr || arguments.recv_blocks != nullptr) [[unlikely]]
    take_blocks();
  const CallArguments& given = arguments_;
  const CollectiveTraits& row = traits(given.collective);
  const bool unequal = row.unequal;
  const bool scatters_sums = row.recv.lengths == Lengths::kElements;
  const uint64_t size = scatters_sums ? hash_of(given.recv_counts, group_.size())
                        : unequal     ? CallMeaning::kUnequal
                                      : given.block_bytes;
  const int64_t plan_bytes = scatters_sums ? mean_bytes(given, group_.size())
                             : unequal     ? -1
                                           : static_cast<int64_t>(given.block_bytes);
  std::span<const int64_t> counts;  // that all ranks know
  if (row.recv.lists() && row.knows_all_lengths) {
    counts = {given.recv_counts, static_cast<size_t>(group_.size())};
  }
  IBCOLL_ASSIGN(const CallPlan* plan,
                group_.plans().find(given.collective, plan_bytes, row.has_root ? given.root : 0,
                                    given.options, counts));
  // Most calls are like the one before.
  bool told = plan_.is_same(*plan);
  if (!told) plan_ = *plan;
  // Member by member: clearing the whole takes a tenth of a small call.
  binding_.pieces = plan_.pieces;
  // Parts of blocks may lie in scratch, whose slots know their lengths.
  // Of neighbours the places travel with the exposures.
  binding_.unequal = unequal || row.has_graph || plan_.program->has_uneven_slots();
  binding_.reduction = &given.reduction;
  binding_.grain = given.reduction.element_bytes;
  binding_.eager =
      !binding_.unequal && static_cast<int64_t>(given.block_bytes) <= plan_.eager_block_bytes;
  binding_.one_way = row.one_way;
  binding_[Buffer::kRecv] = {static_cast<std::byte*>(given.recv), nullptr, nullptr};
  binding_[Buffer::kSend] = {static_cast<std::byte*>(const_cast<void*>(given.send)), nullptr,
                             nullptr};
  binding_[Buffer::kScratch] = {nullptr, nullptr, nullptr};
  told = told && binding_.told != nullptr && meaning_.block_bytes == size &&
         meaning_.purpose == given.purpose && reduction_ == given.reduction.meaning;
  if (!told) {
    tell_meaning(size);
    short_.forget();
  }
  IBCOLL_TRY(!binding_.unequal                   ? bind_equal()
             : plan_.program->has_uneven_slots() ? bind_parts()
             : row.reduces                       ? bind_side_by_side()
             : row.has_graph                     ? bind_neighbors()
                                                 : bind_unequal());
  if (!has_blocks_) [[likely]]
    return {};
  return blocks_->bind(group_.services().scratch, *plan_.program, given, binding_);
}

/// Puts their counts in the place of blocks that have layouts of the program's own.
void BoundCall::take_blocks() {
  if (blocks_ == nullptr) blocks_ = std::make_unique<CallBlocks>();
  has_blocks_ = true;  // not before there was memory for them: release() gives back what they have
  blocks_->take(group_.shape(), group_.rank(), arguments_);
}

/// What the program's hash does not say of the call and all ranks must mean alike.
void BoundCall::tell_meaning(uint64_t block_bytes) {
  meaning_.set_algorithm(plan_.program->algorithm);
  reduction_ = arguments_.reduction.meaning;
  const GroupIdentity& group = group_.identity();
  meaning_.element = meaning_.op = CallMeaning::kUnknown;
  if (reduction_ != 0) {
    meaning_.element = static_cast<uint8_t>(arguments_.reduction.element());
    meaning_.op = static_cast<uint8_t>(arguments_.reduction.op());
    meaning_.identifier = arguments_.reduction.identifier();
  }
  meaning_.block_bytes = block_bytes;
  meaning_.root = has_root(arguments_.collective) ? arguments_.root : -1;
  meaning_.pieces = static_cast<uint16_t>(std::min<uint32_t>(plan_.pieces, UINT16_MAX));
  meaning_.number = group.number;
  meaning_.calls = group.calls;
  meaning_.collective = static_cast<uint8_t>(arguments_.collective);
  meaning_.pacing = static_cast<uint8_t>(plan_.options.pacing) & 0xf;
  meaning_.purpose = arguments_.purpose;
  meaning_.ordered = plan_.options.ordered;
  const uint64_t sizes = mix(mix(0, meaning_.block_bytes), plan_.pieces);
  uint64_t meant = mix(sizes, reduction_);
  if (meaning_.purpose != CallPurpose::kProgram)
    meant = mix(meant, static_cast<uint64_t>(meaning_.purpose));
  binding_.meaning = static_cast<uint32_t>(meant) ^ group.history;
  binding_.told = &meaning_;
}

Status BoundCall::bind_equal() {
  const uint32_t cut = plan_.program->cut;
  binding_.block_bytes = cut_slot_bytes(arguments_.block_bytes, cut);
  binding_.limit = cut > 1 ? arguments_.block_bytes : UINT64_MAX;
  if (!plan_.program->scratch.empty()) {
    IBCOLL_ASSIGN(scratch_, group_.services().scratch.take(plan_.program->scratch.size() *
                                                           arguments_.block_bytes));
    binding_[Buffer::kScratch].base = scratch_;
  }
  return arguments_.in_place ? bind_in_place() : Status();
}

/// The buffer that the call has not is a block of the other one, or a copy of it.
Status BoundCall::bind_in_place() {
  const RankProgram& program = *plan_.program;
  const uint64_t block = arguments_.block_bytes;
  const InPlace in_place = traits(arguments_.collective).in_place;
  if (in_place == InPlace::kAside)
    return bind_aside(program.send_slots(group_.shape()) / program.cut * block);
  const bool keeps = in_place == InPlace::kSend;
  std::byte* const base = binding_[keeps ? Buffer::kSend : Buffer::kRecv].base;
  binding_[keeps ? Buffer::kRecv : Buffer::kSend].base =
      base + static_cast<size_t>(group_.rank()) * block;
  return {};
}

/// Slots that are parts of blocks of one length.
Status BoundCall::bind_parts() {
  const RankProgram& program = *plan_.program;
  const Shape& shape = group_.shape();
  const uint64_t block = arguments_.block_bytes;
  const uint32_t element = arguments_.reduction.element_bytes;
  const size_t sends = program.send_slots(shape), receives = program.recv_slots(shape);
  if (has_blocks_) {
    return fail(ErrorCode::kUnsupported,
                "{} cuts blocks into {} parts, which blocks that have layouts are not",
                program.algorithm, program.cut);
  }
  slot_offsets_.resize(std::max(sends, receives));
  slot_bytes_.resize(slot_offsets_.size());
  for (size_t slot = 0; slot < slot_offsets_.size(); ++slot) {
    slot_offsets_[slot] = cut_offset(block, program.cut, slot, element);
    slot_bytes_[slot] = cut_offset(block, program.cut, slot + 1, element) - slot_offsets_[slot];
  }
  binding_.block_bytes = block / program.cut;
  binding_.limit = UINT64_MAX;
  for (const Buffer buffer : {Buffer::kSend, Buffer::kRecv}) {
    binding_[buffer].offsets = slot_offsets_.data();
    binding_[buffer].bytes = slot_bytes_.data();
  }
  if (arguments_.in_place) IBCOLL_TRY(bind_in_place());
  if (program.scratch.empty()) return {};
  scratch_bytes_.clear();
  for (const Block& part : program.scratch) {
    scratch_bytes_.push_back(slot_bytes_[part_number(part, program.cut)]);
  }
  return bind_scratch_slots();
}

/// Slots that lie side by side, and of which every rank knows the lengths.
Status BoundCall::bind_side_by_side() {
  const RankProgram& program = *plan_.program;
  const auto me = static_cast<size_t>(group_.rank());
  const auto slots = static_cast<uint32_t>(group_.size());
  const uint32_t element = arguments_.reduction.element_bytes;
  slot_bytes_.resize(slots);
  slot_offsets_.resize(slots);
  for (uint32_t slot = 0; slot < slots; ++slot)
    slot_bytes_[slot] = static_cast<uint64_t>(arguments_.recv_counts[slot]) * element;
  std::exclusive_scan(slot_bytes_.begin(), slot_bytes_.end(), slot_offsets_.begin(), uint64_t{0});
  const uint64_t total = slot_offsets_.back() + slot_bytes_.back();
  binding_.block_bytes = total / slots;
  binding_.limit = UINT64_MAX;
  binding_[Buffer::kSend].offsets = slot_offsets_.data();
  binding_[Buffer::kSend].bytes = slot_bytes_.data();
  binding_[Buffer::kRecv].offsets = &kStart;
  binding_[Buffer::kRecv].bytes = slot_bytes_.data() + me;
  if (arguments_.in_place) IBCOLL_TRY(bind_aside(total));
  if (program.scratch.empty()) return {};
  scratch_bytes_.clear();
  for (const Block& block : program.scratch)
    scratch_bytes_.push_back(slot_bytes_[static_cast<size_t>(block.target)]);
  return bind_scratch_slots();
}

Status BoundCall::bind_unequal() {
  const Shape& shape = group_.shape();
  const RankProgram& program = *plan_.program;
  const auto ranks = static_cast<size_t>(shape.ranks());
  const size_t sends = program.send_slots(shape), receives = program.recv_slots(shape);
  bind_lists();
  const InPlace in_place = traits(arguments_.collective).in_place;
  if (arguments_.in_place && in_place == InPlace::kAside) {
    send_offsets_.resize(ranks);
    const uint64_t* bytes = binding_[Buffer::kRecv].bytes;
    std::exclusive_scan(bytes, bytes + ranks, send_offsets_.begin(), uint64_t{0});
    IBCOLL_TRY(bind_aside(send_offsets_.back() + bytes[ranks - 1]));
    binding_[Buffer::kSend].offsets = send_offsets_.data();
    binding_[Buffer::kSend].bytes = bytes;
  } else if (arguments_.in_place) {
    const auto me = static_cast<size_t>(group_.rank());
    const bool keeps = in_place == InPlace::kSend;
    const BufferBinding& all = binding_[keeps ? Buffer::kSend : Buffer::kRecv];
    binding_[keeps ? Buffer::kRecv : Buffer::kSend] = {all.base, all.offsets + me, all.bytes + me};
  }
  const Buffer most = sends > receives ? Buffer::kSend : Buffer::kRecv;
  binding_.block_bytes = mean(binding_[most].bytes, std::max(sends, receives));
  if (!plan_.relays) return bind_known_scratch();
  return lengths_.take(group_.services().scratch, shape, program);
}

/// Slot by slot, since only the receiver knows in which of its slots a block belongs.
Status BoundCall::bind_neighbors() {
  const Shape& shape = group_.shape();
  const RankProgram& program = *plan_.program;
  const size_t sends = program.send_slots(shape), receives = program.recv_slots(shape);
  if (is_unequal(arguments_.collective)) {
    bind_lists();
    binding_.block_bytes = mean(binding_[Buffer::kRecv].bytes, receives);
    return plan_.relays ? lengths_.take(group_.services().scratch, shape, program) : Status{};
  }
  binding_.block_bytes = arguments_.block_bytes;
  slot_bytes_.assign(std::max(sends, receives), arguments_.block_bytes);
  slot_offsets_.resize(slot_bytes_.size());
  std::exclusive_scan(slot_bytes_.begin(), slot_bytes_.end(), slot_offsets_.begin(), uint64_t{0});
  for (const Buffer buffer : {Buffer::kSend, Buffer::kRecv}) {
    binding_[buffer].offsets = slot_offsets_.data();
    binding_[buffer].bytes = slot_bytes_.data();
  }
  scratch_bytes_.assign(program.scratch.size(), arguments_.block_bytes);
  return scratch_bytes_.empty() ? Status{} : bind_scratch_slots();
}

/// The lengths and places of blocks, as the program gives them.
void BoundCall::bind_lists() {
  const CollectiveTraits& row = traits(arguments_.collective);
  const auto bind_side = [&](Buffer buffer, bool lists, const int64_t* counts,
                             const int64_t* displacements) {
    binding_[buffer].bytes = unsigned_of(lists ? counts : &arguments_.own_count);
    binding_[buffer].offsets = lists ? unsigned_of(displacements) : &kStart;
  };
  bind_side(Buffer::kSend, row.send.lists(), arguments_.send_counts, arguments_.send_displacements);
  bind_side(Buffer::kRecv, row.recv.lists(), arguments_.recv_counts, arguments_.recv_displacements);
}

/// Memory for a copy of what is to be sent.
Status BoundCall::bind_aside(size_t bytes) {
  aside_bytes_ = bytes;
  IBCOLL_ASSIGN(aside_, group_.services().scratch.take(bytes));
  binding_[Buffer::kSend].base = aside_;
  return {};
}

/// Scratch of an allgatherv, of which every rank knows all lengths.
Status BoundCall::bind_known_scratch() {
  const std::vector<Block>& blocks = plan_.program->scratch;
  if (blocks.empty()) return {};
  scratch_bytes_.clear();
  for (const Block& block : blocks) {
    scratch_bytes_.push_back(binding_[Buffer::kRecv].bytes[block.origin]);
  }
  return bind_scratch_slots();
}

/// Memory for scratch slots of scratch_bytes_.
Status BoundCall::bind_scratch_slots() {
  scratch_offsets_.resize(scratch_bytes_.size());
  std::exclusive_scan(scratch_bytes_.begin(), scratch_bytes_.end(), scratch_offsets_.begin(),
                      uint64_t{0});
  IBCOLL_ASSIGN(scratch_,
                group_.services().scratch.take(scratch_offsets_.back() + scratch_bytes_.back()));
  binding_[Buffer::kScratch] = {scratch_, scratch_offsets_.data(), scratch_bytes_.data()};
  return {};
}

Status BoundCall::take_lengths() {
  IBCOLL_ASSIGN(const std::span<const uint64_t> scratch,
                lengths_.end(group_, *plan_.program, binding_[Buffer::kRecv].bytes));
  if (scratch.empty()) return {};
  scratch_bytes_.assign(scratch.begin(), scratch.end());
  return bind_scratch_slots();
}

/// Copies what is to be sent, and lies where other data is to land.
void BoundCall::copy_aside() {
  if (has_blocks_ && blocks_->pack(Buffer::kRecv, aside_)) return;
  const auto* recv = static_cast<const std::byte*>(arguments_.recv);
  if (!is_unequal(arguments_.collective) || reduces(arguments_.collective)) {
    std::memcpy(aside_, recv, aside_bytes_);
    return;
  }
  for (int i = 0; i < group_.size(); ++i) {
    if (arguments_.recv_counts[i] == 0) continue;
    std::memcpy(aside_ + send_offsets_[i], recv + arguments_.recv_displacements[i],
                arguments_.recv_counts[i]);
  }
}

void BoundCall::give_back() {
  ScratchPool& pool = group_.services().scratch;
  for (std::byte** const memory : {&scratch_, &aside_}) {
    if (*memory != nullptr) pool.put(*memory);
    *memory = nullptr;
  }
  lengths_.release(pool);
  if (has_blocks_) blocks_->release(pool);
  has_blocks_ = false;
  arguments_.keeps.reset();
}

}  // namespace ibcoll
