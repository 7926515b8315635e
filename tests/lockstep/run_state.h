#pragma once
/// What a rank knows while it goes through its program. Not for users of run.h.

#include <string>
#include <string_view>
#include <vector>

#include "tests/lockstep/buffers.h"
#include "tests/lockstep/model.h"
#include "tests/lockstep/run.h"

namespace ibcoll::lockstep {

/// A call of this rank.
struct Pending {
  const Action* action = nullptr;
  ibcoll_request* request = nullptr;
  uint32_t instance = 0;
  bool started = false;
  uint64_t tested_after = 0;  ///< State::unarmed_ when it was started or tested last
  bool must_fail = false;     ///< it was started after its group had ended
  bool failed = false;        ///< once
  CallPlan plan;
  Guarded send, recv;
  std::vector<int64_t> send_counts, send_displacements, recv_counts, recv_displacements;
  std::vector<ibcoll_block> send_blocks, recv_blocks;
};

/// A multicast of this rank that is under way.
struct Sent {
  const Action* action = nullptr;
  ibcoll_request* request = nullptr;
  Guarded data;
};

/// An operator as the library is given it.
struct MadeOperator {
  OperatorSpec spec;
  uint64_t combined = 0;  ///< how often
  ibcoll_operator op = IBCOLL_FIRST_OWN;
};

class Run::State {
 public:
  State(ibcoll_context* context, const Program& program, Rank me, Runner& runner);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void run();

 private:
  void step(const Action& action);
  void close();

  // ---- groups, graphs, operators (run.cc)
  void make_operators();
  void make_groups(const Action& action);
  void free_group(uint32_t which);
  void make_graph(const Action& action);
  void free_graph(uint32_t which);
  void cancel_group(const Action& action);
  void shrink(const Action& action);
  /// What is wrong with the members of a group that shrink() made; "": nothing.
  std::string check_survivors(const std::vector<Rank>& members);
  void progress(uint32_t rounds);
  /// This rank can't go on, and the others must not wait for it.
  void give_up(const char* what);

  // ---- calls (run_calls.cc)
  void call(const Action& action);
  void exchange_counts(const Action& action);
  void take_buffers(Pending& pending);
  void fill(Pending& pending);
  ibcoll_call describe(Pending& pending, ibcoll_options& options);
  ibcoll_status call_at_once(Pending& pending, const ibcoll_call& call);
  ibcoll_status call_by_function(ibcoll_group* group, const CallSpec& spec,
                                 const ibcoll_call& call);
  ibcoll_status prepare(Pending& pending, const ibcoll_call& call);
  void start(Pending& pending);
  /// Tests a call so many times, then waits for it.
  void wait(Pending& pending, uint32_t tests, bool by_descriptor = false);
  /// Sleeps on the descriptor until a call has ended; gives what its last test did.
  ibcoll_status sleep_until_done(Pending& pending, int& done);
  void drop(Pending& pending);
  void cancel(const Action& action);
  /// What became of one start of a call.
  void finish(Pending& pending, ibcoll_status status);
  void check(Pending& pending, bool send);
  Pending& take();
  void release(Pending& pending);
  /// Nobody may write to that any more.
  void watch(Guarded& buffer);
  bool has_ended(const CallSpec& spec) const {
    return !spec.on_set && ended_[spec.group] != IBCOLL_OK;
  }

  // ---- multicasts (run_multicasts.cc)
  void multicast(const Action& action);
  void receive(const Action& action);
  void set_handler(bool on);
  static void handle(void* state, const ibcoll_message* message);
  void check_message(const ibcoll_message& message);
  bool has_data(const ibcoll_message& message) const;
  /// Takes the next message, or waits so long for it, and checks it; null: none has come, or a
  /// rank has died of which none comes.
  const ibcoll_message* next_message(int64_t patience_us);
  /// Takes a message that has come, if there is one, and frees it at once.
  bool take_message();
  /// Who waits for messages, in one wait or in many short ones, learns of each rank that has died.
  void learn_of_deaths(int64_t patience_us);
  void free_held(size_t keep);
  /// Looks once which multicasts have ended.
  void poll_sent();
  void sent(Sent& one, ibcoll_status status);
  /// Until all that was sent has come; the same point of all ranks.
  void settle();
  void settle_alone();
  /// Instead of that: the library is left to do what others still need of this rank.
  void leave_at_once();
  bool settled(const std::vector<int64_t>& counts) const;

  // ---- what must not work (run_refusals.cc)
  void refuse(const Action& action);
  void disagree(const Action& action);

  // ---- errors (run.cc)
  static Outcome outcome_of(ibcoll_status status) {
    return {status, ibcoll_last_error_scope(), ibcoll_last_error()};
  }
  void job_over(const Outcome& outcome, const Action* action);
  /// There may not even be memory for the line.
  bool is_untold(const Outcome& outcome) const {
    return outcome.text.empty() && runner_.faults().memory_failed;
  }
  /// An error of something on the action's group, set, or of its multicast.
  void failed(const Action& action, ibcoll_status status);
  /// A function that has no reason to fail but the job's end, or memory.
  bool expect_ok(ibcoll_status status, const char* what);
  void violation(const Action& action, const std::string& what);
  void violation(const std::string& what);

  ibcoll_context* const context_;
  const Program& program_;
  const Rank me_;
  Runner& runner_;
  const Causes causes_;
  Buffers buffers_;
  Checker checker_;
  std::vector<ibcoll_group*> groups_;
  std::vector<ibcoll_graph*> graphs_;
  std::vector<ibcoll_group*> handles_of_sets_;  ///< to be freed
  std::vector<ibcoll_request*> spares_;         ///< of each group, to be renewed
  std::vector<ibcoll_status> ended_;            ///< how each group ended here
  std::vector<Pending*> calls_;                 ///< by their actions' numbers
  std::vector<Pending*> all_, free_;
  std::vector<MadeOperator> operators_;
  std::vector<uint32_t> order_;
  std::vector<Guarded> watched_;  ///< of calls that ended early: nobody may write there any more

  /// How often the descriptor was not armed, as something had moved: all that is waited for is to
  /// be tested then, before it is armed again.
  uint64_t unarmed_ = 0;

  bool multicasts_ = false;  ///< the program has some, or takes what comes
  bool handles_ = false;
  std::vector<Sent> sent_;
  uint64_t multicasts_begun_ = 0, multicasts_acknowledged_ = 0;
  std::vector<const ibcoll_message*> held_;
  std::vector<int64_t> certain_, uncertain_;     ///< messages sent to each rank
  std::vector<int64_t> received_, last_number_;  ///< of each master
  uint64_t told_ = 0;                            ///< ranks that receives have told the end of

  bool over_ = false;
  ibcoll_status over_status_ = IBCOLL_OK;
  std::string over_text_;
  int after_end_ = 0;
};

}  // namespace ibcoll::lockstep
