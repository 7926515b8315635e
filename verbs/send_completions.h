#pragma once
/// The completion queue of all sends of a rank. When a connection breaks, all that was posted to
/// its queue pair completes at once, whether a completion was asked for or not. A queue that
/// overflows is lost, and with it the connections to everybody else: it has room for all that its
/// queue pairs hold, and grows with their number.

#include <cstdint>

#include "engine/base/result.h"
#include "verbs/device.h"

namespace ibcoll::verbs {

class SendCompletions {
 public:
  /// Work requests that each of up to `most` queue pairs may hold, where the queue can grow.
  static uint32_t depth_for(const PortInfo& port, uint32_t most);
  /// Entries that such a queue has come to once `pairs` of these have been made.
  static uint64_t entries_for(const PortInfo& port, uint32_t most, uint32_t pairs);

  /// For up to `most` queue pairs. Its events go to `channel`.
  static Result<SendCompletions> create(const Device& device, ibv_comp_channel* channel,
                                        uint32_t most);

  ibv_cq* get() const { return queue_.get(); }
  /// Work requests that each queue pair may hold.
  uint32_t depth() const { return depth_; }
  /// To be called before a queue pair is made.
  Status make_room(const Device& device);
  /// To be called when one is gone.
  void give_back_room() { promised_ -= depth_; }

 private:
  CompletionQueueHandle queue_;
  uint32_t entries_ = 0;
  uint32_t depth_ = 0;
  uint64_t promised_ = 0;  ///< to queue pairs
};

}  // namespace ibcoll::verbs
