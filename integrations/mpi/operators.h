#pragma once
/// How elements are combined: by the engine's operators, or by the MPI's own means, one pair of a
/// datatype and an operator at a time, as an operator of this library's.

#include <optional>

#include "integrations/mpi/datatypes.h"

namespace ibcoll::mpi {

/// What a reduction by an operator on a datatype is to the engine.
struct Combination {
  ibcoll_type type = IBCOLL_OWN;
  ibcoll_operator op = IBCOLL_FIRST_OWN;
  /// The engine is handed elements as their bytes side by side: they do not lie so.
  bool packs = false;
};

struct FoundCombination {
  /// Nothing: it is for the MPI, on all ranks, which have the same operator and elements of the
  /// same length.
  std::optional<Combination> combination;
  ibcoll_status status = IBCOLL_OK;  ///< where the engine could not make the operator
};

/// `op`, and what is made for it, until the program frees one of the two.
FoundCombination find_combination(const Job& job, const Datatype& type, Handle op);

/// The program has freed the datatype: what is made for it goes with the next operator that is
/// made or freed.
void forget_combinations_of(Handle type);

/// In MPI_Finalize.
void end_operators(const Job& job);

}  // namespace ibcoll::mpi
