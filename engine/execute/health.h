#pragma once
/// Waits that may never end: peers that die, leave or come late, deadlines that pass.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/execute/calls_under_way.h"
#include "engine/execute/deaths.h"
#include "engine/execute/disagreement.h"
#include "engine/execute/group_ends.h"
#include "engine/execute/job_end.h"

namespace ibcoll {

class Health {
 public:
  struct Options {
    int64_t late_ns = 0;           ///< report a wait that takes longer; 0: never
    int64_t deadline_ns = 0;       ///< end a wait that takes longer with an error; 0: never
    int64_t cycle_ns = INT64_MAX;  ///< end waits in a cycle that all take longer with an error
    /// A rank of the machine that has died, cheap enough to ask a few times a second.
    std::function<std::optional<Rank>()> find_dead;
  };
  Health(Bootstrap& bootstrap, const LocalTransport& local, const CallsUnderWay& calls,
         Disagreements& disagreements, const GroupEnds& ends, JobEnd& end, const Deaths& deaths,
         Options options)
      : bootstrap_(bootstrap),
        local_(local),
        calls_(calls),
        disagreements_(disagreements),
        ends_(ends),
        end_(end),
        deaths_(deaths),
        options_(std::move(options)) {
    // Whoever waits in a cycle is to be told so, not that the deadline has passed.
    if (options_.deadline_ns > 0)
      options_.cycle_ns = std::min(options_.cycle_ns, options_.deadline_ns / 2);
  }

  /// Looks for reasons why a wait may never end. `call`: what is waited for, if it has been posted;
  /// `waited_ns`: how long nothing moved; `next_report_ns`: how long it must be to be reported.
  void check(PostedCall* call, int64_t waited_ns, int64_t& next_report_ns);
  /// The same for a call that a program tests, as often as that costs little beside the tests
  /// themselves.
  void check_tested(PostedCall& call);
  /// The same for several calls at once, however often it is called: of threads that wait, or of a
  /// program that makes progress of all. Without any, for the job.
  void check_all(const std::vector<PostedCall*>& calls);
  /// At deaths and the job's end alone, where no call is waited for.
  void check_job() {
    int64_t never = 0;
    check(nullptr, 0, never);
  }
  /// At the job's end alone, where a call begins: all of a program's calls may be so short that no
  /// wait looks for it.
  void look_at_end();
  int64_t late_ns() const { return options_.late_ns; }
  int64_t deadline_ns() const { return options_.deadline_ns; }

 private:
  void observe(PostedCall& call, int64_t now) const;
  std::optional<Failure> absent_peer(const PostedCall& call) const;
  void check_absence(PostedCall& call, int64_t waited_ns);
  std::optional<Rank> find_dead();
  int64_t stuck_ns(const PostedCall& call);
  Rank awaited(const PostedCall* call) const;
  std::string describe_wait(const PostedCall* call) const;

  Bootstrap& bootstrap_;
  const LocalTransport& local_;
  const CallsUnderWay& calls_;
  Disagreements& disagreements_;
  const GroupEnds& ends_;
  JobEnd& end_;
  const Deaths& deaths_;
  Options options_;
  int64_t checked_all_ns_ = 0;  ///< last by check_all()
  int64_t asked_ns_ = 0;        ///< who has died
  int64_t end_seen_ns_ = 0;     ///< when the job was first seen to have ended
  /// A call that is waited for, and how long nothing of it has moved.
  struct {
    CallKey call;
    uint32_t moves = 0;
    int64_t seen_ns = 0, ns = 0;
  } stuck_;
};

}  // namespace ibcoll
