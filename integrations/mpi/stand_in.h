#pragma once
/// How a function of this library stands before one of the MPI's.

#include <time.h>

#include <atomic>
#include <utility>

#include "integrations/mpi/described_call.h"
#include "integrations/mpi/endings.h"
#include "integrations/mpi/handlers.h"
#include "integrations/mpi/progress.h"

/// Defines MPI_X and PMPI_X: who calls the latter, such as Open MPI's Fortran, is served as well.
#define IBCOLL_MPI_STANDS_IN(name, parameters, ...) \
  IBCOLL_MPI_STANDS_BEFORE(MPI_##name, parameters, __VA_ARGS__)
/// The same by the whole name, which may begin with MPIX_.
#define IBCOLL_MPI_STANDS_BEFORE(name, parameters, ...)                                \
  extern "C" [[gnu::visibility("default")]] int name parameters __VA_ARGS__ extern "C" \
      [[gnu::visibility("default"), gnu::alias(#name)]] int P##name parameters;

namespace ibcoll::mpi {

/// The MPI's own function. `Signature`: as this library passes handles.
template <class Signature>
Signature* original_of(const char* name) {
  return reinterpret_cast<Signature*>(find_called(name));
}

inline int64_t time_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1000000000} + now.tv_nsec;
}

/// A thread's own Value, kept from call to call. Programs may call when their thread's objects are
/// gone, as the process ends: they find a new one then.
template <class Value>
class OfThread {
 public:
  static Value& get() {
    if (value_ != nullptr) [[likely]]
      return *value_;
    value_ = new Value;
    thread_local const Ending ending;
    (void)ending;
    return *value_;
  }

 private:
  struct Ending {
    ~Ending() { delete std::exchange(value_, nullptr); }
  };
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local Value* value_ = nullptr;
};

/// How many nonblocking calls the engine has not been given yet.
inline constinit std::atomic<int> g_waiting{0};

/// Gives the engine the nonblocking calls, of all communicators, that it does not have yet: the
/// next one must not overtake those of its communicator, and while this rank waits for that, others
/// may wait for any of them.
void post_all();
inline void post_those_that_wait() {
  if (g_waiting.load(std::memory_order_relaxed) != 0) [[unlikely]]
    post_all();
}

/// What comes of a call on a communicator of which this rank alone has no group.
inline Outcome lacking_group(Communicator& on) {
  on.ended = on.calls + 1;
  return after_the_end(on, ++on.calls);
}

/// What comes of a call before it is described: whether there is a group of the engine's for it.
inline Outcome served(Communicator* on) {
  if (on == nullptr) return kToMpi;
  if (on->lacks_group) [[unlikely]]
    return lacking_group(*on);
  return on->group == nullptr ? Outcome::to_mpi(on->reason) : kReady;
}

/// What comes of a blocking call that was described with that outcome.
inline Outcome make(const Attempt& attempt, Communicator& on, DescribedCall& call,
                    const Outcome& described) {
  Outcome outcome = described;
  on.calls = attempt.number;
  if (outcome.code == 0 && has_ended(attempt.job, on)) [[unlikely]] {
    outcome = after_the_end(on, attempt.number);
  } else {
    if (outcome.kind == Outcome::kReady) [[likely]]
      outcome = call.carry_out(attempt);
    if (outcome.untold) [[unlikely]]
      outcome =
          after_failure(attempt, on, described.kind != Outcome::kReady || call.repeats(), outcome);
  }
  on.ended = on.calls;
  return outcome;
}

/// Has the engine carry a call out, or the MPI. `original()` calls the MPI's function, `describe`
/// is handed an Attempt and a DescribedCall and gives an Outcome.
template <class Original, class Describe>
int carry_out(Function function, Handle comm, const Original& original, const Describe& describe) {
  Job* const job = Inside::is() ? nullptr : running_job();
  if (job == nullptr) [[unlikely]]
    return original();
  const int64_t began = job->reports ? time_ns() : 0;
  Outcome outcome = Outcome::to_mpi(Reason::kNotChosen);
  Sample sample;
  DescribedCall& call = OfThread<DescribedCall>::get();
  if (job->has_selected(function)) [[likely]] {
    const Inside inside;
    const Handle handle = library().clean(comm);
    post_those_that_wait();
    Communicator* const on = find_communicator(*job, handle);
    outcome = served(on);
    if (outcome.kind == Outcome::kReady) [[likely]] {
      const Attempt attempt{function, *job, *on, handle, on->calls + 1, Form::kBlocking, &sample};
      call.bytes = 0;
      outcome = describe(attempt, call);
      if (sample.options != nullptr) [[unlikely]]
        call.call.options = sample.options;
      if (outcome.kind != Outcome::kMpi) [[likely]]
        outcome = make(attempt, *on, call, outcome);
      call.end();
    }
  }
  const bool taken = outcome.kind != Outcome::kMpi;
  if (!taken) {
    // Not inside: an error handler of the program's, which need not come back, may run in there.
    const WhileTheMpiBlocks moving;
    outcome.code = original();
  }
  if (sample.is_taken()) [[unlikely]] {
    outcome.reason = Reason::kMeasured;
    sample.end();
  }
  if (job->reports) {
    const int64_t took = time_ns() - began;
    if (taken)
      job->counters.engine_call(function, Form::kBlocking, outcome.code == 0 ? call.bytes : 0,
                                took);
    else
      job->counters.mpi_call(function, Form::kBlocking, outcome.reason, took);
  }
  if (outcome.untold) [[unlikely]]
    tell(comm, outcome.code);
  return outcome.code;
}

}  // namespace ibcoll::mpi
