#include "integrations/mpi/flows.h"

namespace ibcoll::mpi {

Flows flows_to(Handle comm, int to, Count count, Handle type) {
  const Places* const places = find_places(comm);
  if (places == nullptr) return {};
  const int target = places->in_world(to);
  if (target < 0) return {};
  return {{target, bytes_of(count, type)}};
}

Flows flows_to_all(Handle comm, Count count, Handle type) {
  const Places* const places = find_places(comm);
  if (places == nullptr) return {};
  const uint64_t bytes = bytes_of(count, type);
  Flows flows;
  for (const int target : places->world)
    if (target >= 0) flows.push_back({target, bytes});
  return flows;
}

Flows flows_to_next(Handle comm, Count count, Handle type) {
  const Places* const places = find_places(comm);
  return places == nullptr ? Flows{} : flows_to(comm, places->rank + 1, count, type);
}

Flows flows_to_neighbours(Handle comm, Count count, Handle type) {
  const Places* const places = find_places(comm);
  if (places == nullptr) return {};
  const uint64_t bytes = bytes_of(count, type);
  Flows flows;
  for (const int neighbour : neighbours_sent_to(comm, places->rank))
    if (const int to = places->in_world(neighbour); to >= 0) flows.push_back({to, bytes});
  return flows;
}

Flows flows_from_root(Handle comm, int root, Count count, Handle type) {
  const Places* const places = find_places(comm);
  return places == nullptr || places->rank != root ? Flows{} : flows_to_all(comm, count, type);
}

}  // namespace ibcoll::mpi
