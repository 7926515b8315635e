#include "engine/core/call.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/base/clock.h"
#include "engine/base/hash.h"

namespace ibcoll {
namespace {

/// What stands for the size of a call's blocks where all ranks pass the same counts.
uint64_t hash_of(const int64_t* counts, int ranks) {
  uint64_t hash = 0;
  for (int i = 0; i < ranks; ++i) hash = mix(hash, static_cast<uint64_t>(counts[i]));
  return hash;
}

}  // namespace

Status Call::prepare(const CallArguments& arguments) {
  if (group_->state().over) [[unlikely]]
    return tl::unexpected<Error>(*group_->state().over);
  IBCOLL_TRY(check_arguments(group_->shape(), group_->rank(), arguments));
  release();
  arguments_ = arguments;
  arguments_.options.ordered |= !arguments.reduction.commutes;
  is_special_ = arguments.send_blocks != nullptr || arguments.recv_blocks != nullptr || checks_;
  if (is_special_) [[unlikely]]
    take_blocks();
  Status bound = choose_and_bind();
  // The others have no part in that and would wait for this rank.
  if (!bound && bound.error().code == ErrorCode::kNoMemory) return give_up(bound.error());
  return bound;
}

void Call::take_blocks() {
  const bool has_blocks = arguments_.send_blocks != nullptr || arguments_.recv_blocks != nullptr;
  has_blocks_ = false;
  if (!has_blocks) return;
  if (blocks_ == nullptr) blocks_ = std::make_unique<CallBlocks>();
  has_blocks_ = true;  // not before there was memory for them: release() gives back what they have
  blocks_->take(group_->shape(), group_->rank(), arguments_);
}

Status Call::give_up(const Error& error) {
  return tl::unexpected<Error>(group_->context().executor().give_up(
      {error.code, fmt::format("{}, for {}", error.message, to_string(arguments_.collective))}));
}

/// Chooses the program and takes the memory.
Status Call::choose_and_bind() {
  const CallArguments& arguments = arguments_;
  const CollectiveTraits& row = traits(arguments.collective);
  const bool unequal = row.unequal;
  const bool scatters_sums = row.recv.lengths == Lengths::kElements;
  const uint64_t size = scatters_sums ? hash_of(arguments.recv_counts, group_->size())
                        : unequal     ? CallMeaning::kUnequal
                                      : arguments.block_bytes;
  const int64_t plan_bytes = scatters_sums ? mean_bytes(arguments, group_->size())
                             : unequal     ? -1
                                           : static_cast<int64_t>(arguments.block_bytes);
  std::span<const int64_t> counts;  // that all ranks know
  if (row.recv.lists() && row.knows_all_lengths) {
    counts = {arguments.recv_counts, static_cast<size_t>(group_->size())};
  }
  IBCOLL_ASSIGN(const CallPlan* plan,
                group_->call_plan(arguments.collective, plan_bytes,
                                  row.has_root ? arguments.root : 0, arguments.options, counts));
  // Most calls are like the one before.
  bool told = plan_.is_same(*plan);
  if (!told) plan_ = *plan;
  // Member by member: clearing the whole takes a tenth of a small call.
  binding_.pieces = plan_.pieces;
  // Parts of a block that is reduced are combined in scratch, whose slots know their lengths.
  // Of neighbours the places travel with the exposures.
  binding_.unequal = unequal || row.has_graph || (plan_.program->cut > 1 && row.reduces);
  binding_.reduction = &arguments.reduction;
  binding_.grain = arguments.reduction.element_bytes;
  binding_.eager =
      !binding_.unequal && static_cast<int64_t>(arguments.block_bytes) <= plan_.eager_block_bytes;
  binding_.one_way = row.one_way;
  binding_[Buffer::kRecv] = {static_cast<std::byte*>(arguments.recv), nullptr, nullptr};
  binding_[Buffer::kSend] = {static_cast<std::byte*>(const_cast<void*>(arguments.send)), nullptr,
                             nullptr};
  binding_[Buffer::kScratch] = {nullptr, nullptr, nullptr};
  told = told && binding_.told != nullptr && meaning_.block_bytes == size &&
         meaning_.purpose == arguments.purpose && reduction_ == arguments.reduction.meaning;
  if (!told) tell_meaning(size);
  IBCOLL_TRY(!binding_.unequal ? bind_equal()
             : row.reduces     ? bind_side_by_side()
             : row.has_graph   ? bind_neighbors()
                               : bind_unequal());
  if (is_special_) [[unlikely]] {
    if (has_blocks_)
      IBCOLL_TRY(blocks_->bind(group_->context().scratch(), *plan_.program, arguments_, binding_));
    if (checks_) IBCOLL_TRY(prepare_check());
  }
  prepared_ = true;
  return {};
}

/// What the program's hash does not say of the call and all ranks must mean alike.
void Call::tell_meaning(uint64_t block_bytes) {
  meaning_.set_algorithm(plan_.program->algorithm);
  reduction_ = arguments_.reduction.meaning;
  const GroupIdentity& group = group_->identity();
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

Status Call::bind_equal() {
  const uint32_t cut = plan_.program->cut;
  binding_.block_bytes = cut_slot_bytes(arguments_.block_bytes, cut);
  binding_.limit = cut > 1 ? arguments_.block_bytes : UINT64_MAX;
  if (!plan_.program->scratch.empty()) {
    IBCOLL_ASSIGN(scratch_, group_->context().scratch().take(plan_.program->scratch.size() *
                                                             arguments_.block_bytes));
    binding_[Buffer::kScratch].base = scratch_;
  }
  if (!arguments_.in_place) return {};
  const size_t own = static_cast<size_t>(group_->rank()) * arguments_.block_bytes;
  const InPlace in_place = traits(arguments_.collective).in_place;
  if (in_place == InPlace::kAside) {
    return bind_in_place(plan_.program->send_slots(group_->shape()) * arguments_.block_bytes);
  }
  const bool keeps = in_place == InPlace::kSend;
  std::byte* base = binding_[keeps ? Buffer::kSend : Buffer::kRecv].base;
  binding_[keeps ? Buffer::kRecv : Buffer::kSend].base = base + own;
  return {};
}

/// Slots that lie side by side, and of which every rank knows the lengths.
Status Call::bind_side_by_side() {
  const RankProgram& program = *plan_.program;
  const auto me = static_cast<size_t>(group_->rank());
  const bool parts = program.cut > 1;
  const auto slots = parts ? program.cut : static_cast<uint32_t>(group_->size());
  const uint32_t element = arguments_.reduction.element_bytes;
  slot_bytes_.resize(slots);
  slot_offsets_.resize(slots);
  for (uint32_t slot = 0; slot < slots; ++slot) {
    slot_bytes_[slot] = parts ? cut_bytes(arguments_.block_bytes, program.cut, slot, 1, element)
                              : static_cast<uint64_t>(arguments_.recv_counts[slot]) * element;
  }
  std::exclusive_scan(slot_bytes_.begin(), slot_bytes_.end(), slot_offsets_.begin(), uint64_t{0});
  const uint64_t total = slot_offsets_.back() + slot_bytes_.back();
  binding_.block_bytes = total / slots;
  binding_.limit = UINT64_MAX;
  binding_[Buffer::kSend].offsets = slot_offsets_.data();
  binding_[Buffer::kSend].bytes = slot_bytes_.data();
  static constexpr uint64_t kStart = 0;
  binding_[Buffer::kRecv].offsets = parts ? slot_offsets_.data() : &kStart;
  binding_[Buffer::kRecv].bytes = parts ? slot_bytes_.data() : slot_bytes_.data() + me;
  if (arguments_.in_place) IBCOLL_TRY(bind_in_place(total));
  if (program.scratch.empty()) return {};
  scratch_bytes_.clear();
  for (const Block& block : program.scratch) {
    const Rank slot = parts ? Block::kFirstPart - block.target : block.target;
    scratch_bytes_.push_back(slot_bytes_[static_cast<size_t>(slot)]);
  }
  return take_scratch_slots();
}

/// Memory for a copy of what is to be sent.
Status Call::bind_in_place(size_t bytes) {
  in_place_bytes_ = bytes;
  IBCOLL_ASSIGN(in_place_, group_->context().scratch().take(bytes));
  binding_[Buffer::kSend].base = in_place_;
  return {};
}

Status Call::bind_unequal() {
  const Shape& shape = group_->shape();
  const RankProgram& program = *plan_.program;
  const auto ranks = static_cast<size_t>(shape.ranks());
  const size_t sends = program.send_slots(shape), receives = program.recv_slots(shape);
  const auto bind = [this](Buffer buffer, const int64_t* counts, const int64_t* displacements) {
    // Checked to be not negative, so they may be read as unsigned.
    binding_[buffer].bytes = reinterpret_cast<const uint64_t*>(counts);
    binding_[buffer].offsets = reinterpret_cast<const uint64_t*>(displacements);
  };
  static constexpr int64_t kStart = 0;
  const CollectiveTraits& row = traits(arguments_.collective);
  const bool aside = row.in_place == InPlace::kAside, keeps = row.in_place == InPlace::kSend;
  if (row.send.lists()) {
    bind(Buffer::kSend, arguments_.send_counts, arguments_.send_displacements);
  } else {
    bind(Buffer::kSend, &arguments_.own_count, &kStart);
  }
  if (row.recv.lists()) {
    bind(Buffer::kRecv, arguments_.recv_counts, arguments_.recv_displacements);
  } else {
    bind(Buffer::kRecv, &arguments_.own_count, &kStart);
  }
  if (arguments_.in_place && aside) {
    send_offsets_.resize(ranks);
    const uint64_t* bytes = binding_[Buffer::kRecv].bytes;
    std::exclusive_scan(bytes, bytes + ranks, send_offsets_.begin(), uint64_t{0});
    IBCOLL_TRY(bind_in_place(send_offsets_.back() + bytes[ranks - 1]));
    binding_[Buffer::kSend].offsets = send_offsets_.data();
    binding_[Buffer::kSend].bytes = bytes;
  } else if (arguments_.in_place) {
    const auto me = static_cast<size_t>(group_->rank());
    const BufferBinding& all = binding_[keeps ? Buffer::kSend : Buffer::kRecv];
    binding_[keeps ? Buffer::kRecv : Buffer::kSend] = {all.base, all.offsets + me, all.bytes + me};
  }
  const BufferBinding& most = binding_[sends > receives ? Buffer::kSend : Buffer::kRecv];
  const size_t slots = std::max(sends, receives);
  binding_.block_bytes =
      slots == 0 ? 0 : std::accumulate(most.bytes, most.bytes + slots, uint64_t{0}) / slots;
  // Whether or not this rank holds blocks of others: all ranks must take part in the first phase.
  if (!plan_.relays) return bind_known_scratch();
  IBCOLL_ASSIGN(lengths_, group_->context().scratch().take(
                              std::max<size_t>(1, sends + receives + program.scratch.size()) *
                              sizeof(uint64_t)));
  return {};
}

/// Scratch of an allgatherv, of which every rank knows all lengths.
Status Call::bind_known_scratch() {
  const std::vector<Block>& blocks = plan_.program->scratch;
  if (blocks.empty()) return {};
  scratch_bytes_.clear();
  for (const Block& block : blocks) {
    scratch_bytes_.push_back(binding_[Buffer::kRecv].bytes[block.origin]);
  }
  return take_scratch_slots();
}

/// Memory for scratch slots of scratch_bytes_.
Status Call::take_scratch_slots() {
  scratch_offsets_.resize(scratch_bytes_.size());
  std::exclusive_scan(scratch_bytes_.begin(), scratch_bytes_.end(), scratch_offsets_.begin(),
                      uint64_t{0});
  IBCOLL_ASSIGN(scratch_,
                group_->context().scratch().take(scratch_offsets_.back() + scratch_bytes_.back()));
  binding_[Buffer::kScratch] = {scratch_, scratch_offsets_.data(), scratch_bytes_.data()};
  return {};
}

Status Call::start() {
  Executor& executor = group_->context().executor();
  if (executor.failed()) [[unlikely]]
    return tl::unexpected<Error>(*executor.failed());
  if (group_->state().over) [[unlikely]]
    return tl::unexpected<Error>(*group_->state().over);
  if (!prepared_) return fail(ErrorCode::kInvalidArgument, "the call has no arguments yet");
  if (under_way())
    return fail(ErrorCode::kInvalidArgument, "the call is under way already: wait for it first");
  if (in_place_ != nullptr) copy_aside();
  failure_ = {};
  binding_.time_limit_ns = arguments_.time_limit_ns;
  binding_.deadline_ns = arguments_.time_limit_ns == 0 ? 0 : now_ns() + arguments_.time_limit_ns;
  started_ = true;
  if (is_special_) [[unlikely]]
    return start_special();
  return start_phases();
}

Status Call::start_special() {
  if (has_blocks_) blocks_->start();
  return check_ != nullptr ? start_checked() : start_phases();
}

Status Call::start_phases() {
  if (lengths_ == nullptr || lengths_known_) return start_data(nullptr);
  // Both phases get their place in the group's order of calls now: other calls may be posted before
  // the second one is.
  const uint32_t sequence = group_->next_sequence();
  data_sequence_ = group_->next_sequence();
  return start_lengths(sequence);
}

Status Call::start_lengths(uint32_t sequence) {
  const Shape& shape = group_->shape();
  const size_t sends = plan_.program->send_slots(shape) * sizeof(uint64_t);
  const size_t receives = plan_.program->recv_slots(shape) * sizeof(uint64_t);
  if (sends > 0) std::memcpy(lengths_, binding_[Buffer::kSend].bytes, sends);
  Binding lengths;
  lengths.block_bytes = sizeof(uint64_t);
  lengths.pieces = 1;
  lengths.meaning = binding_.meaning ^ 0x6c656e67u;  // never to be taken for the data
  lengths.told = &meaning_;
  lengths.time_limit_ns = binding_.time_limit_ns;
  lengths.deadline_ns = binding_.deadline_ns;
  lengths.one_way = binding_.one_way;
  lengths.eager = static_cast<int64_t>(lengths.block_bytes) <= plan_.eager_block_bytes;
  lengths[Buffer::kSend].base = lengths_;
  lengths[Buffer::kRecv].base = lengths_ + sends;
  lengths[Buffer::kScratch].base = lengths_ + sends + receives;
  if (has_graph(arguments_.collective)) place_lengths(lengths);
  completion_.then = after_lengths;
  return group_->context().executor().post(group_->state(), *plan_.program, lengths, completion_,
                                           sequence);
}

Status Call::start_data(void (*then)(void* call)) {
  completion_.then = then;
  Executor& executor = group_->context().executor();
  const uint32_t sequence = data_sequence_ ? *data_sequence_ : group_->next_sequence();
  data_sequence_.reset();
  return executor.post(group_->state(), *plan_.program, binding_, completion_, sequence);
}

/// Copies what is to be sent, and lies where other data is to land.
void Call::copy_aside() {
  if (is_special_ && has_blocks_ && blocks_->pack(Buffer::kRecv, in_place_)) return;
  const auto* recv = static_cast<const std::byte*>(arguments_.recv);
  if (!is_unequal(arguments_.collective) || reduces(arguments_.collective)) {
    std::memcpy(in_place_, recv, in_place_bytes_);
    return;
  }
  for (int i = 0; i < group_->size(); ++i) {
    if (arguments_.recv_counts[i] == 0) continue;
    std::memcpy(in_place_ + send_offsets_[i], recv + arguments_.recv_displacements[i],
                arguments_.recv_counts[i]);
  }
}

/// Runs when the first phase has ended, from inside whatever makes progress.
void Call::after_lengths(void* call) {
  Call& self = *static_cast<Call*>(call);
  self.failure_ = self.take_lengths();
  if (self.failure_) self.failure_ = self.start_data(self.check_ != nullptr ? after_data : nullptr);
  if (self.failure_) return;
  self.failure_ = self.give_up(self.failure_.error());
  self.completion_.done = true;
}

/// Takes the slot lengths the first phase has brought, and the memory for them.
Status Call::take_lengths() {
  const RankProgram& program = *plan_.program;
  const Shape& shape = group_->shape();
  const size_t receives = program.recv_slots(shape);
  const auto* received = reinterpret_cast<const uint64_t*>(lengths_) + program.send_slots(shape);
  for (size_t i = 0; i < receives; ++i) {
    if (received[i] == binding_[Buffer::kRecv].bytes[i]) continue;
    const Rank origin = program.block(Buffer::kRecv, static_cast<uint32_t>(i)).origin;
    const Rank culprit = group_->state().to_job[origin];
    const std::string text =
        fmt::format("rank {} sends {} bytes where rank {} expects {} ({}, {})", culprit,
                    received[i], group_->context().rank(), binding_[Buffer::kRecv].bytes[i],
                    to_string(program.collective), program.algorithm);
    group_->context().executor().abort({culprit, ErrorCode::kMismatch, text});
    return fail(ErrorCode::kMismatch, "{}", text);
  }
  lengths_known_ = true;
  if (program.scratch.empty()) return {};
  scratch_bytes_.assign(received + receives, received + receives + program.scratch.size());
  return take_scratch_slots();
}

Result<bool> Call::test() {
  if (!started_) return true;
  IBCOLL_ASSIGN(bool done, group_->context().executor().test(completion_));
  if (is_special_ && done) [[unlikely]] {
    IBCOLL_ASSIGN(done, has_verdicts());
  }
  if (done) {
    started_ = false;
    if (!failure_) return tl::unexpected<Error>(failure_.error());
  }
  return done;
}

Status Call::wait() {
  if (!started_) return {};
  IBCOLL_TRY(group_->context().executor().wait(completion_));
  started_ = false;
  if (is_special_) [[unlikely]]
    IBCOLL_TRY(await_verdicts());
  return failure_;
}

void Call::rest() {
  const bool has_memory = scratch_ != nullptr || in_place_ != nullptr || lengths_ != nullptr;
  if (has_memory || is_special_ || arguments_.keeps != nullptr) release();
}

void Call::release() {
  const auto put_back = [this](std::byte*& memory) {
    if (memory != nullptr) group_->context().scratch().put(memory);
    memory = nullptr;
  };
  put_back(scratch_);
  put_back(in_place_);
  put_back(lengths_);
  if (is_special_) [[unlikely]] {
    if (has_blocks_) blocks_->release(group_->context().scratch());
    release_check();
  }
  arguments_.keeps.reset();
  lengths_known_ = false;
  prepared_ = false;
}

}  // namespace ibcoll
