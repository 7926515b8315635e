// The executor's registrations: what of a call's buffers the network may touch.

#include <algorithm>
#include <numeric>

#include "engine/execute/executor.h"

namespace ibcoll {
namespace {

/// Blocks with less between them are registered together: there can't be a whole page between them,
/// which might not even be mapped. No machine has smaller pages.
constexpr uint64_t kSmallestPage = 4096;
/// A buffer is registered as a whole where it is at most so many times what is used of it.
constexpr uint64_t kSparse = 2;

/// A part of a buffer, in bytes from its base.
struct Extent {
  uint64_t begin = ~uint64_t{0}, end = 0;
};

}  // namespace

Status Executor::register_buffers(Run& run) {
  if (network_ == nullptr || run.binding.eager) return {};
  const RankProgram& program = *run.program;
  const Shape& shape = run.group->shape;
  const auto enter = [&](Buffer buffer, size_t slots) -> Status {
    const Status registered = register_buffer(run, buffer, static_cast<uint32_t>(slots));
    if (registered) return {};
    // The others are told this rank's error, so it says where.
    return fail(registered.error().code, "{}, for step 0 of {} ({}), call {}",
                registered.error().message, to_string(program.collective), program.algorithm,
                run.key.sequence);
  };
  IBCOLL_TRY(enter(Buffer::kSend, program.send_slots(shape)));
  IBCOLL_TRY(enter(Buffer::kRecv, program.recv_slots(shape)));
  return enter(Buffer::kScratch, program.scratch.size());
}

/// Blocks may lie anywhere, with memory between them that is not the caller's: they are registered
/// as one where that is little, else run by run of blocks that lie side by side.
Status Executor::register_buffer(Run& run, Buffer buffer, uint32_t slots) {
  BufferKeys& keys = run.keys[static_cast<int>(buffer)];
  const BufferBinding& binding = run.binding[buffer];
  const auto enter = [&](const Extent& extent) -> Result<MemoryKey> {
    IBCOLL_ASSIGN(const MemoryKey key, network_->register_memory(binding.base + extent.begin,
                                                                 extent.end - extent.begin));
    keys.registered.push_back(key);
    return key;
  };
  if (!run.binding.unequal) {
    if (slots == 0 || run.binding.block_bytes == 0) return {};
    IBCOLL_ASSIGN(keys.all, enter({0, slots * run.binding.block_bytes}));
    return {};
  }
  Extent all;
  uint64_t used = 0;
  for (uint32_t i = 0; i < slots; ++i) {
    if (binding.bytes[i] == 0) continue;
    all.begin = std::min(all.begin, binding.offsets[i]);
    all.end = std::max(all.end, binding.offsets[i] + binding.bytes[i]);
    used += binding.bytes[i];
  }
  if (used == 0) return {};
  if (all.end - all.begin <= std::max(kSparse * used, kSmallestPage)) {
    // Where that fails there may be a hole after all.
    if (Result<MemoryKey> key = enter(all)) {
      keys.all = *key;
      return {};
    }
  }
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < slots; ++i) {
    if (binding.bytes[i] != 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return binding.offsets[a] < binding.offsets[b]; });
  keys.of_slot.assign(slots, {});
  for (size_t first = 0, next = 0; first < order.size(); first = next) {
    Extent extent{binding.offsets[order[first]], 0};
    for (next = first; next < order.size() &&
                       (next == first || binding.offsets[order[next]] < extent.end + kSmallestPage);
         ++next) {
      extent.end = std::max(extent.end, binding.offsets[order[next]] + binding.bytes[order[next]]);
    }
    IBCOLL_ASSIGN(const MemoryKey key, enter(extent));
    for (size_t i = first; i < next; ++i) keys.of_slot[order[i]] = key;
  }
  return {};
}

void Executor::deregister_buffers(Run& run) {
  for (BufferKeys& keys : run.keys) {
    for (const MemoryKey& key : keys.registered) network_->deregister_memory(key);
    keys.registered.clear();
    keys.of_slot.clear();
    keys.all = {};
  }
}

}  // namespace ibcoll
