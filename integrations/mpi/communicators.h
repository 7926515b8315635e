#pragma once
/// What this library knows of a communicator: kept with it as an attribute, made at its first
/// blocking collective.

#include <optional>

#include "integrations/mpi/job.h"

namespace ibcoll::mpi {

struct Communicator {
  ibcoll_group* group = nullptr;  ///< null: its calls stay with the MPI, on all ranks, for `reason`
  Reason reason = Reason::kNoEngine;
  int rank = 0, size = 0;
  uint64_t list = 0,
           id = 0;  ///< what tells the group from others: a hash of its ranks, and a number
};

/// Collective over the communicator the first time: all its ranks make their first blocking
/// collective at the same point. Null: the MPI does not know it, and has said so or will.
const Communicator* find_communicator(Job& job, Handle handle);

/// In MPI_Init and MPI_Finalize. false: the MPI gives no attributes.
bool begin_communicators();
/// Frees all groups.
void end_communicators();

}  // namespace ibcoll::mpi
