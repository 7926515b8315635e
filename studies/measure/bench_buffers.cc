#include "studies/measure/bench_buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "studies/measure/pattern.h"

namespace ibcoll::measure {
namespace {

constexpr size_t kGuard = 4096;  ///< poisoned bytes behind each receive buffer

/// What a rank contributes to a reduction of doubles: whole numbers, so that the sum is exact in
/// whatever order it is made.
double number(Rank rank, size_t at, int iteration) {
  return static_cast<double>((static_cast<size_t>(rank) + 1) * (at % 1009 + 1) +
                             static_cast<size_t>(iteration));
}

/// How many times as much memory as data the buffers have.
int64_t spread(Collective collective) { return has_blocks(collective) ? 2 : 1; }

/// Where a block with a layout lies whose place among contiguous ones would be that.
ibcoll_block strided(int64_t place, int64_t bytes) {
  if (bytes == 0) return ibcoll_block_contiguous(2 * place, 0);
  const int64_t run = std::gcd(bytes, int64_t{64});
  return ibcoll_block_vector(2 * place, run, bytes / run, 2 * run);
}

/// The blocks that a rank sends or receives where each has a layout, and where they would lie if
/// they were contiguous.
std::vector<Traffic::Slot> slots_of(const Traffic& traffic, Rank me, bool sends) {
  if (has_graph(traffic.collective()))
    return sends ? traffic.sent_slots(me) : traffic.received_slots(me);
  std::vector<Traffic::Slot> slots;
  for (Rank peer = 0; peer < traffic.ranks(); ++peer) {
    const Block block = sends ? Block{me, peer} : Block{peer, me};
    slots.push_back({block, traffic.bytes(block.origin, block.target),
                     sends ? traffic.send_offset(me, peer) : traffic.receive_offset(me, peer)});
  }
  return slots;
}

/// Calls use(place in the buffer, place in the block) for each of its runs.
template <class Use>
void for_each_run(const ibcoll_block& block, Use&& use) {
  for (int64_t i = 0; i < block.count; ++i) use(block.offset + i * block.stride, i * block.bytes);
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
  const int64_t times = spread(largest.collective());
  const auto send = static_cast<size_t>(times * largest.send_bytes(me_)) + kGuard;
  const auto receive = static_cast<size_t>(times * largest.receive_bytes(me_)) + kGuard;
  IBCOLL_ASSIGN(send_, BenchMemory::create(context, send, user_memory));
  IBCOLL_ASSIGN(receive_, BenchMemory::create(context, receive, user_memory));
  return {};
}

CallArguments BenchBuffers::arguments(const Traffic& traffic) {
  CallArguments arguments;
  const Collective collective = traffic.collective();
  arguments.collective = collective;
  if (!moves_data(collective)) return arguments;
  arguments.root = traffic.root();
  const CollectiveTraits& row = traits(collective);
  const bool sends_alone = has_one_buffer(collective) && me_ == traffic.root();
  arguments.send = send_.data();
  arguments.recv = sends_alone ? nullptr : receive_.data();
  arguments.block_bytes = static_cast<size_t>(traffic.bytes_per_pair());
  if (reduces(collective))
    arguments.reduction = find_reduction(ElementType::kDouble, Operator::kSum).value();
  if (has_graph(collective)) arguments.options.graph = traffic.graph();
  if (!is_unequal(collective)) return arguments;
  if (has_blocks(collective)) {
    send_blocks_.clear(), receive_blocks_.clear();
    for (const Traffic::Slot& slot : slots_of(traffic, me_, true))
      send_blocks_.push_back(strided(slot.offset, slot.bytes));
    for (const Traffic::Slot& slot : slots_of(traffic, me_, false))
      receive_blocks_.push_back(strided(slot.offset, slot.bytes));
    arguments.send_blocks = send_blocks_.data();
    arguments.recv_blocks = receive_blocks_.data();
    return arguments;
  }
  if (has_graph(collective)) {
    const auto place = [](const std::vector<Traffic::Slot>& slots, auto& counts, auto& places) {
      counts.clear();
      places.clear();
      for (const Traffic::Slot& slot : slots) {
        counts.push_back(slot.bytes);
        places.push_back(slot.offset);
      }
    };
    place(traffic.sent_slots(me_), send_counts_, send_places_);
    place(traffic.received_slots(me_), receive_counts_, receive_places_);
    if (traffic.same_for_all()) arguments.own_count = send_counts_.front();
    return with_lists(arguments);
  }
  if (row.recv.lengths == Lengths::kElements) {
    receive_counts_.resize(ranks_);
    for (Rank rank = 0; rank < ranks_; ++rank)
      receive_counts_[rank] = traffic.bytes(rank, rank) / static_cast<int64_t>(sizeof(double));
    arguments.recv_counts = receive_counts_.data();
    return arguments;
  }
  arguments.own_count = traffic.bytes(row.recv.origin == End::kRoot ? traffic.root() : me_,
                                      row.send.target == End::kRoot ? traffic.root() : me_);
  for (auto* list : {&send_counts_, &send_places_, &receive_counts_, &receive_places_})
    list->resize(ranks_);
  for (Rank peer = 0; peer < ranks_; ++peer) {
    send_counts_[peer] = traffic.bytes(me_, peer);
    send_places_[peer] = traffic.send_offset(me_, peer);
    receive_counts_[peer] = traffic.bytes(peer, me_);
    receive_places_[peer] = traffic.receive_offset(me_, peer);
  }
  return with_lists(arguments);
}

CallArguments BenchBuffers::with_lists(CallArguments arguments) const {
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
  } else if (has_blocks(traffic.collective())) {
    std::vector<std::byte> block;
    for (const Traffic::Slot& slot : slots_of(traffic, me_, true)) {
      block.resize(static_cast<size_t>(slot.bytes));
      fill_pattern(block.data(), block.size(), {me_, slot.block.target, key});
      const ibcoll_block lies = strided(slot.offset, slot.bytes);
      for_each_run(lies, [&](int64_t to, int64_t from) {
        std::memcpy(send_.data() + to, block.data() + from, static_cast<size_t>(lies.bytes));
      });
    }
  } else if (has_graph(traffic.collective())) {
    for (const Traffic::Slot& slot : traffic.sent_slots(me_)) {
      fill_pattern(send_.data() + slot.offset, static_cast<size_t>(slot.bytes),
                   {me_, slot.block.target, key});
    }
  } else {
    for (Rank peer = 0; peer < ranks_; ++peer) {
      fill_pattern(send_.data() + traffic.send_offset(me_, peer),
                   static_cast<size_t>(traffic.bytes(me_, peer)), {me_, peer, key});
    }
  }
  std::memset(
      receive_.data(), static_cast<int>(kPoison),
      static_cast<size_t>(spread(traffic.collective()) * traffic.receive_bytes(me_)) + kGuard);
}

Status BenchBuffers::compare(const Traffic& traffic, int iteration,
                             std::string_view algorithm) const {
  if (reduces(traffic.collective())) {
    IBCOLL_TRY(compare_sums(traffic, iteration, algorithm));
  } else if (has_blocks(traffic.collective())) {
    for (const Traffic::Slot& slot : slots_of(traffic, me_, false)) {
      IBCOLL_ASSIGN(const std::vector<std::byte> block, gathered(slot, algorithm));
      IBCOLL_TRY(compare_block(slot.block, block.data(), slot.bytes, iteration, algorithm));
    }
  } else if (has_graph(traffic.collective())) {
    for (const Traffic::Slot& slot : traffic.received_slots(me_)) {
      IBCOLL_TRY(compare_block(slot.block, receive_.data() + slot.offset, slot.bytes, iteration,
                               algorithm));
    }
  } else {
    const Rank target = traffic.same_for_all() ? Block::kEveryone : me_;
    for (Rank origin = 0; origin < ranks_; ++origin) {
      IBCOLL_TRY(compare_block({origin, target},
                               receive_.data() + traffic.receive_offset(me_, origin),
                               traffic.bytes(origin, me_), iteration, algorithm));
    }
  }
  const std::byte* end =
      receive_.data() + spread(traffic.collective()) * traffic.receive_bytes(me_);
  if (std::any_of(end, end + kGuard, [](std::byte byte) { return byte != kPoison; })) {
    return fail(ErrorCode::kInternal, "rank {}: {} wrote past the end of the receive buffer", me_,
                algorithm);
  }
  return {};
}

/// A block with a layout that has come, in one piece; an error where something was written between
/// its runs.
Result<std::vector<std::byte>> BenchBuffers::gathered(const Traffic::Slot& slot,
                                                      std::string_view algorithm) const {
  const ibcoll_block lies = strided(slot.offset, slot.bytes);
  std::vector<std::byte> block(static_cast<size_t>(slot.bytes));
  bool whole = true;
  for_each_run(lies, [&](int64_t from, int64_t to) {
    const std::byte* run = receive_.data() + from;
    std::memcpy(block.data() + to, run, static_cast<size_t>(lies.bytes));
    whole = whole && std::all_of(run + lies.bytes, run + 2 * lies.bytes,
                                 [](std::byte byte) { return byte == kPoison; });
  });
  if (!whole) {
    return fail(ErrorCode::kInternal, "rank {}: {} wrote between the runs of the block of rank {}",
                me_, algorithm, slot.block.origin);
  }
  return block;
}

Status BenchBuffers::compare_block(const Block& block, const std::byte* data, int64_t bytes,
                                   int iteration, std::string_view algorithm) const {
  const auto place =
      find_difference(data, static_cast<size_t>(bytes),
                      {block.origin, block.target, static_cast<uint64_t>(iteration)});
  if (!place) return {};
  return fail(ErrorCode::kInternal,
              "rank {} received wrong data from rank {} with {}: byte {} of {} (iteration {})", me_,
              block.origin, algorithm, *place, bytes, iteration);
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
