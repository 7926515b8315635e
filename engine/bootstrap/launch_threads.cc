#include <atomic>
#include <thread>
#include <vector>

#include "engine/base/log.h"
#include "engine/bootstrap/control.h"
#include "engine/bootstrap/launch.h"

namespace ibcoll {

Result<int> launch_threads(int ranks, const RankMain& main) {
  if (ranks < 1 || ranks > kMaxLaunchRanks) {
    return fail(ErrorCode::kInvalidArgument, "{} ranks: at least 1 and at most {} can be started",
                ranks, kMaxLaunchRanks);
  }
  IBCOLL_ASSIGN(const auto control, ControlBlock::create(ranks, ControlBlock::Sharing::kThreads));
  std::atomic<int> result{0};
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(ranks));
  for (Rank rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      set_log_rank(rank);
      const int status = main(*control->bootstrap(rank));
      if (status != 0) {
        int none = 0;
        result.compare_exchange_strong(none, status);
        control->report({rank, ErrorCode::kPeerFailed,
                         fmt::format("rank {} ended with status {}", rank, status)},
                        rank);
      }
      control->departed(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result.load();
}

}  // namespace ibcoll
