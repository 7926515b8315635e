#pragma once
/// Waits of several threads of one rank, and the thread that makes progress by itself.

#include <cstdint>
#include <thread>
#include <vector>

#include "engine/base/result.h"
#include "engine/execute/turns.h"
#include "engine/execute/wait_services.h"

namespace ibcoll {

class Executor;

/// Several threads use an executor by turns. Of those that wait one is the *keeper*: it makes
/// progress of all calls, spins, yields and sleeps on the bell as a single thread would, and lets
/// the others in between two rounds. The others sleep until their calls are done, the job has
/// ended, or the keeper leaves and it is their turn to be it. A thread that begins to wait while
/// the keeper sleeps is the keeper from then on, so that peers need not ring for one that polls.
///
/// The progress thread, if there is one, is the keeper while no other thread waits and calls are
/// under way. It never spins. One that is there for peers only, who may need this rank's help, is
/// the keeper once the program has made no call for a while: not at once, for it would be woken
/// after each call.
class SharedWaits {
 public:
  explicit SharedWaits(const Executor& executor);
  ~SharedWaits();
  SharedWaits(const SharedWaits&) = delete;
  SharedWaits& operator=(const SharedWaits&) = delete;

  // A call of the program, by whichever thread, is between these two.
  void enter() {
    turns_.take();
    ++entries_;
  }
  void leave();

  /// Until the completion is done, or that time (now_ns()) has come, if it is not 0; inside a call.
  Status wait(const Completion& completion, int64_t until_ns = 0);

  // With no thread inside.
  /// Whether the program calls by one thread at a time. While that one waits this rank makes no
  /// other call, as peers that wait for one are told; with several threads that is known only where
  /// the process has no other one.
  void set_one_calls(bool one);
  /// `for_peers`: only for these; it may be there already, for another purpose.
  Status start_progress_thread(bool for_peers);
  void stop_progress_thread();

 private:
  /// A thread that waits; the progress thread waits for no completion.
  struct Waiting {
    enum class Where : uint8_t {
      kAwake,  ///< or in line for the turn
      kAtRest,
      kOnBell,
      kRung,  ///< on the bell still
    };
    const Completion* completion = nullptr;
    int64_t until_ns = 0;
    Where where = Where::kAwake;
    Turns::Place place;
  };
  class Keeping;

  bool over(const Waiting& waiting) const;
  bool somebody_waits() const;
  bool helper_is_needed() const;
  bool nobody_else_calls(const Waiting& waiting) const;
  void rest(Waiting& waiting);
  void wake(Waiting& waiting);
  void wake_finished();
  void kick_keeper();
  void see_to_keeper();
  bool take_over(Waiting& waiting);
  void keep(Waiting& waiting, Idling& idling);
  void stop_waiting(Waiting& waiting);
  bool program_is_away();
  void rest_helper();
  void run_progress_thread();

  const WaitServices& services_;
  Turns turns_;
  // Of whoever has the turn.
  std::vector<Waiting*> waiting_;  ///< the threads of the program that do, in the order they began
  size_t limited_ = 0;             ///< of them: those that wait until some time
  Waiting* keeper_ = nullptr;
  uint32_t moves_ = 0;   ///< when the keeper went to sleep: how often anything had moved
  size_t calls_ = 0;     ///< and how many calls were under way
  uint32_t rounds_ = 0;  ///< since somebody has looked for reasons why a wait may never end
  std::vector<PostedCall*> looked_after_;
  Waiting helper_;                           ///< the progress thread
  uint32_t entries_ = 0, entries_seen_ = 0;  ///< calls so far; as the progress thread has seen them
  bool helper_runs_ = false, for_peers_ = false;
  bool one_calls_ = false;
  std::thread thread_;
};

}  // namespace ibcoll
