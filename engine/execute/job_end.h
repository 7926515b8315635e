#pragma once
/// How a job ends before its time, as one rank sees it.

#include <functional>
#include <optional>

#include "engine/bootstrap/bootstrap.h"
#include "engine/execute/calls_under_way.h"

namespace ibcoll {

/// One failure ends the job: of those that ranks report, the first. Every survivor gets it, and
/// where it was itself then.
class JobEnd {
 public:
  /// `survives`: takes note of a failure that does not end the job, and says whether it is one; may
  /// be asked about the same one again.
  /// `withdraw`: called once when the job is over, before anybody is told.
  JobEnd(Bootstrap& bootstrap, const LocalTransport& local, const CallsUnderWay& calls,
         std::function<bool(const Failure&)> survives, std::function<void()> withdraw)
      : bootstrap_(bootstrap),
        local_(local),
        calls_(calls),
        survives_(std::move(survives)),
        withdraw_(std::move(withdraw)) {}

  /// The error that ended the job, if any.
  const std::optional<Error>& error() const { return error_; }
  bool has_come() const { return error_.has_value(); }
  /// Reports a failure to all ranks and ends the job with it, or with somebody else's that came
  /// first.
  void abort(const Failure& failure);
  /// Ends the job on this rank, with the failure that ended it; not where the job survives that.
  void end_with(const Failure& failure);
  /// Ends the job because of what went wrong on this rank alone, for which the others would wait:
  /// memory that ran out. The job's error, which may be somebody else's that came first.
  Error give_up(const Error& error);

 private:
  Bootstrap& bootstrap_;
  const LocalTransport& local_;
  const CallsUnderWay& calls_;
  std::function<bool(const Failure&)> survives_;
  std::function<void()> withdraw_;
  std::optional<Error> error_;
};

}  // namespace ibcoll
