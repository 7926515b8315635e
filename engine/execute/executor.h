#pragma once
/// Carries programs out over the transports. One executor a rank; used by one thread at a time.

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/base/bell.h"
#include "engine/base/message_store.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/execute/call_meaning.h"
#include "engine/execute/cells.h"
#include "engine/execute/inquiry.h"
#include "engine/execute/mail.h"
#include "engine/execute/run.h"
#include "engine/transport/transport.h"

namespace ibcoll {

struct ExecutorOptions {
  bool oversubscribed = false;       ///< more ranks than cores: yield at once instead of spinning
  int64_t late_ns = 10'000'000'000;  ///< report a wait that takes longer; 0: never
  int64_t deadline_ns = 0;           ///< end a wait that takes longer with an error; 0: never
  size_t streaming_bytes =
      0;  ///< calls that touch more memory than this on a server copy past the caches; 0: never
  CallBoard::Place board = {};  ///< where the ranks of the server note their calls, if they do
  const MadeGroups* groups = nullptr;  ///< this rank's; null: it has none to compare
};

class Executor {
 public:
  /// `network` may be null on a single server. `find_dead`: a local peer that has died, cheap
  /// enough to ask a few times a second. All must outlive the executor.
  Executor(Bootstrap& bootstrap, LocalTransport& local, NetworkTransport* network, Bell& bell,
           std::function<std::optional<Rank>()> find_dead, const ExecutorOptions& options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Starts a call. Every member of the group must start the same calls in the same order. Program,
  /// group and the memory the binding names must stay until the completion is done.
  Status post(GroupState& group, const RankProgram& program, const Binding& binding,
              Completion& completion, uint32_t sequence);
  Status post(GroupState& group, const RankProgram& program, const Binding& binding,
              Completion& completion) {
    return post(group, program, binding, completion, next_sequence(group));
  }
  /// The number of the group's next call, to be posted at once or later: what must not overtake it
  /// waits until then.
  static uint32_t next_sequence(GroupState& group) { return group.calls.take(); }

  /// Moves all calls on that can be moved. True if something happened.
  bool progress();
  /// True once it is done. An error ends the whole job: every later call gives the same one.
  Result<bool> test(Completion& completion);
  /// Progresses all calls until this one is done.
  Status wait(Completion& completion);

  /// From now on notes in `record` what this rank does in the call that starts last, which costs
  /// some time each operation; null: nothing any more. `record` must stay until then.
  void record_into(CallRecord* record);

  /// The error that ended the job, if any.
  const std::optional<Error>& failed() const { return failed_; }
  /// Reports a failure to all ranks and ends the job with it.
  void abort(const Failure& failure);
  /// Ends the job because of what went wrong on this rank alone, for which the others would wait:
  /// memory that ran out. The job's error, which may be somebody else's that came first.
  Error give_up(const Error& error);
  /// To be called when all ranks have made all their calls: fails where a message is left that does
  /// not fit the call it belongs to.
  Status check_nothing_is_left();

 private:
  friend class LaneRunner;
  /// What a run is waiting for, for messages to people.
  struct Blocked {
    Rank peer = -1;  ///< in the job; -1: no one in particular
    uint32_t step = 0;
    const char* what = "";
  };

  Run* take_run();
  bool take_cells(Run& run);
  void queue(Run& run);
  Status start(Run& run);
  void start_waiting(GroupState& group);
  void start_or_give_up(Run& run);
  void finish(Run& run);
  bool advance(Run& run);
  Status register_buffers(Run& run);
  Status register_buffer(Run& run, Buffer buffer, uint32_t slots);
  void deregister_buffers(Run& run);
  void begin_record(Run& run);

  // Between servers (network.cc).
  bool poll_network();
  bool take_local_mails();
  static MailHeader header_for(const Run& run, MailKind kind);
  void deliver(std::span<const std::byte> mail);
  void accept(Run& run, std::span<const std::byte> mail);
  void accept_early_mails(Run& run);
  bool pass_on(Run& run);
  bool send_exposure(Run& run, const Op& op, size_t& sent);
  bool send_token(Run& run, Rank peer);
  bool send_data(Run& run, Rank peer, std::span<const std::byte> data);
  void index_expects(Run& run);
  Run* find(const CallKey& call);

  // Ranks that disagree (disagreement.cc).
  void disagree(const CallKey& call, const CallMeaning& mine, Rank peer, const CallMeaning& theirs);
  void mismatch(const Run& run, Rank peer, const std::string& text);
  void dispute(const Run& run, Rank peer);
  void settle_dispute();
  bool send_inquiry(const Run& run, Rank peer, MailKind kind, const CallKey& other);
  void ask(Run& run);
  std::optional<CallNote> find_note(const CallKey& call) const;
  void take_inquiry(std::span<const std::byte> mail);
  void answer_inquiries(const Run& run);
  bool needs(const Run& run, Rank peer) const;
  void tell_the_stuck(const Run& run);
  void check_deadlock(const CallKey& call, const Inquiry& theirs);
  void look_at_strays(std::span<const LocalTransport::Stray> strays);

  // Trouble (health.cc).
  void fail_with(Error error);
  void end_with(const Failure& failure);
  Blocked blocked_on(const Run& run) const;
  std::optional<Blocked> blocked_on(const Run& run, const LaneState& lane) const;
  std::optional<Failure> absent_peer(const Run& run) const;
  void check_absence(Run& run, int64_t waited_ns);
  std::string describe(const Run& run) const;
  void check_health(Run* run, int64_t waited_ns, int64_t& next_report_ns);
  void check_tested(Run& run);

  Bootstrap& bootstrap_;
  LocalTransport& local_;
  NetworkTransport* network_;
  Bell& bell_;
  std::function<std::optional<Rank>()> find_dead_;
  ExecutorOptions options_;
  std::vector<std::unique_ptr<Run>> runs_;  ///< all there are
  std::vector<Run*> active_, idle_;
  Cells cells_;
  std::deque<Run*> without_cells_;  ///< might start but for those
  MessageStore early_mails_;        ///< of calls this rank has not started
  CallBoard board_;
  std::vector<Asked> inquiries_;  ///< about calls this rank has not made
  std::optional<Dispute> dispute_;
  Completion* waiting_ = nullptr;  ///< what wait() has been waiting for for long
  CallRecord* record_ = nullptr;
  std::optional<Error> failed_;
  uint32_t moves_ = 0;             ///< how often anything moved on; wraps around
  int64_t health_checked_ns_ = 0;  ///< last by a test
};

}  // namespace ibcoll
