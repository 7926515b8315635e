#include "engine/core/call.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace ibcoll {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto a0 = reinterpret_cast<uintptr_t>(a), b0 = reinterpret_cast<uintptr_t>(b);
  return a_bytes != 0 && b_bytes != 0 && a0 < b0 + b_bytes && b0 < a0 + a_bytes;
}

Status check_buffer(const char* what, const void* buffer, size_t bytes, size_t limit) {
  if (bytes != 0 && buffer == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "the {} buffer is null, but {} bytes of it are used",
                what, bytes);
  }
  if (limit != 0 && bytes > limit) {
    return fail(ErrorCode::kInvalidArgument,
                "the {} buffer is too small: it has {} bytes, the call uses {}", what, limit,
                bytes);
  }
  return {};
}

/// Checks counts and displacements of one side; gives the end of the last block.
Result<size_t> extent(const char* what, const int64_t* counts, const int64_t* displacements,
                      int ranks) {
  if (counts == nullptr || displacements == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "the {} counts or displacements are null", what);
  }
  uint64_t end = 0, sum = 0;
  for (int i = 0; i < ranks; ++i) {
    if (counts[i] < 0 || displacements[i] < 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} count {} or displacement {} of rank {} is negative", what, counts[i],
                  displacements[i], i);
    }
    const uint64_t block_end =
        static_cast<uint64_t>(counts[i]) + static_cast<uint64_t>(displacements[i]);
    sum += static_cast<uint64_t>(counts[i]);
    if (block_end > kMaxBytes || sum > kMaxBytes) {
      return fail(ErrorCode::kInvalidArgument,
                  "the {} counts add up to more than 2^62 bytes at rank {}", what, i);
    }
    if (counts[i] != 0) end = std::max(end, block_end);
  }
  return end;
}

}  // namespace

/// Refuses what can't be right before anything is sent.
Status Call::check(const CallArguments& a) const {
  const auto ranks = static_cast<size_t>(group_->size());
  size_t send_bytes = 0, recv_bytes = 0;
  if (a.collective == Collective::kBarrier) return {};
  if (a.collective == Collective::kAlltoallv) {
    IBCOLL_ASSIGN(recv_bytes,
                  extent("receive", a.recv_counts, a.recv_displacements, group_->size()));
    if (!a.in_place) {
      IBCOLL_ASSIGN(send_bytes,
                    extent("send", a.send_counts, a.send_displacements, group_->size()));
    }
  } else {
    if (a.block_bytes > kMaxBytes / ranks) {
      return fail(ErrorCode::kInvalidArgument, "{} blocks of {} bytes are more than 2^62 bytes",
                  ranks, a.block_bytes);
    }
    recv_bytes = a.block_bytes * ranks;
    if (!a.in_place)
      send_bytes = a.collective == Collective::kAllgather ? a.block_bytes : recv_bytes;
  }
  IBCOLL_TRY(check_buffer("receive", a.recv, recv_bytes, a.recv_limit));
  IBCOLL_TRY(check_buffer("send", a.send, send_bytes, a.send_limit));
  if (overlap(a.send, send_bytes, a.recv, recv_bytes)) {
    return fail(ErrorCode::kInvalidArgument,
                "send and receive buffer overlap; for data in place pass IBCOLL_IN_PLACE");
  }
  return {};
}

Status Call::prepare(const CallArguments& arguments) {
  IBCOLL_TRY(check(arguments));
  release();
  arguments_ = arguments;
  const bool unequal = arguments.collective == Collective::kAlltoallv;
  IBCOLL_ASSIGN(plan_, group_->plan(arguments.collective,
                                    unequal ? -1 : static_cast<int64_t>(arguments.block_bytes),
                                    arguments.options));
  // Member by member: clearing the whole takes a tenth of a small call.
  binding_.pieces = plan_.pieces;
  binding_.unequal = unequal;
  binding_[Buffer::kRecv] = {static_cast<std::byte*>(arguments.recv), nullptr, nullptr};
  binding_[Buffer::kSend] = {static_cast<std::byte*>(const_cast<void*>(arguments.send)), nullptr,
                             nullptr};
  binding_[Buffer::kScratch] = {nullptr, nullptr, nullptr};
  IBCOLL_TRY(unequal ? bind_unequal() : bind_equal());
  prepared_ = true;
  return {};
}

Status Call::bind_equal() {
  binding_.block_bytes = arguments_.block_bytes;
  Context& context = group_->context();
  if (!plan_.program->scratch.empty()) {
    IBCOLL_ASSIGN(scratch_,
                  context.take_scratch(plan_.program->scratch.size() * arguments_.block_bytes));
    binding_[Buffer::kScratch].base = scratch_;
  }
  if (!arguments_.in_place) return {};
  std::byte* recv = static_cast<std::byte*>(arguments_.recv);
  if (arguments_.collective == Collective::kAllgather) {
    binding_[Buffer::kSend].base =
        recv + static_cast<size_t>(group_->rank()) * arguments_.block_bytes;
    return {};
  }
  in_place_bytes_ = arguments_.block_bytes * static_cast<size_t>(group_->size());
  IBCOLL_ASSIGN(in_place_, context.take_scratch(in_place_bytes_));
  binding_[Buffer::kSend].base = in_place_;
  return {};
}

Status Call::bind_unequal() {
  const auto ranks = static_cast<size_t>(group_->size());
  const auto bind = [this](Buffer buffer, const int64_t* counts, const int64_t* displacements) {
    // Checked to be not negative, so they may be read as unsigned.
    binding_[buffer].bytes = reinterpret_cast<const uint64_t*>(counts);
    binding_[buffer].offsets = reinterpret_cast<const uint64_t*>(displacements);
  };
  bind(Buffer::kRecv, arguments_.recv_counts, arguments_.recv_displacements);
  if (!arguments_.in_place) {
    bind(Buffer::kSend, arguments_.send_counts, arguments_.send_displacements);
  } else {
    send_offsets_.resize(ranks);
    std::exclusive_scan(arguments_.recv_counts, arguments_.recv_counts + ranks,
                        send_offsets_.begin(), uint64_t{0});
    in_place_bytes_ = ranks == 0 ? 0
                                 : send_offsets_.back() +
                                       static_cast<uint64_t>(arguments_.recv_counts[ranks - 1]);
    IBCOLL_ASSIGN(in_place_, group_->context().take_scratch(in_place_bytes_));
    binding_[Buffer::kSend] = {in_place_, send_offsets_.data(), binding_[Buffer::kRecv].bytes};
  }
  const uint64_t* bytes = binding_[Buffer::kSend].bytes;
  binding_.block_bytes =
      std::accumulate(bytes, bytes + ranks, uint64_t{0}) / std::max<size_t>(ranks, 1);
  const size_t slots = plan_.program->scratch.size();
  // Whether or not this rank holds blocks of others: all ranks must take part in the first phase.
  if (plan_.relays) {
    IBCOLL_ASSIGN(lengths_, group_->context().take_scratch((2 * ranks + slots) * sizeof(uint64_t)));
  }
  return {};
}

Status Call::start() {
  if (!prepared_) return fail(ErrorCode::kInvalidArgument, "the call has no arguments yet");
  if (under_way())
    return fail(ErrorCode::kInvalidArgument, "the call is under way already: wait for it first");
  if (in_place_ != nullptr) {
    const auto* recv = static_cast<const std::byte*>(arguments_.recv);
    if (!binding_.unequal) {
      std::memcpy(in_place_, recv, in_place_bytes_);
    } else {
      for (int i = 0; i < group_->size(); ++i) {
        if (arguments_.recv_counts[i] == 0) continue;
        std::memcpy(in_place_ + send_offsets_[i], recv + arguments_.recv_displacements[i],
                    arguments_.recv_counts[i]);
      }
    }
  }
  failure_ = {};
  started_ = true;
  completion_.then = nullptr;
  if (lengths_ == nullptr) return start_data();
  if (lengths_known_) return start_data();

  const auto ranks = static_cast<size_t>(group_->size());
  std::memcpy(lengths_, binding_[Buffer::kSend].bytes, ranks * sizeof(uint64_t));
  Binding lengths;
  lengths.block_bytes = sizeof(uint64_t);
  lengths.pieces = 1;
  lengths[Buffer::kSend].base = lengths_;
  lengths[Buffer::kRecv].base = lengths_ + ranks * sizeof(uint64_t);
  lengths[Buffer::kScratch].base = lengths_ + 2 * ranks * sizeof(uint64_t);
  completion_.then = after_lengths;
  // Both phases get their place in the group's order of calls now: other calls may be posted before
  // the second one is.
  Executor& executor = group_->context().executor();
  const uint32_t lengths_sequence = executor.next_sequence(group_->state());
  data_sequence_ = executor.reserve_sequence(group_->state());
  return executor.post(group_->state(), *plan_.program, lengths, completion_, lengths_sequence);
}

Status Call::start_data() {
  completion_.then = nullptr;
  Executor& executor = group_->context().executor();
  const uint32_t sequence =
      data_sequence_ ? *data_sequence_ : executor.next_sequence(group_->state());
  data_sequence_.reset();
  return executor.post(group_->state(), *plan_.program, binding_, completion_, sequence);
}

/// Runs when the first phase has ended, from inside whatever makes progress.
void Call::after_lengths(void* call) {
  Call& self = *static_cast<Call*>(call);
  self.failure_ = self.take_lengths();
  if (self.failure_) self.failure_ = self.start_data();
  if (!self.failure_) self.completion_.done = true;
}

/// Takes the slot lengths the first phase has brought, and the memory for them.
Status Call::take_lengths() {
  const auto ranks = static_cast<size_t>(group_->size());
  const auto* received = reinterpret_cast<const uint64_t*>(lengths_) + ranks;
  for (size_t i = 0; i < ranks; ++i) {
    if (received[i] == binding_[Buffer::kRecv].bytes[i]) continue;
    const Rank culprit = group_->state().to_job[i];
    const std::string text = fmt::format(
        "rank {} sends {} bytes where rank {} expects {} (alltoallv, {})", culprit, received[i],
        group_->context().rank(), binding_[Buffer::kRecv].bytes[i], plan_.program->algorithm);
    group_->context().executor().abort({culprit, ErrorCode::kMismatch, text});
    return fail(ErrorCode::kMismatch, "{}", text);
  }
  lengths_known_ = true;
  const size_t slots = plan_.program->scratch.size();
  if (slots == 0) return {};
  scratch_bytes_.assign(received + ranks, received + ranks + slots);
  scratch_offsets_.resize(slots);
  std::exclusive_scan(scratch_bytes_.begin(), scratch_bytes_.end(), scratch_offsets_.begin(),
                      uint64_t{0});
  IBCOLL_ASSIGN(scratch_,
                group_->context().take_scratch(scratch_offsets_.back() + scratch_bytes_.back()));
  binding_[Buffer::kScratch] = {scratch_, scratch_offsets_.data(), scratch_bytes_.data()};
  return {};
}

Result<bool> Call::test() {
  if (!started_) return true;
  IBCOLL_ASSIGN(const bool done, group_->context().executor().test(completion_));
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
  return failure_;
}

Status exchange_counts(Group& group, int64_t* send_counts, int64_t* recv_counts) {
  constexpr int64_t kUnknown = -1;
  struct Pair {
    int64_t sends, expects;  ///< what the one rank sends to the other, and what it expects from it
  };
  const auto ranks = static_cast<size_t>(group.size());
  std::vector<Pair> mine(ranks), theirs(ranks);
  for (size_t i = 0; i < ranks; ++i) {
    if (send_counts[i] < kUnknown || recv_counts[i] < kUnknown) {
      return fail(ErrorCode::kInvalidArgument, "count {} or {} of rank {} is negative",
                  send_counts[i], recv_counts[i], i);
    }
    mine[i] = {send_counts[i], recv_counts[i]};
  }
  Call call(group);
  CallArguments arguments;
  arguments.collective = Collective::kAlltoall;
  arguments.send = mine.data();
  arguments.recv = theirs.data();
  arguments.block_bytes = sizeof(Pair);
  IBCOLL_TRY(call.prepare(arguments));
  IBCOLL_TRY(call.start());
  IBCOLL_TRY(call.wait());
  const auto settle = [&](size_t peer, int64_t& own, int64_t other,
                          const char* direction) -> Status {
    if (own == kUnknown) own = other;
    if (own == kUnknown || (other != kUnknown && other != own)) {
      const Rank culprit = group.state().to_job[peer];
      const std::string text =
          own == kUnknown ? fmt::format("neither rank {} nor rank {} knows what is sent {} rank {}",
                                        group.context().rank(), culprit, direction, culprit)
                          : fmt::format("rank {} counts {} bytes {} rank {}, which counts {}",
                                        group.context().rank(), own, direction, culprit, other);
      group.context().executor().abort({culprit, ErrorCode::kMismatch, text});
      return fail(ErrorCode::kMismatch, "{}", text);
    }
    return {};
  };
  for (size_t i = 0; i < ranks; ++i) {
    IBCOLL_TRY(settle(i, send_counts[i], theirs[i].expects, "to"));
    IBCOLL_TRY(settle(i, recv_counts[i], theirs[i].sends, "from"));
  }
  return {};
}

void Call::release() {
  Context& context = group_->context();
  const auto put_back = [&context](std::byte*& memory) {
    if (memory != nullptr) context.put_scratch(memory);
    memory = nullptr;
  };
  put_back(scratch_);
  put_back(in_place_);
  put_back(lengths_);
  lengths_known_ = false;
  prepared_ = false;
}

}  // namespace ibcoll
