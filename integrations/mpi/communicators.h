#pragma once
/// What this library knows of a communicator: kept with it as an attribute, made at its first
/// blocking collective.

#include <atomic>
#include <memory>
#include <vector>

#include "integrations/mpi/job.h"

namespace ibcoll::mpi {

struct Operation;
struct Neighbours;
class Sampling;

struct Communicator {
  ibcoll_group* group = nullptr;  ///< null: its calls stay with the MPI, on all ranks, for `reason`
  Reason reason = Reason::kNoEngine;
  int rank = 0, size = 0;
  uint64_t list = 0,
           id = 0;  ///< what tells the group from others: a hash of its ranks, and a number
  std::atomic<Handle> handle{0};  ///< 0: the program has freed it
  Handle handler = 0;             ///< of errors, when it has and operations are under way; 0: none
  std::atomic<int> uses{1};       ///< by the MPI's communicator, and by operations
  mutable std::atomic<bool> is_over{false};  ///< the group is, and a line has said so
  // Of under_way.cc: operations under way on the group, the oldest first; of them the first that
  // the engine does not have yet, and how many it has; other communicators that have some.
  Operation *first = nullptr, *last = nullptr;
  Operation* queued = nullptr;
  int posted = 0;
  Communicator *next = nullptr, *previous = nullptr;
  /// Made in its first blocking neighbour collective; they go before the group does.
  mutable std::shared_ptr<const Neighbours> neighbours;
  std::shared_ptr<Sampling> sampling;  ///< null: none of its calls are measured, on all ranks
};

/// Collective over the communicator the first time: all its ranks make their first blocking
/// collective at the same point. Null: the MPI does not know it, and has said so or will.
Communicator* find_communicator(Job& job, Handle handle);

/// The same, but not collective. Null: none of its blocking collectives has come to the engine.
Communicator* known_communicator(Handle handle);

/// Collective: another group of the same ranks, for one persistent call, since those may be started
/// in any order; without one where no rank has it. Null: the group that they agree by is over.
Communicator* make_private(const Job& job, const Communicator& of);

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
