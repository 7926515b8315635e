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

Result<CompletionQueueHandle> queue_of(const Device& device, ibv_comp_channel* channel,
                                       uint64_t entries) {
  CompletionQueueHandle queue(ibv_create_cq(device.context(), static_cast<int>(entries), nullptr,
                                            channel, device.completion_vector()));
  if (!queue) return completion_queue_error(device, entries, errno);
  return queue;
}

}  // namespace

Result<SendCompletions> SendCompletions::create(const Device& device, ibv_comp_channel* channel,
                                                uint32_t most) {
  const PortInfo& port = device.port();
  const auto limit = static_cast<uint64_t>(std::max(port.max_completions, 0));
  const uint64_t pairs = std::max(most, 1u), wanted = send_depth(port);
  const auto share_of = [&](uint64_t entries) {
    return std::clamp<uint64_t>(entries / pairs, kLeastSendDepth, wanted);
  };
  SendCompletions result;
  uint64_t depth = share_of(limit), entries = std::min({pairs * depth, kFirst, limit});
  IBCOLL_ASSIGN(result.queue_, queue_of(device, channel, entries));
  if (pairs * depth > entries && entries < limit) {
    // Some devices have queues that do not grow: then all queue pairs have to share what there is.
    const uint64_t more = std::min(2 * entries, limit);
    if (ibv_resize_cq(result.queue_.get(), static_cast<int>(more)) == 0) {
      entries = more;
    } else {
      depth = share_of(std::min(kFixed, limit));
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
    const auto limit = static_cast<uint64_t>(device.port().max_completions);
    const uint64_t entries = std::max(needed, std::min(2 * uint64_t{entries_}, limit));
    if (const int error = ibv_resize_cq(queue_.get(), static_cast<int>(entries)); error != 0)
      return completion_queue_error(device, entries, error > 0 ? error : errno);
    entries_ = static_cast<uint32_t>(entries);
  }
  promised_ = needed;
  return {};
}

}  // namespace ibcoll::verbs
