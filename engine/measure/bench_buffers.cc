#include "engine/measure/bench_buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "engine/measure/pattern.h"

namespace ibcoll::measure {
namespace {

constexpr size_t kGuard = 4096;  ///< poisoned bytes behind each receive buffer

/// What a rank contributes to a reduction of doubles: whole numbers, so that the sum is exact in
/// whatever order it is made.
double number(Rank rank, size_t at, int iteration) {
  return static_cast<double>((static_cast<size_t>(rank) + 1) * (at % 1009 + 1) +
                             static_cast<size_t>(iteration));
}

}  // namespace

Result<BenchMemory> BenchMemory::create(Context& context, size_t bytes, bool user_memory) {
  BenchMemory memory;
  memory.bytes_ = bytes;
  if (user_memory) {
    void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return fail_errno(fmt::format("can't map {} bytes", bytes));
    memory.data_ = static_cast<std::byte*>(mapped);
  } else {
    IBCOLL_ASSIGN(void* allocated, context.allocate(bytes));
    memory.data_ = static_cast<std::byte*>(allocated);
    memory.context_ = &context;
  }
  std::memset(memory.data_, 1, bytes);
  return memory;
}

BenchMemory::~BenchMemory() {
  if (data_ == nullptr) return;
  if (context_ != nullptr)
    (void)context_->free(data_);
  else
    munmap(data_, bytes_);
}

Status BenchBuffers::allocate(Context& context, const Traffic& largest, bool user_memory) {
  const auto send = static_cast<size_t>(largest.send_bytes(me_)) + kGuard;
  const auto receive = static_cast<size_t>(largest.receive_bytes(me_)) + kGuard;
  IBCOLL_ASSIGN(send_, BenchMemory::create(context, send, user_memory));
  IBCOLL_ASSIGN(receive_, BenchMemory::create(context, receive, user_memory));
  return {};
}

CallArguments BenchBuffers::arguments(const Traffic& traffic) {
  CallArguments arguments;
  const Collective collective = traffic.collective();
  arguments.collective = collective;
  if (collective == Collective::kBarrier) return arguments;
  arguments.root = traffic.root();
  const bool bcast_from_here = collective == Collective::kBcast && me_ == traffic.root();
  arguments.send = send_.data();
  arguments.recv = bcast_from_here ? nullptr : receive_.data();
  arguments.block_bytes = static_cast<size_t>(traffic.bytes_per_pair());
  if (reduces(collective))
    arguments.reduction = find_reduction(ElementType::kDouble, Operator::kSum).value();
  if (!is_unequal(collective)) return arguments;
  if (collective == Collective::kReduceScatter) {
    receive_counts_.resize(ranks_);
    for (Rank rank = 0; rank < ranks_; ++rank)
      receive_counts_[rank] = traffic.bytes(rank, rank) / static_cast<int64_t>(sizeof(double));
    arguments.recv_counts = receive_counts_.data();
    return arguments;
  }
  arguments.own_count = collective == Collective::kScatterv  ? traffic.bytes(traffic.root(), me_)
                        : collective == Collective::kGatherv ? traffic.bytes(me_, traffic.root())
                                                             : traffic.bytes(me_, me_);
  for (auto* list : {&send_counts_, &send_places_, &receive_counts_, &receive_places_})
    list->resize(ranks_);
  for (Rank peer = 0; peer < ranks_; ++peer) {
    send_counts_[peer] = traffic.bytes(me_, peer);
    send_places_[peer] = traffic.send_offset(me_, peer);
    receive_counts_[peer] = traffic.bytes(peer, me_);
    receive_places_[peer] = traffic.receive_offset(me_, peer);
  }
  arguments.send_counts = send_counts_.data();
  arguments.send_displacements = send_places_.data();
  arguments.recv_counts = receive_counts_.data();
  arguments.recv_displacements = receive_places_.data();
  return arguments;
}

void BenchBuffers::fill(const Traffic& traffic, int iteration) {
  const auto key = static_cast<uint64_t>(iteration);
  if (traffic.same_for_all()) {
    fill_pattern(send_.data(), static_cast<size_t>(traffic.send_bytes(me_)),
                 {me_, Block::kEveryone, key});
  } else if (reduces(traffic.collective())) {
    auto* numbers = reinterpret_cast<double*>(send_.data());
    const size_t count = static_cast<size_t>(traffic.send_bytes(me_)) / sizeof(double);
    for (size_t i = 0; i < count; ++i) numbers[i] = number(me_, i, iteration);
  } else {
    for (Rank peer = 0; peer < ranks_; ++peer) {
      fill_pattern(send_.data() + traffic.send_offset(me_, peer),
                   static_cast<size_t>(traffic.bytes(me_, peer)), {me_, peer, key});
    }
  }
  std::memset(receive_.data(), static_cast<int>(kPoison),
              static_cast<size_t>(traffic.receive_bytes(me_)) + kGuard);
}

Status BenchBuffers::compare(const Traffic& traffic, int iteration,
                             std::string_view algorithm) const {
  if (reduces(traffic.collective())) {
    IBCOLL_TRY(compare_sums(traffic, iteration, algorithm));
  } else {
    const Rank target = traffic.same_for_all() ? Block::kEveryone : me_;
    for (Rank origin = 0; origin < ranks_; ++origin) {
      const auto place = find_difference(receive_.data() + traffic.receive_offset(me_, origin),
                                         static_cast<size_t>(traffic.bytes(origin, me_)),
                                         {origin, target, static_cast<uint64_t>(iteration)});
      if (place) {
        return fail(
            ErrorCode::kInternal,
            "rank {} received wrong data from rank {} with {}: byte {} of {} (iteration {})", me_,
            origin, algorithm, *place, traffic.bytes(origin, me_), iteration);
      }
    }
  }
  const std::byte* end = receive_.data() + traffic.receive_bytes(me_);
  if (std::any_of(end, end + kGuard, [](std::byte byte) { return byte != kPoison; })) {
    return fail(ErrorCode::kInternal, "rank {}: {} wrote past the end of the receive buffer", me_,
                algorithm);
  }
  return {};
}

Status BenchBuffers::compare_sums(const Traffic& traffic, int iteration,
                                  std::string_view algorithm) const {
  const auto* sums = reinterpret_cast<const double*>(receive_.data());
  const size_t count = static_cast<size_t>(traffic.receive_bytes(me_)) / sizeof(double);
  const Shape shape = Shape::single_server(ranks_);
  const Rank contribute = contributors(traffic.collective(), shape, me_);
  const size_t first = static_cast<size_t>(traffic.send_offset(me_, me_)) / sizeof(double);
  for (size_t i = 0; i < count; ++i) {
    double expected = 0;
    for (Rank rank = 0; rank < contribute; ++rank) expected += number(rank, first + i, iteration);
    if (sums[i] != expected) {
      return fail(ErrorCode::kInternal,
                  "rank {} has the sum {} instead of {} with {}: element {} of {} (iteration {})",
                  me_, sums[i], expected, algorithm, i, count, iteration);
    }
  }
  return {};
}

}  // namespace ibcoll::measure
