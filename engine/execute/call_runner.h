#pragma once
/// Carries calls out, from their posting to their ends.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine/execute/calls_under_way.h"
#include "engine/execute/deadlines.h"
#include "engine/execute/lane_services.h"
#include "engine/execute/posted_call.h"
#include "engine/execute/short_program.h"

namespace ibcoll {

/// Starts calls, which may have to wait for earlier ones of their group or for a cell, moves their
/// lanes on, and ends them: because they have finished, or because their group is over.
class CallRunner {
 public:
  /// Calls that touch more than `streaming_bytes` of memory on a server copy past the caches; 0:
  /// none does. All must outlive it.
  CallRunner(const LaneServices& services, CallsUnderWay& under_way, size_t streaming_bytes);
  ~CallRunner();

  /// What it carries calls out with.
  LaneServices& services() { return services_; }

  /// See Executor::post(). The job ends where the thread does so inside.
  Status post(GroupState& group, const RankProgram& program, const Binding& binding,
              Completion& completion, uint32_t sequence);
  /// The same of a call that is short, whose operations are carried out before anything is made
  /// ready for a call that has to wait. Where `hurries`, they wait for about as long as hurry()
  /// does.
  Status post_short(GroupState& group, const RankProgram& program, const Binding& binding,
                    Completion& completion, uint32_t sequence, const ShortProgram& list,
                    bool hurries);
  /// Moves one call on that is waited for, if it is inside a server, for about as long as peers
  /// take to answer at once: a round of progress takes longer. It need not end by that.
  void hurry(const Completion& completion);
  /// Moves all calls on that can be moved, until the job ends; true if something moved.
  bool advance_all();
  /// Ends the groups of calls whose deadlines have passed.
  void check_deadlines() { deadlines_.check(); }

  /// Stops the calls of groups that are to end (GroupEnds::due); true if there were any such.
  bool stop_due();
  /// The same, and goes on with the ends of groups; true if something moved.
  bool advance_ends();
  /// The job is over: takes back what has been offered to ranks of the server.
  void retract_offers();

  /// From now on notes in `record` what this rank does in the call that starts last.
  void record_into(CallRecord* record);

 private:
  PostedCall& take_call();
  PostedCall& fill(GroupState& group, const RankProgram& program, const Binding& binding,
                   Completion& completion, const MessageKey& key);
  Status go_on(PostedCall& call);
  void queue(PostedCall& call);
  void start_waiting(GroupState& group);
  void start_without_cell();
  void start_or_give_up(PostedCall& call);
  Status start(PostedCall& call);
  void begin_record(PostedCall& call);
  void end_record(PostedCall& call);
  bool advance_alone(PostedCall& call);
  bool advance(PostedCall& call);
  bool has_left(PostedCall& call);
  void finish(PostedCall& call);
  void stop(GroupState& group);
  void end_unfinished(PostedCall& call);

  LaneServices services_;
  CallsUnderWay& under_way_;
  const size_t streaming_bytes_;
  std::vector<std::unique_ptr<PostedCall>> calls_;  ///< all there are
  std::vector<PostedCall*> idle_;
  std::deque<PostedCall*> without_cells_;  ///< might start but for those
  Deadlines deadlines_;
  CallRecord* record_ = nullptr;
  uint64_t numbers_ = 0;  ///< of calls that have started
};

}  // namespace ibcoll
