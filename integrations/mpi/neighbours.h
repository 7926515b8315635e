#pragma once
/// Who sends to whom in the neighbour collectives of a communicator with a topology.

#include <vector>

#include "integrations/mpi/communicators.h"

namespace ibcoll::mpi {

/// One side of this rank's neighbours: as the program counts them, in slots of its buffers, and as
/// the engine does, in edges.
struct NeighbourSlots {
  int count = 0;           ///< slots; those of MPI_PROC_NULL have no edge
  std::vector<int> slots;  ///< of each edge
  bool plain = true;       ///< edges are slots
};

struct Neighbours {
  ibcoll_graph* graph = nullptr;  ///< null: calls stay with the MPI, on all ranks, for `reason`
  Reason reason = Reason::kCopies;
  bool is_over = false;  ///< the group was, when they were to be made
  NeighbourSlots sources, destinations;

  Neighbours() = default;
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;
};

/// The ranks that this one, `rank` of a communicator with a topology, sends to, in the program's
/// order; negative ones are MPI_PROC_NULL. Empty: there is no topology.
std::vector<int> neighbours_sent_to(Handle handle, int rank);

/// Those that the communicator has; null: it has none yet.
inline const Neighbours* find_neighbours(const Communicator& on) { return on.neighbours.get(); }
/// Collective: who makes a topology, or its first blocking neighbour collective. Null: the MPI
/// says why, or there are none with a graph of the engine's, on any rank.
const Neighbours* make_neighbours(const Communicator& on, Handle handle);
/// Collective, for a call that was described on another group of the same ranks: gives it the graph
/// of this one, if it has any. false: there is none, on any rank.
bool take_graph_along(const Communicator& on, Handle handle, ibcoll_call& call);

}  // namespace ibcoll::mpi
