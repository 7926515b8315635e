#pragma once
/// Jobs in which something fails at a moment, and what all of their ranks then have to say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>

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
  SharedStage()
      : stage_(new (mmap(nullptr, sizeof(Stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                         -1, 0)) Stage{}) {}
  ~SharedStage() { munmap(stage_, sizeof(Stage)); }
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
inline std::string common(const std::string& error) {
  size_t begin = 0;
  for (const std::string_view before : {"not joined: ", "no context: ", "close: "}) {
    if (error.compare(begin, before.size(), before) == 0) begin += before.size();
  }
  return error.substr(begin, error.find("; ", begin) - begin);
}

/// The errors of each rank from the complaints of all.
inline std::map<Rank, std::string> errors_in(const std::string& complaints) {
  std::map<Rank, std::string> errors;
  for (size_t begin = 0; begin < complaints.size();) {
    const size_t end = complaints.find('\n', begin);
    const std::string line = complaints.substr(begin, end - begin);
    const size_t colon = line.find(": ");
    if (line.starts_with("rank ") && colon != std::string::npos)
      errors[std::stoi(line.substr(5, colon - 5))] = line.substr(colon + 2);
    begin = end == std::string::npos ? complaints.size() : end + 1;
  }
  return errors;
}

/// All of `survivors` have an error, with the same failure, and each says in which collective and
/// step it was.
inline void expect_one_error(const Outcome& outcome, const std::vector<Rank>& survivors,
                             const ::testing::Matcher<std::string>& failure) {
  for (const Rank rank : survivors) {
    const auto found = outcome.errors.find(rank);
    ASSERT_NE(found, outcome.errors.end()) << "rank " << rank << " has no error\n" << outcome.all;
    EXPECT_EQ(common(found->second), common(outcome.errors.at(survivors.front()))) << outcome.all;
    EXPECT_THAT(common(found->second), failure);
    EXPECT_THAT(found->second,
                ::testing::AllOf(::testing::HasSubstr("alltoall"), ::testing::HasSubstr("step")));
  }
}

using Body = std::function<void(const RankView&, Stage&)>;
using Disturb = std::function<void(Stage&)>;

/// Runs `disturb` once each of `ranks` ranks has finished two calls. It is a process, since a job's
/// ranks are forked beside it: they would find locks, such as an allocator's, that a thread held.
class Disturber {
 public:
  Disturber(Stage& stage, int ranks, const Disturb& disturb) {
    std::fflush(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    for (int rank = 0; rank < ranks && !stage.ended;) {
      if (stage.calls[rank] >= 2) {
        ++rank;
      } else {
        std::this_thread::sleep_for(milliseconds(1));
      }
    }
    if (!stage.ended && disturb) disturb(stage);
    _exit(0);
  }
  ~Disturber() { end(SIGKILL); }
  Disturber(const Disturber&) = delete;
  Disturber& operator=(const Disturber&) = delete;

  /// Waits until `disturb` has run, or, where it has not begun, is not going to.
  void end(int signal = 0) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

/// Runs a job that is disturbed.
inline Outcome run_disturbed(const JobOptions& job, const Body& body, const Disturb& disturb) {
  const SharedStage stage;
  Outcome outcome;
  {
    const Disturber disturber(*stage, job.shape.ranks(), disturb);
    outcome.all = run_job(
        job,
        [&](const RankView& rank) {
          stage->pids[rank.context.rank()] = getpid();
          body(rank, *stage);
        },
        &outcome.status);
  }
  outcome.errors = errors_in(outcome.all);
  // Ranks that ended without a word, by a signal or by the launcher, did not end right.
  if (outcome.all.empty() && outcome.status != 0)
    outcome.all = fmt::format("status {}", outcome.status);
  return outcome;
}

/// Whether one all-to-all of blocks of so many bytes gives the right result; complains if not.
inline bool exchange(const RankView& rank, size_t block_bytes, uint32_t number,
                     std::string_view algorithm = {}) {
  Group& group = rank.context.world();
  const auto ranks = static_cast<size_t>(group.size());
  const Rank me = group.rank();
  std::vector<std::byte> send(ranks * block_bytes + 1), recv(ranks * block_bytes + 1);
  for (size_t i = 0; i < ranks * block_bytes; ++i)
    send[i] = pattern(me, static_cast<Rank>(i / block_bytes), i % block_bytes, number);
  CallArguments arguments;
  arguments.collective = Collective::kAlltoall;
  arguments.send = send.data();
  arguments.recv = recv.data();
  arguments.block_bytes = block_bytes;
  arguments.options.algorithm = algorithm;
  Call call(group);
  Status done = call.prepare(arguments);
  if (done) done = call.start();
  if (done) done = call.wait();
  if (!done) {
    rank.complain(done.error().message);
    return false;
  }
  for (size_t i = 0; i < ranks * block_bytes; ++i) {
    if (recv[i] != pattern(static_cast<Rank>(i / block_bytes), me, i % block_bytes, number)) {
      rank.complain(fmt::format("wrong data in a call with blocks of {} bytes", block_bytes));
      return false;
    }
  }
  return true;
}

/// Calls in a row, until one fails.
inline Body exchanges(int calls, std::vector<size_t> block_bytes, std::string algorithm = {}) {
  return [=](const RankView& rank, Stage& stage) {
    std::atomic<int>& finished = stage.calls[rank.context.rank()];
    for (int i = 0; i < calls; ++i) {
      std::this_thread::sleep_for(milliseconds(stage.late_ms[rank.context.rank()].exchange(0)));
      if (!exchange(rank, block_bytes[i % block_bytes.size()], i, algorithm)) return;
      ++finished;
    }
  };
}
inline constexpr int kUntilItFails = 1'000'000;

inline uint32_t number_from_environment(const char* name, uint32_t otherwise) {
  const char* text = getenv(name);
  return text == nullptr ? otherwise : static_cast<uint32_t>(std::atoi(text));
}

}  // namespace ibcoll::testing
