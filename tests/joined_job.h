#pragma once
/// Jobs of processes that a launcher of the test's own starts, on one machine and on several
/// pretended ones, which know each other by TCP only.

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/bootstrap/joined_job.h"
#include "tests/job.h"

namespace ibcoll::testing {

/// What the launcher of these tests passes on.
struct Blackboard {
  std::atomic<int> written;
  std::atomic<bool> given_up;  ///< rank 0 has ended
  char text[ProcessManager::kMaxText + 1];

  std::string wait_for_text() const;
};

class SharedBlackboard {
 public:
  SharedBlackboard();
  ~SharedBlackboard();
  SharedBlackboard(const SharedBlackboard&) = delete;
  SharedBlackboard& operator=(const SharedBlackboard&) = delete;
  Blackboard* operator->() const { return board_; }
  Blackboard& operator*() const { return *board_; }

 private:
  Blackboard* board_;
};

class TestManager final : public ProcessManager {
 public:
  /// What the launcher passes on is changed by `rewrite` on its way to the other ranks, if given.
  using Rewrite = std::function<std::string(Rank, const std::string&)>;
  TestManager(Blackboard& board, Rank rank, int size, Rewrite rewrite = {})
      : board_(board), rank_(rank), size_(size), rewrite_(std::move(rewrite)) {}
  std::string name() const override { return "test"; }
  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  Result<std::string> broadcast(const std::string& text) override;

 private:
  Blackboard& board_;
  const Rank rank_;
  const int size_;
  const Rewrite rewrite_;
};

struct JoinedRun {
  std::vector<int> machines;  ///< of each rank; -1: it never comes
  std::vector<Rank> to_die;   ///< a signal may end them
  bool only_kills = false;    ///< that is SIGKILL
  int limit_s = 20;
  int silence_ms = 30'000;
  int fan_out = JoinOptions().fan_out;
  int launcher = -1;                 ///< the pidfd of one
  std::function<void(Rank)> before;  ///< runs in each rank before it joins
  TestManager::Rewrite rewrite;
  /// Runs in the test's process while the ranks do.
  std::function<void(Blackboard&)> meanwhile;
};

/// Runs `main` in one process a rank. Gives the complaints; a process that a signal ends complains
/// unless it is the one expected to.
std::string run_joined(const JoinedRun& run, const std::function<std::string(Bootstrap&)>& main);
std::string run_joined(const std::vector<int>& machines,
                       const std::function<std::string(Bootstrap&)>& main);

/// All ranks' data come in the order of ranks, in every size and again and again.
std::string gather_all_sizes(Bootstrap& job);
/// The same where only these ranks give anything.
std::string gather_of_some(Bootstrap& job, const std::vector<Rank>& givers);

}  // namespace ibcoll::testing
