#pragma once
/// Wakes a rank that sleeps on its bell when something arrives from the network.

#include <array>
#include <atomic>
#include <memory>
#include <thread>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "engine/sharing/bell.h"
#include "verbs/handles.h"

namespace ibcoll::verbs {

/// A thread that sleeps on a completion channel and rings the bell; started when it is first armed.
class ArrivalWatch {
 public:
  /// The channel's events must be read by nobody else. `queues` may be null; `events`: an epoll
  /// file that rings, too, or -1.
  ArrivalWatch(ibv_comp_channel* channel, std::array<ibv_cq*, 3> queues, int events)
      : channel_(channel), queues_(queues), events_(events) {}
  ~ArrivalWatch();
  ArrivalWatch(const ArrivalWatch&) = delete;
  ArrivalWatch& operator=(const ArrivalWatch&) = delete;

  /// From now on the bell is rung when a completion comes. What came before may not ring it: look
  /// at the queues after this call and before sleeping.
  Status arm(Bell& bell);

 private:
  void run();

  ibv_comp_channel* channel_;
  std::array<ibv_cq*, 3> queues_;
  int events_;
  std::atomic<Bell*> bell_{nullptr};
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace ibcoll::verbs
