#pragma once
/// How a job ends before its time, as one rank sees it.

#include <atomic>
#include <functional>
#include <optional>

#include "engine/bootstrap/bootstrap.h"
#include "engine/execute/calls_under_way.h"
#include "engine/execute/deaths.h"

namespace ibcoll {

/// One failure ends the job: of those that ranks report, the first. Every survivor gets it, and
/// where it was itself then.
class JobEnd {
 public:
  /// `deaths`: does not end with those. `withdraw`: called once when the job is over, before
  /// anybody is told.
  JobEnd(Bootstrap& bootstrap, const LocalTransport& local, CallsUnderWay& calls, Deaths& deaths,
         std::function<void()> withdraw)
      : bootstrap_(bootstrap),
        local_(local),
        calls_(calls),
        deaths_(deaths),
        withdraw_(std::move(withdraw)) {}

  /// The error that ended the job, if any.
  const std::optional<Error>& error() const { return error_; }
  /// Any thread may ask.
  bool has_come() const { return has_come_.load(std::memory_order_acquire); }
  Status status() const {
    if (has_come()) [[unlikely]]
      return tl::unexpected<Error>(*error_);
    return {};
  }
  /// Takes note of all deaths that others have found and the job survives.
  void note_deaths();
  /// Reports a failure to all ranks and ends the job with it, or with somebody else's that came
  /// first.
  void abort(const Failure& failure);
  /// Ends the job on this rank, with the failure that ended it; not where the job survives that.
  void end_with(const Failure& failure);
  /// Ends the job because of what went wrong on this rank alone, for which the others would wait:
  /// memory that ran out. The job's error, which may be somebody else's that came first.
  Error give_up(const Error& error);
  /// The same because the thread whose turn it is ends inside, and leaves what it was at half done:
  /// a function of the program's has called pthread_exit.
  void give_up_for_thread();
  /// The same inside `catch (...)`, where that may be what unwinds the stack.
  void give_up_if_thread_ends();

 private:
  Bootstrap& bootstrap_;
  const LocalTransport& local_;
  CallsUnderWay& calls_;
  Deaths& deaths_;
  std::function<void()> withdraw_;
  std::optional<Error> error_;
  uint32_t noted_ = 0;  ///< so many ends
  std::atomic<bool> has_come_{false};
};

}  // namespace ibcoll
