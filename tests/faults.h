#pragma once
/// Jobs in which something fails at a moment, and what all of their ranks then have to say.

#include <gmock/gmock.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/job.h"

namespace ibcoll::testing {

using std::chrono::milliseconds;

inline constexpr int kMaxRanks = 16;
/// What ranks and the one who disturbs them know of each other; shared by the processes.
struct Stage {
  std::atomic<int> calls[kMaxRanks];  ///< each rank's finished ones
  std::atomic<pid_t> pids[kMaxRanks];
  std::atomic<bool> disturbed;          ///< see disturb_first
  std::atomic<bool> ended;              ///< the job, to a Disturber that has not begun
  std::atomic<int> late_ms[kMaxRanks];  ///< how late each rank comes to its next call
};

class SharedStage {
 public:
  SharedStage();
  ~SharedStage();
  SharedStage(const SharedStage&) = delete;
  SharedStage& operator=(const SharedStage&) = delete;
  Stage* operator->() const { return stage_; }
  Stage& operator*() const { return *stage_; }

 private:
  Stage* stage_;
};

/// What came of a job.
struct Outcome {
  std::map<Rank, std::string> errors;  ///< of the ranks that had one
  std::string all;
  int status = 0;  ///< the launcher's
};

/// The part of an error that is the same for all: what failed. Where each rank was follows, or, of
/// one that was not in a call, comes before.
std::string common(const std::string& error);

/// The errors of each rank from the complaints of all.
std::map<Rank, std::string> errors_in(const std::string& complaints);

/// All of `survivors` have an error, with the same failure, and each says in which collective and
/// step it was.
void expect_one_error(const Outcome& outcome, const std::vector<Rank>& survivors,
                      const ::testing::Matcher<std::string>& failure);

using Body = std::function<void(const RankView&, Stage&)>;
using Disturb = std::function<void(Stage&)>;

/// Runs `disturb` once each of `ranks` ranks has finished two calls. It is a process, since a job's
/// ranks are forked beside it: they would find locks, such as an allocator's, that a thread held.
class Disturber {
 public:
  Disturber(Stage& stage, int ranks, const Disturb& disturb);
  ~Disturber();
  Disturber(const Disturber&) = delete;
  Disturber& operator=(const Disturber&) = delete;

  /// Waits until `disturb` has run, or, where it has not begun, is not going to.
  void end(int signal = 0);

 private:
  pid_t pid_ = 0;
};

/// Runs a job that is disturbed.
Outcome run_disturbed(const JobOptions& job, const Body& body, const Disturb& disturb);

/// Whether one all-to-all of blocks of so many bytes gives the right result; complains if not.
bool exchange(const RankView& rank, size_t block_bytes, uint32_t number,
              std::string_view algorithm = {});

/// Calls in a row, until one fails.
Body exchanges(int calls, std::vector<size_t> block_bytes, std::string algorithm = {});
inline constexpr int kUntilItFails = 1'000'000;

/// What a variable says, or another number where it is not set.
uint32_t number_from_environment(const char* name, uint32_t otherwise);

}  // namespace ibcoll::testing
