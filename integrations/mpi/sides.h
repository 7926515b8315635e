#pragma once
/// What functions of the MPI are given of the two sides of a call, and how they are given it.

#include "integrations/mpi/forms.h"

namespace ibcoll::mpi {

/// Equal blocks, or one.
struct Side {
  const void* buffer;
  Count count;
  Handle type;
};

/// Blocks with counts and places.
template <class Number, class Place>
struct Sides {
  const void* buffer;
  const Number* counts;
  const Place* places;
  Handle type;
};

/// Blocks with a datatype each.
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
    // Of a block without elements only Open MPI looks at the datatype.
    if (counts[slot] == 0 && !(mpi.is_open_mpi && type == mpi.constants.type_null))
      return {0, 0, &kNothing};
    return {counts[slot], places[slot], find_datatype(job, type)};
  }
};

}  // namespace ibcoll::mpi

// Parameters of the functions, and their names, as IBCOLL_MPI_FORMS takes them.

#define TWO_SIDES(Number, Place)                                                        \
  const void *send, Number send_count, Handle send_type, void *recv, Number recv_count, \
      Handle recv_type,
#define TWO_SIDES_GIVEN() send, send_count, send_type, recv, recv_count, recv_type,

#define ALLGATHERV(Number, Place)                                                     \
  const void *send, Number count, Handle send_type, void *recv, const Number *counts, \
      const Place *places, Handle recv_type,
#define ALLGATHERV_GIVEN() send, count, send_type, recv, counts, places, recv_type,

#define ALLTOALLV(Number, Place)                                                           \
  const void *send, const Number *send_counts, const Place *send_places, Handle send_type, \
      void *recv, const Number *recv_counts, const Place *recv_places, Handle recv_type,
#define ALLTOALLV_GIVEN() \
  send, send_counts, send_places, send_type, recv, recv_counts, recv_places, recv_type,

#define ALLTOALLW(Number, Place)                                                                 \
  const void *send, const Number *send_counts, const Place *send_places, const void *send_types, \
      void *recv, const Number *recv_counts, const Place *recv_places, const void *recv_types,
#define ALLTOALLW_GIVEN() \
  send, send_counts, send_places, send_types, recv, recv_counts, recv_places, recv_types,
