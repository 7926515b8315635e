#pragma once
/// Datatypes: how long elements are, whether they lie side by side, and those that do not as bytes
/// that do.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "ibcoll/ibcoll.h"
#include "integrations/mpi/job.h"
#include "integrations/mpi/strides.h"

namespace ibcoll::mpi {

struct Datatype {
  Handle handle = 0;
  Count size = 0;                      ///< bytes of data in an element
  Count extent = 0;                    ///< from one element to the next
  bool contiguous = false;             ///< elements are their bytes in order, without gaps
  bool derived = false;                ///< the program may free it
  std::optional<Strides> strides;      ///< of derived ones: where the bytes of an element lie
  std::optional<ibcoll_type> reduces;  ///< what the engine combines such elements as
};

/// In MPI_Init and MPI_Finalize. false: the MPI gives no attributes.
bool begin_datatypes(const Job& job);
void end_datatypes();

/// Null for what is no datatype, or none that may be used for communication: the MPI says so where
/// it is handed it.
const Datatype* find_datatype(const Job& job, Handle type);

/// The same elements, by a handle that stays until they are let go, whatever the program does with
/// its own. Of a derived datatype that find_datatype() gave; null: the MPI can't.
std::shared_ptr<const Datatype> kept_datatype(const Datatype& type);

/// Whether it has a name in the MPI: none that the program has made.
bool is_predefined(Handle type);

/// Operators that MPI has for accumulating alone: what comes of them in a reduction is the MPI's to
/// say.
inline bool is_for_accumulate(ibcoll_operator op) {
  return op == IBCOLL_REPLACE || op == IBCOLL_NO_OP;
}

/// The engine's operator, if elements of the type can be combined by it.
std::optional<ibcoll_operator> find_operator(const Datatype& type, Handle op);

/// Elements one after the other as one block of the engine's; nothing: they lie in another way, or
/// on each other.
std::optional<ibcoll_block> block_of(const Datatype& type, Count offset, Count elements);

/// Copies elements to bytes side by side and back, by the MPI's own means. false: the MPI can't.
bool pack(const Job& job, const void* from, Count elements, const Datatype& type, std::byte* to);
bool unpack(const Job& job, const std::byte* from, void* to, Count elements, const Datatype& type);

}  // namespace ibcoll::mpi
