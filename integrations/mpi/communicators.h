#pragma once
/// What this library knows of a communicator: kept with it as an attribute. Its group is made in
/// its first collective. Where that is a blocking or persistent one, its ranks agree on a number of
/// the group. A nonblocking one must not wait for that: the number comes from the communicator's
/// line, which all its ranks know alike: of which communicator it was made, as which of those, and
/// so on up to MPI_COMM_WORLD. Such a number is never given again.

#include <atomic>
#include <memory>
#include <vector>

#include "integrations/mpi/job.h"

namespace ibcoll::mpi {

struct Operation;
struct Neighbours;
class Sampling;

struct Communicator {
  uint64_t line = 0;              ///< a hash of that; 0: not known
  uint64_t children = 0;          ///< communicators that were made of it
  bool made = false;              ///< what follows is known
  bool lacks_group = false;       ///< this rank has none, but others may
  ibcoll_group* group = nullptr;  ///< null: its calls stay with the MPI, on all ranks, for `reason`
  Reason reason = Reason::kNoEngine;
  int rank = 0, size = 0;
  uint64_t list = 0,
           id = 0;  ///< what tells the group from others: a hash of its ranks, and a number
  std::atomic<Handle> handle{0};  ///< 0: the program has freed it
  Handle handler = 0;             ///< of errors, when it has and operations are under way; 0: none
  std::atomic<int> uses{1};       ///< by the MPI's communicator, and by operations
  mutable std::atomic<bool> is_over{false};  ///< the group is, and a line has said so
  // Of endings.cc. The collectives that have come to the engine are numbered from 1: the latest one
  // that has begun, and that has come back.
  uint64_t calls = 0, ended = 0;
  std::atomic<bool> ends{false};            ///< the group does, and the other ranks are told
  mutable bool cause_is_elsewhere = false;  ///< of the latest error
  bool repeats = false;                     ///< what this rank has told them
  uint64_t failed_at = 0, next_call = 0;
  uint64_t first_of_the_mpi = 0;   ///< from which call on calls are the MPI's; 0: not known
  ibcoll_group* former = nullptr;  ///< then, what was `group`
  // Of under_way.cc: operations under way on the group, the oldest first; of them the first that
  // the engine does not have yet, and how many it has; other communicators that have some.
  Operation *first = nullptr, *last = nullptr;
  Operation* queued = nullptr;
  int posted = 0;
  Communicator *next = nullptr, *previous = nullptr;
  /// Made with a topology, or in its first blocking neighbour collective; they go before the group.
  mutable std::shared_ptr<const Neighbours> neighbours;
  std::shared_ptr<Sampling> sampling;  ///< null: none of its calls are measured, on all ranks
};

/// Collective over the communicator the first time: all its ranks make their first blocking
/// collective at the same point. Null: the MPI does not know it, and has said so or will.
Communicator* find_communicator(Job& job, Handle handle);

/// The same, but not collective. Null: none of its blocking collectives has come to the engine, and
/// its line is not known.
Communicator* known_communicator(Job& job, Handle handle);

/// `child`, or none on this rank (comm_null), was just made by all ranks of `parent`.
void note_child(Handle parent, Handle child);
/// The same of one that only its own ranks know of. Collective over it.
void note_stray(Handle child);

/// Collective: another group of the same ranks, for one persistent call, since those may be started
/// in any order; without one where no rank has it. Null: the group that they agree by is over.
Communicator* make_private(const Job& job, const Communicator& of);

/// Those of the program's that have a group.
std::vector<Communicator*> live_communicators();
/// The one whose group that is, or was; null: it is gone.
Communicator* live_communicator(uint64_t list, uint64_t id);

/// For one who goes on using it when the program has freed it; `release` ends that.
inline void use(Communicator& communicator) { communicator.uses.fetch_add(1); }
void release(Communicator& communicator);

/// Of each rank of a communicator its rank in MPI_COMM_WORLD, or MPI_UNDEFINED.
std::vector<int> ranks_in_world(Handle handle, int size);

/// In MPI_Init and MPI_Finalize. false: the MPI gives no attributes.
bool begin_communicators();
/// Frees all groups.
void end_communicators();

}  // namespace ibcoll::mpi
