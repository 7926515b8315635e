#pragma once
/// Where the engine's job has its processes from: MPI_COMM_WORLD, or the process set "mpi://WORLD"
/// of a program that has sessions alone (MPI 4.0, chapter 11).

#include "integrations/mpi/job.h"

namespace ibcoll::mpi {

/// Takes the communicators that this library speaks by, and the rank: after MPI_Init.
void take_world(Job& job);

/// The same by a session of this library's own. Collective over "mpi://WORLD". false: the MPI does
/// not give it.
bool take_world_of_session(Job& job);

/// Frees what was taken.
void free_world(Job& job);

/// Whether threads of the program's may call the MPI at the same time.
bool has_threads(const Job& job);

}  // namespace ibcoll::mpi
