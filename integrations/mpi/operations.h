#pragma once
/// Nonblocking and persistent collectives on the engine, from their start to their end.
///
/// What the program holds is a request of the MPI's, which therefore takes it in all its functions:
/// of a nonblocking call a generalized one, of a persistent call a persistent receive from this
/// rank itself. When the engine's call has ended, and what was received lies in its place, the
/// request is completed: MPI_Grequest_complete, or the message that is received.

#include <atomic>
#include <cstdint>
#include <string>

#include "integrations/mpi/stand_in.h"

namespace ibcoll::mpi {

struct Operation {
  enum State : uint8_t {
    kIdle,      ///< not started, or persistent and ended
    kUnderWay,  ///< in the engine, or to follow
    kEnded,     ///< the MPI's request is complete, or just about to be
  };
  DescribedCall described;
  Function function = Function::kBarrier;
  Communicator* on = nullptr;  ///< in use; the program's
  Communicator* own =
      nullptr;          ///< in use; whose group makes the call: of a persistent call its own
  uint64_t number = 0;  ///< of the call on `on`
  ibcoll_request* engine = nullptr;  ///< null: the call moves nothing, or the engine gets it later
  Handle request = 0;                ///< the MPI's
  int tag = -1;                      ///< of a persistent call: of the message that completes it
  bool is_freed = false;  ///< persistent, and freed by the program while it was under way
  std::atomic<State> state{kIdle};
  std::atomic<bool> claimed{
      false};                ///< a thread tests it, or waits for it: to the others it is taboo
  std::atomic<int> code{0};  ///< of the MPI: how it has ended; who completes it tells of it
  ibcoll_status refused = IBCOLL_OK;  ///< by the engine, when it was given it later, for this:
  std::string why;
  std::atomic<int> holds{0};  ///< by its call, and by the MPI's request: then it is used again
  Operation *next = nullptr, *previous = nullptr;  ///< of those under way on `own`; of those free

  bool is_persistent() const { return tag >= 0; }
};

/// A collective that is to be started, or prepared.
class Launch {
 public:
  /// Persistent ones are collective over the communicator.
  Launch(Job& job, Function function, Form form, Handle comm);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// Whether the engine may carry it out: then it has to be described.
  bool wants_description() const { return outcome_.kind == Outcome::kReady; }
  Attempt attempt() const {
    return {operation_->function, job_, *operation_->own, handle_, operation_->number, form_};
  }
  DescribedCall& call() { return operation_->described; }
  /// Starts it, or prepares it. true: `request` holds the program's handle, or an error has come of
  /// it (code()); false: it is for the MPI.
  bool takes_over(const Outcome& described, void* request);
  int code() const { return outcome_.code; }
  bool untold() const { return outcome_.untold; }
  /// To be called at the end, for the report.
  void count() const;

 private:
  Outcome start(void* request);
  /// `moves`: the engine has something to do.
  Outcome prepare(void* request, bool moves);
  Outcome hand_out(void* request);
  Outcome hand_out_finished(void* request);
  void drop();

  Job& job_;
  const Form form_;
  const Handle handle_;
  const Function function_;
  const int64_t began_;
  uint64_t bytes_ = 0;
  Outcome outcome_;
  Operation* operation_ = nullptr;
};

/// Has the engine start a nonblocking collective, or prepare a persistent one, or the MPI: as
/// carry_out() does blocking ones.
template <class Original, class Describe>
int launch(Function function, Form form, Handle comm, void* request, const Original& original,
           const Describe& describe) {
  Job* const job = Inside::is() ? nullptr : running_job();
  if (job == nullptr) [[unlikely]]
    return original();
  Launch launched(*job, function, form, comm);
  bool taken = false;
  {
    const Inside inside;
    Outcome described = kToMpi;
    if (launched.wants_description()) {
      const Attempt attempt = launched.attempt();
      described = describe(attempt, launched.call());
    }
    taken = launched.takes_over(described, request);
  }
  int code = launched.code();
  if (!taken) {
    const WhileTheMpiBlocks moving;
    code = original();
  }
  launched.count();
  if (launched.untold()) [[unlikely]]
    tell(comm, code);
  return code;
}

/// The operation of a request of the program's; null: it is none of this library's.
Operation* find_operation(Handle request);

/// Whether operations are under way: what may take long then has to move them on.
bool operations_under_way();
/// Whether one has ended with an error: who completes requests has to look for it.
bool operations_failed();
/// It has been given to who completed the operation's request.
void forget_error(Operation& operation);

/// From now on the engine moves on wherever this rank waits: an error has ended a group, whose
/// other ranks get theirs when this one has confirmed that it writes to them no more.
void keep_moving();

/// Starts a persistent call. `request`: where the program has it. The MPI's code; `untold`: what
/// its communicator's error handler has to hear of.
int start_operation(Operation& operation, void* request, Untold& untold);
/// Waits until it is not under way any more.
void settle(Operation& operation);
/// The program frees a persistent request. The MPI's code.
int free_persistent(Operation& operation, void* request);

/// One round of progress: completes the requests of operations that have ended. Does nothing with
/// WithoutPolling.
void poll_operations();
/// MPI_Wait of a request that is none of this library's, which moves operations on where the MPI
/// does not.
int wait_moving(void* request, void* status);

/// In MPI_Finalize: what is under way ends first.
void end_operations();
/// When all ranks have come there: nobody asks anything any more.
void stop_moving();

}  // namespace ibcoll::mpi
