#include "tests/launched.h"

#include <chrono>
#include <thread>

namespace ibcoll {

LaunchOptions quiet(int ranks) {
  LaunchOptions options;
  options.ranks = ranks;
  options.on_failure = [](const Failure&) {};
  return options;
}

void wait_until(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace ibcoll
