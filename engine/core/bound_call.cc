#include "engine/core/bound_call.h"

#include <algorithm>

#include "engine/base/hash.h"

namespace ibcoll {
namespace {

/// What stands for the size of a call's blocks where all ranks pass the same counts.
uint64_t hash_of(const int64_t* counts, int ranks) {
  uint64_t hash = 0;
  for (int i = 0; i < ranks; ++i) hash = mix(hash, static_cast<uint64_t>(counts[i]));
  return hash;
}

/// Whether lengths of blocks that pass through this rank are told before the data.
bool learns_lengths(const CollectiveTraits& row, const CallPlan& plan) {
  return plan.relays && row.unequal && !row.reduces;
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
  binding_.reduction = &given.reduction;
  binding_.grain = given.reduction.element_bytes;
  binding_.one_way = row.one_way;
  told = told && binding_.told != nullptr && meaning_.block_bytes == size &&
         meaning_.purpose == given.purpose && reduction_ == given.reduction.meaning;
  if (!told) {
    tell_meaning(size);
    short_.forget();
  }
  IBCOLL_TRY(slots_.bind(given, plan_, binding_));
  if (binding_.unequal) short_.forget();  // which lengths there are is not in `told`
  binding_.eager =
      !binding_.unequal && static_cast<int64_t>(given.block_bytes) <= plan_.eager_block_bytes;
  if (learns_lengths(row, plan_)) [[unlikely]] {
    IBCOLL_TRY(lengths_.take(group_.services().scratch, group_.shape(), *plan_.program));
  }
  return has_blocks_ ? bind_blocks() : Status();
}

/// Puts their counts in the place of blocks that have layouts of the program's own.
void BoundCall::take_blocks() {
  if (blocks_ == nullptr) blocks_ = std::make_unique<CallBlocks>();
  has_blocks_ = true;  // not before there was memory for them: release() gives back what they have
  blocks_->take(group_.shape(), group_.rank(), arguments_);
}

Status BoundCall::bind_blocks() {
  const RankProgram& program = *plan_.program;
  if (program.has_uneven_slots()) {
    return fail(ErrorCode::kUnsupported,
                "{} cuts blocks into {} parts, which blocks that have layouts are not",
                program.algorithm, program.cut);
  }
  return blocks_->bind(group_.services().scratch, program, arguments_, binding_);
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

Status BoundCall::take_lengths() {
  IBCOLL_ASSIGN(const std::span<const uint64_t> scratch,
                lengths_.end(group_, *plan_.program, binding_[Buffer::kRecv].bytes));
  return slots_.bind_scratch(scratch, binding_);
}

void BoundCall::give_back() {
  ScratchPool& pool = group_.services().scratch;
  slots_.release();
  lengths_.release(pool);
  if (has_blocks_) blocks_->release(pool);
  has_blocks_ = false;
  arguments_.keeps.reset();
}

}  // namespace ibcoll
