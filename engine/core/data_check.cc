#include "engine/core/data_check.h"

#include <algorithm>
#include <cstring>

#include "engine/base/data_hash.h"
#include "engine/execute/linear_hash.h"
#include "engine/execute/same_elements.h"

namespace ibcoll {
namespace {

constexpr size_t kHashBytes = sizeof(uint64_t);

/// Whether an operator of the engine's gives the same bits in whichever order it combines.
bool is_exact(const Reduction& reduction) {
  switch (reduction.element()) {
    case ElementType::kFloat:
    case ElementType::kDouble:
    case ElementType::kLongDouble:
    case ElementType::kFloatComplex:
    case ElementType::kDoubleComplex:
    case ElementType::kLongDoubleComplex:
    case ElementType::kFloat16:
    case ElementType::kBfloat16:
      return false;
    default:
      return true;
  }
}

}  // namespace

DataCheck::DataCheck(Group& group) : group_(group.shared_from_this()), exchange_(group) {}

DataCheck::~DataCheck() { release(); }

DataCheck::Kind DataCheck::kind_of(const BoundCall& call) {
  const CallArguments& arguments = call.arguments();
  const CollectiveTraits& row = traits(arguments.collective);
  if (!row.moves_data) return Kind::kNone;
  if (!row.reduces) return Kind::kHashes;
  const Reduction& reduction = arguments.reduction;
  const bool known = reduction.meaning != 0 && reduction.op() < Operator::kOwn;
  if (known && has_linear_hash(reduction)) return Kind::kLinear;
  if (known && (is_exact(reduction) || call.plan().options.ordered)) return Kind::kAgain;
  const bool all_alike = row.combines == Combines::kOfAll && row.recv.target == End::kEveryone;
  return all_alike ? Kind::kAlike : Kind::kNone;
}

Status DataCheck::prepare(const BoundCall& call) {
  release();
  kind_ = kind_of(call);
  arguments_ = call.arguments();
  plan_ = call.plan();
  binding_ = call.binding();
  meaning_ = call.meaning();
  const Shape& shape = group_->shape();
  const Graph* const graph = arguments_.options.graph.get();
  const Rank me = group_->rank();
  sends_ = send_slots(arguments_.collective, shape, me, arguments_.root, graph);
  receives_ = recv_slots(arguments_.collective, shape, me, arguments_.root, graph);
  if (kind_ != Kind::kAgain) return prepare_exchange();
  IBCOLL_ASSIGN(memory_, group_->services().scratch.take(has_result() ? result_bytes() : 0));
  return {};
}

/// The call that carries the hashes, and the memory for what it sends and receives.
Status DataCheck::prepare_exchange() {
  CallArguments exchange;
  exchange.purpose = CallPurpose::kCheck;
  exchange.collective = traits(arguments_.collective).equal;
  exchange.root = arguments_.root;
  exchange.options.graph = arguments_.options.graph;
  exchange.block_bytes = kHashBytes;
  uint32_t sends = sends_, receives = receives_;
  if (kind_ == Kind::kLinear) {
    exchange.block_bytes = kLinearHashBytes;
    exchange.reduction = arguments_.reduction;
  } else if (kind_ == Kind::kAlike) {
    exchange.collective = Collective::kBcast;
    exchange.root = 0;
    sends = receives = 1;
  }
  received_.resize(kind_ == Kind::kLinear ? kLinearHashBytes / kHashBytes : receives);
  const size_t sent_bytes = sends * exchange.block_bytes;
  const size_t told_bytes = receives * exchange.block_bytes;
  IBCOLL_ASSIGN(memory_, group_->services().scratch.take(
                             std::max(sent_bytes + told_bytes, size_t{kHashBytes})));
  sent_ = memory_;
  told_ = memory_ + sent_bytes;
  if (has_one_buffer(exchange.collective)) told_ = sent_;
  exchange.send = sent_;
  exchange.recv = told_;
  return exchange_.bind(exchange);
}

void DataCheck::release() {
  exchange_.release();
  if (memory_ != nullptr) group_->services().scratch.put(memory_);
  memory_ = nullptr;
  plan_ = {};
  arguments_ = {};
}

void DataCheck::start(const std::byte* aside) {
  aside_ = aside;
  sent_hashed_ = received_hashed_ = false;
  // What is to be sent lies where data is to land.
  if (aside_ != nullptr) hash_sent();
}

uint64_t DataCheck::length(Buffer buffer, uint32_t block) const {
  const uint32_t cut = plan_.program->cut;
  return binding_.length(buffer, block * cut, cut);
}

uint64_t DataCheck::hash_of(Buffer buffer, uint32_t block) const {
  const uint32_t cut = plan_.program->cut;
  return hash_data(binding_.view(buffer, block * cut, cut), length(buffer, block));
}

/// Whether the block is what this rank sends to itself, both of which it has: looking at them once
/// together takes less time than hashing both.
bool DataCheck::compares_own(uint32_t block) const {
  return is_alltoall(arguments_.collective) && static_cast<Rank>(block) == group_->rank() &&
         aside_ == nullptr && !binding_.is_strided();
}

const std::byte* DataCheck::result() const {
  return static_cast<const std::byte*>(arguments_.recv);
}

uint64_t DataCheck::result_bytes() const {
  if (!is_unequal(arguments_.collective)) return arguments_.block_bytes;
  return static_cast<uint64_t>(arguments_.recv_counts[group_->rank()]) *
         arguments_.reduction.element_bytes;
}

void DataCheck::hash_sent() {
  if (sent_hashed_) return;
  sent_hashed_ = true;
  if (kind_ == Kind::kHashes) {
    // In place the block for a rank lies where that of it is to land.
    const Buffer buffer = aside_ != nullptr ? Buffer::kRecv : Buffer::kSend;
    for (uint32_t i = 0; i < sends_; ++i) {
      const uint64_t hash = compares_own(i) ? 0 : hash_of(buffer, i);
      std::memcpy(sent_ + i * kHashBytes, &hash, kHashBytes);
    }
  } else if (kind_ == Kind::kLinear) {
    const auto* data =
        static_cast<const std::byte*>(aside_ != nullptr ? arguments_.recv : arguments_.send);
    for (uint32_t i = 0; i < sends_; ++i) {
      const uint64_t bytes = length(Buffer::kSend, i);
      linear_hash(arguments_.reduction, data, bytes, sent_ + i * kLinearHashBytes);
      data += bytes;
    }
  }
}

void DataCheck::hash_received() {
  if (received_hashed_) return;
  received_hashed_ = true;
  if (kind_ == Kind::kHashes) {
    for (uint32_t i = 0; i < receives_; ++i) {
      received_[i] = !compares_own(i) ? hash_of(Buffer::kRecv, i)
                     : std::memcmp(binding_.address(Buffer::kSend, i * plan_.program->cut),
                                   binding_.address(Buffer::kRecv, i * plan_.program->cut),
                                   length(Buffer::kRecv, i)) == 0
                         ? 0
                         : 1;
    }
  } else if (kind_ == Kind::kLinear && has_result()) {
    linear_hash(arguments_.reduction, result(), result_bytes(),
                reinterpret_cast<std::byte*>(received_.data()));
  } else if (kind_ == Kind::kAlike) {
    received_[0] = hash_elements(arguments_.reduction, result(), result_bytes());
  }
}

Status DataCheck::post(Completion& completion, uint32_t sequence, int64_t time_limit_ns,
                       int64_t deadline_ns) {
  const bool again = kind_ == Kind::kAgain;
  if (kind_ == Kind::kAlike) {
    hash_received();
    if (group_->rank() == 0) std::memcpy(sent_, received_.data(), kHashBytes);
  }
  Binding binding = again ? binding_ : exchange_.binding();
  if (again) {
    constexpr uint32_t kSecond = 0x61676e32;  // never to be taken for the first one
    binding.meaning ^= kSecond;
    binding[Buffer::kRecv].base = memory_;
  }
  binding.time_limit_ns = time_limit_ns;
  binding.deadline_ns = deadline_ns;
  return group_->services().executor.post(
      group_->state(), again ? *plan_.program : exchange_.program(), binding, completion, sequence);
}

/// Ends the job: what came from rank `from` of the group is wrong.
Status DataCheck::report(Rank from, const std::string& what) {
  const std::string text =
      fmt::format("{} ({}): {} (IBCOLL_CHECK)", meaning_.name(), plan_.program->algorithm, what);
  group_->services().executor.abort({group_->state().to_job[from], ErrorCode::kMismatch, text});
  return fail(ErrorCode::kMismatch, "{}", text);
}

Status DataCheck::compare_hashes() {
  for (uint32_t i = 0; i < receives_; ++i) {
    uint64_t sent;
    std::memcpy(&sent, told_ + i * kHashBytes, kHashBytes);
    if (sent == received_[i]) continue;
    const Rank from = recv_block(arguments_.collective, group_->rank(), arguments_.root, i,
                                 arguments_.options.graph.get())
                          .origin;
    return report(from, fmt::format("rank {} has received other data than rank {} has sent to it: "
                                    "block {} of {}, hash {:016x} instead of {:016x}",
                                    group_->rank_in_job(), group_->state().to_job[from], i,
                                    receives_, received_[i], sent));
  }
  return {};
}

Status DataCheck::compare() {
  hash_received();
  if (kind_ == Kind::kHashes) return compare_hashes();
  if (!has_result()) return {};
  const Rank me = group_->rank_in_job();
  const Reduction& reduction = arguments_.reduction;
  const auto combined = [&] {
    return fmt::format("{} bytes of {} by {}", result_bytes(), to_string(reduction.element()),
                       to_string(reduction.op()));
  };
  if (kind_ == Kind::kLinear) {
    if (std::memcmp(told_, received_.data(), kLinearHashBytes) == 0) return {};
    return report(group_->rank(), fmt::format("the result of rank {} is not what all ranks have "
                                              "sent to it, combined: block 0 of 1, {}",
                                              me, combined()));
  }
  if (kind_ == Kind::kAgain) {
    const auto differs = first_difference(reduction, result(), memory_, result_bytes());
    if (!differs) return {};
    return report(group_->rank(), fmt::format("the result of rank {} is not what all ranks have "
                                              "sent to it, combined: block 0 of 1, from byte {} "
                                              "on it is another one than if it is made again, {}",
                                              me, *differs, combined()));
  }
  uint64_t first;
  std::memcpy(&first, told_, kHashBytes);
  if (first == received_[0]) return {};
  return report(0, fmt::format("the results of ranks {} and {} differ: block 0 of 1, {}",
                               group_->state().to_job[0], me, combined()));
}

}  // namespace ibcoll
