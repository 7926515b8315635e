#pragma once
/// How a function of this library stands before one of the MPI's.

#include <time.h>

#include <utility>

#include "integrations/mpi/communicators.h"

/// Defines MPI_X and PMPI_X: who calls the latter, such as Open MPI's Fortran, is served as well.
#define IBCOLL_MPI_STANDS_IN(name, parameters, ...)                                          \
  extern "C" [[gnu::visibility("default")]] int MPI_##name parameters __VA_ARGS__ extern "C" \
      [[gnu::visibility("default"), gnu::alias("MPI_" #name)]] int PMPI_##name parameters;

namespace ibcoll::mpi {

/// The MPI's own function. `Signature`: as this library passes handles.
template <class Signature>
Signature* original_of(const char* name) {
  return reinterpret_cast<Signature*>(find_called(name));
}

/// What came of the attempt to take a call over.
struct Outcome {
  bool taken = true;
  int code = 0;  ///< of the MPI; 0: well done
  uint64_t bytes = 0;
  Reason reason = Reason::kArguments;  ///< where it is the MPI's

  static Outcome to_mpi(Reason reason) { return {false, 0, 0, reason}; }
};

/// Of what can't be right on this rank: the MPI says so.
inline const Outcome kToMpi = Outcome::to_mpi(Reason::kArguments);

inline bool is_in_place(const void* buffer) { return buffer == library().constants.in_place; }

/// A call that the engine may carry out.
struct Attempt {
  Function function;
  const Job& job;
  const Communicator& on;
  Handle handle;

  bool has_rank(int root) const { return root >= 0 && root < on.size; }

  /// From what the engine said. What it refuses on this rank alone is for the MPI to judge; all
  /// else is over on all ranks, as the communicator's error handler has it.
  Outcome outcome(ibcoll_status status, uint64_t bytes) const {
    if (status == IBCOLL_OK) [[likely]]
      return {true, 0, bytes, {}};
    return failed(status);
  }
  Outcome failed(ibcoll_status status) const;
  /// Where this rank's own block has two lengths. Not every MPI would say so: some let it pass, and
  /// then nobody is left to answer the others.
  Outcome unequal(Count sent, Count received) const;
};

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

/// Has the engine carry a call out, or the MPI. `original()` calls the MPI's function, `engine` is
/// handed an Attempt and gives an Outcome.
template <class Original, class Engine>
int carry_out(Function function, Handle comm, const Original& original, const Engine& engine) {
  Job* const job = Inside::is() ? nullptr : running_job();
  if (job == nullptr) [[unlikely]]
    return original();
  const Inside inside;
  const int64_t began = job->reports ? time_ns() : 0;
  Outcome outcome = Outcome::to_mpi(Reason::kNotChosen);
  const Handle handle = library().clean(comm);
  if (job->has_chosen(function)) [[likely]] {
    const Communicator* const on = find_communicator(*job, handle);
    outcome = on == nullptr          ? Outcome::to_mpi(Reason::kArguments)
              : on->group == nullptr ? Outcome::to_mpi(on->reason)
                                     : engine(Attempt{function, *job, *on, handle});
  }
  if (!outcome.taken) outcome.code = original();
  if (job->reports) {
    const int64_t took = time_ns() - began;
    if (outcome.taken)
      job->counters.engine_call(function, outcome.bytes, took);
    else
      job->counters.mpi_call(function, outcome.reason, took);
  }
  return outcome.code;
}

}  // namespace ibcoll::mpi
