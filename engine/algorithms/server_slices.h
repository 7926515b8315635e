#pragma once
/// A block in slices, of which the ranks of each server share the work.

#include <cstdint>

#include "engine/schedule/shape.h"

namespace ibcoll {

/// Slices are numbered alike on all servers. There are as many as ranks on the largest server;
/// ranks of smaller ones have more of them.
class ServerSlices {
 public:
  /// The shape must outlive it.
  explicit ServerSlices(const Shape& shape) : shape_(&shape) {}

  uint32_t count() const { return static_cast<uint32_t>(shape_->max_server_size()); }
  /// The first slice of a local rank of a server; of one behind the last: the number of slices.
  uint32_t first(int server, int local) const {
    return (count() * static_cast<uint32_t>(local) + size(server) - 1) / size(server);
  }
  struct Range {
    uint32_t first, end;
    uint32_t count() const { return end - first; }
  };
  /// The slices of a rank.
  Range of(Rank rank) const {
    const int server = shape_->server_of(rank), local = shape_->local_of(rank);
    return {first(server, local), first(server, local + 1)};
  }
  /// Which rank of a server has a slice.
  Rank owner(int server, uint32_t slice) const {
    return shape_->rank_at(server, static_cast<int>(slice * size(server) / count()));
  }

 private:
  uint32_t size(int server) const { return static_cast<uint32_t>(shape_->server_size(server)); }

  const Shape* shape_;
};

}  // namespace ibcoll
