#include "verbs/send_completions.h"

#include <algorithm>
#include <cerrno>

#include "verbs/limit_errors.h"
#include "verbs/queue_pair.h"
#include "verbs/send_queue.h"

namespace ibcoll::verbs {

namespace {

/// Most ranks of a large job talk to few others: what they begin with is enough for these.
constexpr uint64_t kFirst = 4096;
/// What a queue has from the start that can't grow, if its queue pairs need so much.
constexpr uint64_t kFixed = 65536;

uint64_t limit_of(const PortInfo& port) {
  return static_cast<uint64_t>(std::max(port.max_completions, 0));
}

/// What each of `most` queue pairs may hold of so many entries.
uint32_t depth_of(const PortInfo& port, uint32_t most, uint64_t entries) {
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(entries / std::max(most, 1u), kLeastSendDepth, send_depth(port)));
}

/// What a queue begins with that is to hold `all` in the end.
uint64_t first_entries(uint64_t all, uint64_t limit) { return std::min({all, kFirst, limit}); }

/// What it has after it has grown.
uint64_t next_entries(uint64_t needed, uint64_t entries, uint64_t limit) {
  return std::max(needed, std::min(2 * entries, limit));
}

Result<CompletionQueueHandle> queue_of(const Device& device, ibv_comp_channel* channel,
                                       uint64_t entries) {
  CompletionQueueHandle queue(ibv_create_cq(device.context(), static_cast<int>(entries), nullptr,
                                            channel, device.completion_vector()));
  if (!queue) return completion_queue_error(device, entries, errno);
  return queue;
}

}  // namespace

uint32_t SendCompletions::depth_for(const PortInfo& port, uint32_t most) {
  return depth_of(port, most, limit_of(port));
}

uint64_t SendCompletions::entries_for(const PortInfo& port, uint32_t most, uint32_t pairs) {
  const uint64_t depth = depth_for(port, most), limit = limit_of(port);
  const uint64_t all = std::max(most, 1u) * depth;
  uint64_t entries = first_entries(all, limit);
  if (all > entries && entries < limit) entries = std::min(2 * entries, limit);
  for (uint64_t needed = depth; needed <= pairs * depth; needed += depth)
    if (needed > entries) entries = next_entries(needed, entries, limit);
  return entries;
}

Result<SendCompletions> SendCompletions::create(const Device& device, ibv_comp_channel* channel,
                                                uint32_t most) {
  const PortInfo& port = device.port();
  const uint64_t limit = limit_of(port), pairs = std::max(most, 1u);
  SendCompletions result;
  uint64_t depth = depth_for(port, most), entries = first_entries(pairs * depth, limit);
  IBCOLL_ASSIGN(result.queue_, queue_of(device, channel, entries));
  if (pairs * depth > entries && entries < limit) {
    // Some devices have queues that do not grow: then all queue pairs have to share what there is.
    const uint64_t more = std::min(2 * entries, limit);
    if (ibv_resize_cq(result.queue_.get(), static_cast<int>(more)) == 0) {
      entries = more;
    } else {
      depth = depth_of(port, most, std::min(kFixed, limit));
      entries = std::min(pairs * depth, limit);
      IBCOLL_ASSIGN(result.queue_, queue_of(device, channel, entries));
    }
  }
  result.depth_ = static_cast<uint32_t>(depth);
  result.entries_ = static_cast<uint32_t>(entries);
  return result;
}

Status SendCompletions::make_room(const Device& device) {
  const uint64_t needed = promised_ + depth_;
  if (needed > entries_) {
    const uint64_t entries = next_entries(needed, entries_, limit_of(device.port()));
    if (const int error = ibv_resize_cq(queue_.get(), static_cast<int>(entries)); error != 0)
      return completion_queue_error(device, entries, error > 0 ? error : errno);
    entries_ = static_cast<uint32_t>(entries);
  }
  promised_ = needed;
  return {};
}

}  // namespace ibcoll::verbs
