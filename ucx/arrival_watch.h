#pragma once
/// Wakes a rank that sleeps on its bell when a worker of UCX has something to do.

#include <atomic>
#include <thread>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "engine/sharing/bell.h"

namespace ibcoll::ucx {

/// A thread that sleeps on the worker's descriptor and rings the bell; started when it is first
/// armed.
class ArrivalWatch {
 public:
  explicit ArrivalWatch(int events) : events_(events) {}
  ~ArrivalWatch();
  ArrivalWatch(const ArrivalWatch&) = delete;
  ArrivalWatch& operator=(const ArrivalWatch&) = delete;

  /// The bell is rung once when the descriptor becomes readable, or is.
  Status arm(Bell& bell);

 private:
  Status start();
  void run();

  int events_;
  std::atomic<Bell*> bell_{nullptr};
  UniqueFd stop_;
  UniqueFd waiting_;  ///< an epoll file: it reports the descriptor once each time it is armed
  std::thread thread_;
};

}  // namespace ibcoll::ucx
