#pragma once
/// One side of a call that gives each block a datatype of its own, as MPI_Alltoallw does.

#include "integrations/mpi/described_call.h"

namespace ibcoll::mpi {

template <class Number, class Place>
struct EachBlock {
  const void* buffer;
  const Number* counts;
  const Place* places;  ///< in bytes
  const void* types;    ///< handles

  bool is_complete() const {
    return counts != nullptr && places != nullptr && types != nullptr && !is_in_place(buffer);
  }
  /// Of a slot of the program's arrays.
  BlockGiven block(const Job& job, int slot) const {
    static const Datatype kNothing = [] {
      Datatype nothing;
      nothing.contiguous = true;
      return nothing;
    }();
    const Library& mpi = library();
    const Handle type = mpi.handle_at(types, slot);
    // Of a block without elements only Open MPI looks at the datatype, whose handles are pointers.
    const bool looks = mpi.constants.handle_mask != UINT32_MAX;
    if (counts[slot] == 0 && !(looks && type == mpi.constants.type_null)) return {0, 0, &kNothing};
    return {counts[slot], places[slot], find_datatype(job, type)};
  }
};

}  // namespace ibcoll::mpi
