#pragma once
/// What this rank sends in a call, by its arguments: a collective's logical pairs, whatever carries
/// them. Of what is wrong nothing is said, as the MPI does that: the flows are empty.

#include "integrations/mpi/neighbours.h"
#include "integrations/mpi/record.h"

namespace ibcoll::mpi {

/// Of a message, or of what a rank sends to a collective's root.
Flows flows_to(Handle comm, int to, Count count, Handle type);
/// A block for each rank, or the same for all.
Flows flows_to_all(Handle comm, Count count, Handle type);
/// Of scans.
Flows flows_to_next(Handle comm, Count count, Handle type);
/// As flows_to_all, by the root alone.
Flows flows_from_root(Handle comm, int root, Count count, Handle type);

/// Blocks with counts of their own. `types`: one for each; null: all are of `type`.
template <class Number>
Flows flows_to_each(Handle comm, const Number* counts, Handle type, const void* types = nullptr) {
  const Places* const places = find_places(comm);
  if (places == nullptr || counts == nullptr) return {};
  Flows flows;
  for (size_t to = 0; to < places->world.size(); ++to) {
    if (places->world[to] < 0) continue;
    const Handle own = types == nullptr ? type : library().handle_at(types, static_cast<int>(to));
    flows.push_back({places->world[to], bytes_of(counts[to], own)});
  }
  return flows;
}

/// A block for each neighbour, or the same for all.
Flows flows_to_neighbours(Handle comm, Count count, Handle type);

/// Blocks for the neighbours with counts of their own; `types` as of flows_to_each.
template <class Number>
Flows flows_to_each_neighbour(Handle comm, const Number* counts, Handle type,
                              const void* types = nullptr) {
  const Places* const places = find_places(comm);
  if (places == nullptr || counts == nullptr) return {};
  Flows flows;
  const std::vector<int> ranks = neighbours_sent_to(comm, places->rank);
  for (size_t slot = 0; slot < ranks.size(); ++slot) {
    const int to = places->in_world(ranks[slot]);
    if (to < 0) continue;
    const Handle own = types == nullptr ? type : library().handle_at(types, static_cast<int>(slot));
    flows.push_back({to, bytes_of(counts[slot], own)});
  }
  return flows;
}

/// As flows_to_each, by the root alone.
template <class Number>
Flows flows_from_root_to_each(Handle comm, int root, const Number* counts, Handle type) {
  const Places* const places = find_places(comm);
  return places == nullptr || places->rank != root ? Flows{} : flows_to_each(comm, counts, type);
}

/// Of allgatherv in place: this rank's part of the counts.
template <class Number>
Count own_count(Handle comm, const Number* counts) {
  const Places* const places = find_places(comm);
  if (places == nullptr || places->world.empty() || counts == nullptr) return 0;
  return counts[places->rank];
}

}  // namespace ibcoll::mpi

/// The flows of each function, by the names of its parameters. In place the receive side says what
/// is sent.
#define IBCOLL_MPI_FLOWS_kAlltoall                               \
  (is_in_place(send) ? flows_to_all(comm, recv_count, recv_type) \
                     : flows_to_all(comm, send_count, send_type))
#define IBCOLL_MPI_FLOWS_kAllgather IBCOLL_MPI_FLOWS_kAlltoall
#define IBCOLL_MPI_FLOWS_kAlltoallv                                \
  (is_in_place(send) ? flows_to_each(comm, recv_counts, recv_type) \
                     : flows_to_each(comm, send_counts, send_type))
#define IBCOLL_MPI_FLOWS_kAlltoallw                                    \
  (is_in_place(send) ? flows_to_each(comm, recv_counts, 0, recv_types) \
                     : flows_to_each(comm, send_counts, 0, send_types))
#define IBCOLL_MPI_FLOWS_kAllgatherv                                          \
  (is_in_place(send) ? flows_to_all(comm, own_count(comm, counts), recv_type) \
                     : flows_to_all(comm, count, send_type))
#define IBCOLL_MPI_FLOWS_kGather flows_to(comm, root, send_count, send_type)
#define IBCOLL_MPI_FLOWS_kGatherv flows_to(comm, root, count, send_type)
#define IBCOLL_MPI_FLOWS_kScatter flows_from_root(comm, root, send_count, send_type)
#define IBCOLL_MPI_FLOWS_kScatterv flows_from_root_to_each(comm, root, counts, send_type)
#define IBCOLL_MPI_FLOWS_kBcast flows_from_root(comm, root, count, type)
#define IBCOLL_MPI_FLOWS_kBarrier ibcoll::mpi::Flows()
#define IBCOLL_MPI_FLOWS_kReduce flows_to(comm, root, count, type)
#define IBCOLL_MPI_FLOWS_kAllreduce flows_to_all(comm, count, type)
#define IBCOLL_MPI_FLOWS_kReduceScatter flows_to_each(comm, counts, type)
#define IBCOLL_MPI_FLOWS_kReduceScatterBlock flows_to_all(comm, count, type)
#define IBCOLL_MPI_FLOWS_kScan flows_to_next(comm, count, type)
#define IBCOLL_MPI_FLOWS_kExscan flows_to_next(comm, count, type)
#define IBCOLL_MPI_FLOWS_kNeighborAllgather flows_to_neighbours(comm, send_count, send_type)
#define IBCOLL_MPI_FLOWS_kNeighborAllgatherv flows_to_neighbours(comm, count, send_type)
#define IBCOLL_MPI_FLOWS_kNeighborAlltoall IBCOLL_MPI_FLOWS_kNeighborAllgather
#define IBCOLL_MPI_FLOWS_kNeighborAlltoallv flows_to_each_neighbour(comm, send_counts, send_type)
#define IBCOLL_MPI_FLOWS_kNeighborAlltoallw \
  flows_to_each_neighbour(comm, send_counts, 0, send_types)
