#include "integrations/mpi/endings.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "integrations/mpi/handlers.h"
#include "integrations/mpi/operations.h"

namespace ibcoll::mpi {

namespace {

constexpr int kTag = 1;  // on Job::world, which has no other messages

/// What a rank says of a group, which the first two name.
struct Word {
  uint64_t list = 0, id = 0;
  uint64_t failed_at = kNever;  ///< the first of its calls that has failed there, as far as that
                                ///< may be the cause
  uint64_t next = kNever;       ///< the call that it makes next
  uint64_t repeats = 0;         ///< 1: that one is the same as `failed_at`, if others failed before
};
constexpr int kWords = sizeof(Word) / sizeof(uint64_t);

using Name = std::pair<uint64_t, uint64_t>;

struct Heard {
  std::mutex mutex;
  /// Of each group, by others: each says it once, and may say later that it has left.
  std::map<Name, std::map<int, Word>> words;
  uint64_t taken = 0;  ///< how many words came
  std::mutex saying;
  std::map<int, uint64_t> said;  ///< and how many went, to each rank
};

Heard& heard() {
  static auto* const all = new Heard;
  return *all;
}

void send(const Job& job, Word word, int rank) {
  const Library& mpi = library();
  {
    const std::lock_guard lock(heard().saying);
    ++heard().said[rank];
  }
  mpi.Send(&word, kWords, mpi.constants.type_uint64, rank, kTag, job.world);
}

/// Says it to all others.
void learn(Communicator& on, uint64_t failed_at, uint64_t next, bool repeats) {
  const Job& job = the_job();
  const Inside inside;
  on.failed_at = failed_at;
  on.next_call = next;
  on.repeats = repeats;
  on.ends = true;
  keep_moving();
  const Word word = {on.list, on.id, failed_at, next, repeats ? uint64_t{1} : 0};
  for (const int rank : ranks_in_world(on.handle, on.size))
    if (rank != job.rank) send(job, word, rank);
}

/// With the mutex held, or by the last thread.
Word take(const Job& job, int from) {
  const Library& mpi = library();
  Word word;
  mpi.Recv(&word, kWords, mpi.constants.type_uint64, from, kTag, job.world,
           mpi.constants.status_ignore);
  ++heard().taken;
  return word;
}

/// From which call on the communicator is the MPI's.
uint64_t first_of_the_mpi(const std::map<int, Word>& words) {
  uint64_t failed_at = kNever, first = 0;
  for (const auto& [rank, word] : words) failed_at = std::min(failed_at, word.failed_at);
  for (const auto& [rank, word] : words) {
    const bool is_cause = word.repeats != 0 && failed_at != kNever && word.failed_at == failed_at;
    first = std::max(first, is_cause ? word.next + 1 : word.next);
  }
  return first;
}

/// Waits until all ranks have spoken.
void agree(Communicator& on) {
  const Job& job = the_job();
  const Name name{on.list, on.id};
  for (;;) {
    hear_of_ends(job, false);
    {
      Heard& all = heard();
      const std::lock_guard lock(all.mutex);
      std::map<int, Word>& words = all.words[name];
      if (words.size() + 1 == static_cast<size_t>(on.size)) {
        words[job.rank] = {on.list, on.id, on.failed_at, on.next_call,
                           on.repeats ? uint64_t{1} : 0};
        on.first_of_the_mpi = first_of_the_mpi(words);
        all.words.erase(name);
        return;
      }
    }
    poll_operations();
    sched_yield();
  }
}

/// The group stays until the communicator goes: what is under way on it ends there.
void hand_back(Communicator& on) {
  on.former = std::exchange(on.group, nullptr);
  on.lacks_group = false;
  on.reason = Reason::kNoGroup;
}

}  // namespace

void learn_of_end(const Communicator& on, uint64_t failed_at, uint64_t next) {
  if (!the_job().survives_errors) return;
  if (on.handle == 0 || (on.group == nullptr && !on.lacks_group) || on.ends) return;
  learn(const_cast<Communicator&>(on), failed_at, next, false);
}

void learn_of_jobs_end() {
  if (!the_job().survives_errors) return;
  the_job().ends = true;
  for (Communicator* const on : live_communicators())
    if (on->ended == on->calls) learn_of_end(*on, kNever, on->calls + 1);
}

Outcome after_the_end(Communicator& on, uint64_t number) {
  if (!on.ends) learn_of_end(on, kNever, number);
  if (!on.ends) return Outcome::failed(library().constants.err_other);
  if (on.first_of_the_mpi == 0) agree(on);
  if (number < on.first_of_the_mpi) return Outcome::failed(library().constants.err_other);
  hand_back(on);
  return Outcome::to_mpi(Reason::kNoGroup);
}

Outcome after_failure(const Attempt& attempt, Communicator& on, bool repeats,
                      const Outcome& failure) {
  if (on.ends || on.group == nullptr || !attempt.job.survives_errors) return failure;
  const ibcoll_status status = ibcoll_group_status(on.group);
  // After a death nobody waits for all.
  if (status != IBCOLL_ERR_MISMATCH && status != IBCOLL_ERR_CANCELLED) return failure;
  const uint64_t failed_at = on.cause_is_elsewhere ? kNever : attempt.number;
  if (!(repeats && is_fatal_on(on))) {
    learn(on, failed_at, attempt.number + 1, false);
    return failure;
  }
  learn(on, failed_at, attempt.number, true);
  const Outcome outcome = after_the_end(on, attempt.number);
  return outcome.kind == Outcome::kMpi ? outcome : failure;
}

void hear_of_ends(const Job& job, bool leaves) {
  const Library& mpi = library();
  static auto* const probe =
      reinterpret_cast<int (*)(int, int, Handle, int*, void*)>(find_symbol("PMPI_Iprobe"));
  const Inside inside;
  const WithoutPolling hearing;  // which would come here again
  Heard& all = heard();
  const std::unique_lock lock(all.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (;;) {
    constexpr size_t kMostBytes = 128;  // of an MPI_Status
    alignas(std::max_align_t) std::array<std::byte, kMostBytes> status;
    int found = 0;
    if (probe(mpi.constants.any_source, kTag, job.world, &found, status.data()) != 0 || found == 0)
      return;
    const int from = *reinterpret_cast<int*>(status.data() + mpi.constants.status_source_at);
    const Word word = take(job, from);
    Communicator* const on = leaves ? nullptr : live_communicator(word.list, word.id);
    if (on == nullptr) {
      // Who has never spoken of it makes no more calls on it. To others this says nothing new.
      if (word.next != kNever) send(job, {word.list, word.id}, from);
      continue;
    }
    if (on->first_of_the_mpi != 0) continue;
    all.words[{word.list, word.id}].emplace(from, word);
    // Not amid a call on it, which ends with that itself.
    if (on->ended == on->calls) learn_of_end(*on, kNever, on->calls + 1);
  }
}

void take_last_words(const Job& job) {
  const Library& mpi = library();
  const Inside inside;
  Heard& all = heard();
  const uint64_t any = all.said.empty() ? 0 : 1;
  uint64_t some = 0;
  mpi.Allreduce(&any, &some, 1, mpi.constants.type_uint64, mpi.constants.op_max, job.world);
  if (some == 0) return;
  std::vector<uint64_t> said(static_cast<size_t>(job.size)), by_all(said.size());
  for (const auto& [rank, words] : all.said) said[static_cast<size_t>(rank)] = words;
  mpi.Allreduce(said.data(), by_all.data(), job.size, mpi.constants.type_uint64,
                mpi.constants.op_sum, job.world);
  while (all.taken < by_all[static_cast<size_t>(job.rank)])
    (void)take(job, mpi.constants.any_source);
  all.said.clear();
  all.taken = 0;
}

}  // namespace ibcoll::mpi
