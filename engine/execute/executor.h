#pragma once
/// Carries programs out over the transports. One executor a rank; used by one thread at a time:
/// where several threads call, SharedWaits sees to that.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/bootstrap/bootstrap.h"
#include "engine/execute/call_meaning.h"
#include "engine/execute/call_runner.h"
#include "engine/execute/calls_under_way.h"
#include "engine/execute/cells.h"
#include "engine/execute/clock_pace.h"
#include "engine/execute/deaths.h"
#include "engine/execute/disagreement.h"
#include "engine/execute/group_ends.h"
#include "engine/execute/health.h"
#include "engine/execute/inquiry.h"
#include "engine/execute/job_end.h"
#include "engine/execute/lane_services.h"
#include "engine/execute/mailroom.h"
#include "engine/execute/posted_call.h"
#include "engine/execute/rounds.h"
#include "engine/execute/served_runs.h"
#include "engine/execute/wait_services.h"
#include "engine/sharing/bell.h"
#include "engine/transport/transport.h"

namespace ibcoll {

struct ExecutorOptions {
  bool oversubscribed = false;       ///< more ranks than cores: yield at once instead of spinning
  int64_t late_ns = 10'000'000'000;  ///< report a wait that takes longer; 0: never
  int64_t deadline_ns = 0;           ///< end a wait that takes longer with an error; 0: never
  /// Waits in a cycle last for ever, unless a member that has no part in it ends one of the groups.
  /// It gets so long to do that.
  int64_t cycle_ns = 10'000'000'000;
  size_t streaming_bytes =
      0;  ///< calls that touch more memory than this on a server copy past the caches; 0: never
  CallBoard::Place board = {};  ///< where the ranks of the server note their calls, if they do
  /// Whether a rank has died; if so, `find_dead` gives it no more. Empty: the job does not go on
  /// after a death.
  std::function<bool(Rank)> has_died = {};
  MadeGroups* groups = nullptr;  ///< this rank's; null: it has none to compare
  Cells::Share cells = {};       ///< this rank's part of its server's
};

class ArrivalDescriptor;
class ArrivalRuns;
class SharedWaits;

/// What a rank does is each a class of its own: CallRunner carries calls out, GroupEnds and JobEnd
/// end them, Health and Disagreements look why they may not end. This one ties them together, and
/// is what others see of them.
class Executor {
 public:
  /// `network` may be null on a single server. `find_dead`: a rank of the machine that has died,
  /// cheap enough to ask a few times a second. All must outlive the executor.
  Executor(Bootstrap& bootstrap, LocalTransport& local, NetworkTransport* network, Bell& bell,
           std::function<std::optional<Rank>()> find_dead, const ExecutorOptions& options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// A group is there until leave(): peers may end it, and may have done so already.
  void enter(GroupState& group);
  /// Its calls have finished.
  void leave(const GroupState& group);
  /// Ends a group on all its ranks; the job goes on. Local; a group by arrival, which may be ended
  /// inside of progress, is ended by the next round of it. What its calls under way were given is
  /// given back, and they are done, with the error, when no peer can touch it any more: `why` says
  /// who ended the group, and for what reason. Without effect on one that is over.
  void end_group(GroupState& group, const Failure& why);
  /// Whether a rank of the job has died, and the job has gone on.
  bool has_lost(Rank rank) const { return deaths_.include(rank); }
  /// All that have, in the order in which this rank has learnt of them.
  const std::vector<Failure>& deaths() const { return deaths_.known(); }
  /// How, of one that has.
  const std::string& why_lost(Rank rank) const { return deaths_.why(rank); }
  /// Whether a rank does nothing for others any more, although nobody has found it dead.
  bool has_gone(Rank rank) const {
    return !bootstrap_.is_leaving(rank) && bootstrap_.absence(rank).has_value();
  }
  /// Takes note of the deaths that others have reported and the job survives.
  void look_at_deaths() {
    if (const auto failure = bootstrap_.failure()) [[unlikely]]
      deaths_.survives(*failure);
    end_.note_deaths();
  }
  /// Takes note of one that the ranks of a group have agreed on, whatever is known of it here.
  void take_death(const Failure& death) { deaths_.take(death); }
  /// Takes note of all deaths that can be found out now.
  Status find_deaths() {
    health_.check_job();
    return end_.status();
  }
  /// Waits until the members of all groups that this rank knows to be over know it, too, or leave.
  Status settle_ends();

  /// Starts a call. Every member of the group must start the same calls in the same order. Program,
  /// group and the memory the binding names must stay until the completion is done.
  Status post(GroupState& group, const RankProgram& program, const Binding& binding,
              Completion& completion, uint32_t sequence) {
    look_at_end_now_and_then(sequence);
    return calls_.post(group, program, binding, completion, sequence);
  }
  Status post(GroupState& group, const RankProgram& program, const Binding& binding,
              Completion& completion) {
    return post(group, program, binding, completion, next_sequence(group));
  }
  /// The same of a call that is short; `waits`: wait() comes next. It may be done already when
  /// this comes back.
  Status post(GroupState& group, const RankProgram& program, const Binding& binding,
              Completion& completion, uint32_t sequence, const ShortProgram& list, bool waits) {
    look_at_end_now_and_then(sequence);
    const bool hurries = waits && waits_.manner == Idling::Manner::kSpin && shared_ == nullptr;
    return calls_.post_short(group, program, binding, completion, sequence, list, hurries);
  }
  /// The number of the group's next call, to be posted at once or later: what must not overtake it
  /// waits until then.
  static uint32_t next_sequence(GroupState& group) { return group.calls.take(); }

  /// Moves all calls on that can be moved. True if something happened.
  bool progress() { return rounds_.make(); }
  /// True once it is done. An error ends the whole job: every later call gives the same one.
  Result<bool> test(Completion& completion);
  /// Progresses all calls until this one is done.
  Status wait(Completion& completion) {
    const bool over =
        completion.done && completion.error == nullptr && shared_ == nullptr && !end_.has_come();
    if (over) [[likely]]
      return {};
    return wait_on(completion);
  }
  /// After how long a wait is reported, and ended with an error; 0: never.
  int64_t late_ns() const { return health_.late_ns(); }
  int64_t deadline_ns() const { return health_.deadline_ns(); }
  /// Waits for what is no call of the program's, whose completion somebody sets done in progress,
  /// at most until then (now_ns(); 0: as long as it takes): completion.done says which it was. Ends
  /// with the job, but reports nobody as late and knows no deadline.
  Status wait(Completion& completion, int64_t until_ns);
  /// One round of progress for a program that asks for no call in particular: true if something
  /// moved. Now and then looks for reasons why calls may never end, as tests do.
  Result<bool> progress_of_all();
  /// Has the descriptor become readable when something may have moved; false: something did since
  /// the last time, so that a call may have ended which nobody would be woken for.
  Result<bool> arm(ArrivalDescriptor& descriptor);
  /// Whether anything on this rank needs progress.
  bool has_calls() const { return rounds_.are_needed(); }

  /// From now on mails of kind kMulticast are handed to `runs`, and progress goes on with them;
  /// null: nobody takes them. It is told of all deaths that the job has survived.
  void serve(ArrivalRuns* runs) { runs_.serve(runs); }
  /// Whether mails may make calls, so that a thread of the engine's own must listen for them even
  /// while has_calls() is false.
  bool listens() const { return rounds_.listen(); }

  /// From now on waits are those of several threads, which take turns; null: of one thread. With
  /// no other thread inside.
  void share(SharedWaits* waits) { shared_ = waits; }
  /// For those. It changes when a host is to be served.
  const WaitServices& wait_services() const { return waits_; }

  /// From now on waits of the program's threads move the host's messages on, too.
  void serve_host(const JobHostProgress& host) { waits_.host = host; }

  /// What the program has registered for its calls.
  UserRegistrations& user_registrations() { return mailroom_.user_registrations(); }

  /// From now on notes in `record` what this rank does in the call that starts last, which costs
  /// some time each operation; null: nothing any more. `record` must stay until then.
  void record_into(CallRecord* record) { calls_.record_into(record); }

  /// The error that ended the job, if any.
  const std::optional<Error>& failed() const { return end_.error(); }
  /// Whether it has: any thread may ask.
  bool has_ended() const { return end_.has_come(); }
  /// Reports a failure to all ranks and ends the job with it.
  void abort(const Failure& failure) { end_.abort(failure); }
  /// Ends the job because of what went wrong on this rank alone, for which the others would wait:
  /// memory that ran out. The job's error, which may be somebody else's that came first.
  Error give_up(const Error& error) { return end_.give_up(error); }
  /// The same because the thread whose turn it is ends inside, and leaves what it was at half done:
  /// a function of the program's has called pthread_exit.
  void give_up_for_thread() { end_.give_up_for_thread(); }
  /// To be called when all ranks have made all their calls, collective over the job: fails where a
  /// message is left that does not fit the call it belongs to.
  Status check_nothing_is_left();

 private:
  /// The first call of a group, and then one in so many.
  static constexpr uint32_t kCallsBetweenLooks = 64;

  void look_at_end_now_and_then(uint32_t sequence) {
    if (sequence % kCallsBetweenLooks == 0) [[unlikely]]
      health_.look_at_end();
  }
  void withdraw();
  void part_from_departed();
  Status wait_on(Completion& completion);
  void wait_alone(const Completion& completion);

  Bootstrap& bootstrap_;
  NetworkTransport* network_;
  CallsUnderWay under_way_;
  Deaths deaths_;
  JobEnd end_;
  GroupEnds ends_;
  Disagreements disagreements_;
  Mailroom mailroom_;
  Health health_;
  CallRunner calls_;
  ServedRuns runs_;
  Rounds rounds_;
  WaitServices waits_;
  SharedWaits* shared_ = nullptr;  ///< null: one thread waits at a time
  ClockPace idle_rounds_{1};       ///< of progress_of_all()
  int64_t departed_looked_ns_ = 0;
};

}  // namespace ibcoll
