#pragma once
/// Copies by messages to this rank itself.

#include "integrations/mpi/job.h"

namespace ibcoll::mpi {

/// Copies an element that can't be packed. false: the MPI can't.
bool copy_long(const Job& job, const void* from, Handle from_type, void* to, Handle to_type);

}  // namespace ibcoll::mpi
