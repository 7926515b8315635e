#pragma once
/// Derived datatypes whose bytes lie in strides, as the engine takes them.

#include <optional>
#include <vector>

#include "ibcoll/blocks.h"
#include "integrations/mpi/library.h"

namespace ibcoll::mpi {

/// Where the bytes of an element lie: runs, repeated by loops around each other.
struct Strides {
  struct Loop {
    Count count, stride;  ///< times; from one to the next in bytes
    friend bool operator==(const Loop&, const Loop&) = default;
  };
  Count offset = 0;         ///< of the first run
  Count run = 0;            ///< bytes side by side
  std::vector<Loop> loops;  ///< the innermost first

  /// All of it `count` times, in this order.
  void repeat(Count count, Count stride);
  bool is_one_run() const { return loops.empty(); }
};

/// Of a datatype that is no null one. Nothing: its bytes lie in another way, or there are none.
std::optional<Strides> strides_of(Handle type);

}  // namespace ibcoll::mpi
