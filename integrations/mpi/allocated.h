#pragma once
/// Memory of MPI_Alloc_mem, which is the engine's where that has some.

#include <cstddef>
#include <vector>

namespace ibcoll::mpi {

/// What the program has not freed stays where it is, with all that it holds, while the engine's job
/// is left: programs look at it after MPI_Finalize. The engine must be left in this object's life.
class AllocatedStays {
 public:
  AllocatedStays();
  ~AllocatedStays();
  AllocatedStays(const AllocatedStays&) = delete;
  AllocatedStays& operator=(const AllocatedStays&) = delete;

 private:
  struct Range {
    void *address, *alias;
    size_t bytes;
  };
  std::vector<Range> ranges_;
};

}  // namespace ibcoll::mpi
