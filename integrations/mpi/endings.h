#pragma once
/// What becomes of a communicator when ranks have disagreed on a call, or one could not make its
/// part: the engine's group is over, and all ranks leave the communicator to the MPI, from the same
/// call on.
///
/// Calls of a communicator are numbered, alike on all its ranks. Each rank that learns that the
/// group is over says at once, to all others, which call it makes next: those before it have ended,
/// well or with an error. From the highest of these numbers on the calls are the MPI's. What a rank
/// calls before that, others have behind them: it gets the error. So each waits, in its next call,
/// until all have spoken. Ranks that have freed the communicator, or are in MPI_Finalize, answer
/// that they make no more.
///
/// All this is done only where the program has asked for errors that come back (survives_errors):
/// else the first one ends it.
///
/// A rank may learn of the end in a call that nothing is wrong with, as it has ended an earlier one
/// well that others have not. Where errors end the job that call goes on in the MPI, with all
/// ranks.

#include "integrations/mpi/described_call.h"

namespace ibcoll::mpi {

/// No call: of numbers.
inline constexpr uint64_t kNever = UINT64_MAX;

/// The group is over, as this rank has learned. `failed_at`: the call in which it has, if that may
/// be the cause; `next`: the call that it makes next.
void learn_of_end(const Communicator& on, uint64_t failed_at, uint64_t next);
/// The engine's job is over: so are all groups.
void learn_of_jobs_end();

/// Whether calls on the communicator have to ask after_the_end() first.
inline bool has_ended(const Job& job, const Communicator& on) {
  return on.ends.load(std::memory_order_relaxed) || job.ends.load(std::memory_order_relaxed);
}
/// What comes of a call that is made after that. Waits until all ranks have spoken.
Outcome after_the_end(Communicator& on, uint64_t number);
/// What comes of a blocking call that has just failed, with this: perhaps the MPI makes it again.
/// `repeats`: its buffers allow that.
Outcome after_failure(const Attempt& attempt, Communicator& on, bool repeats,
                      const Outcome& failure);

/// Hears what others have said, and answers for communicators that are not here any more.
/// `leaves`: this rank makes no more calls at all.
void hear_of_ends(const Job& job, bool leaves);

/// Collective, in MPI_Finalize, when nobody says anything any more: takes what others have said
/// last, as an MPI may object to messages that nobody takes.
void take_last_words(const Job& job);

}  // namespace ibcoll::mpi
