#pragma once
/// The forms that MPI has of each collective, all made of one description of the call.

#include "integrations/mpi/stand_in.h"

/// Stands in for MPI_`name`. `PARAMETERS`(Number, Place) are the function's up to the
/// communicator, each with its comma; `GIVEN`(): their names alike; `DESCRIBE`(Number, Place)
/// describes `call` for `attempt`.
#define IBCOLL_MPI_FORMS(name, nonblocking, function, PARAMETERS, GIVEN, DESCRIBE)          \
  IBCOLL_MPI_FORMS_OF(, int, int, name, nonblocking, function, PARAMETERS, GIVEN, DESCRIBE) \
  IBCOLL_MPI_FORMS_OF(_c, Count, Count, name, nonblocking, function, PARAMETERS, GIVEN, DESCRIBE)

/// The same with counts and places of one width.
#define IBCOLL_MPI_FORMS_OF(suffix, Number, Place, name, nonblocking, function, PARAMETERS, GIVEN, \
                            DESCRIBE)                                                              \
  IBCOLL_MPI_STANDS_IN(name##suffix, (PARAMETERS(Number, Place) Handle comm), {                    \
    static auto* const original =                                                                  \
        original_of<decltype(MPI_##name##suffix)>("PMPI_" #name #suffix);                          \
    return carry_out(                                                                              \
        Function::function, comm, [&] { return original(GIVEN() comm); },                          \
        [&](const Attempt& attempt, DescribedCall& call) { return DESCRIBE(Number, Place); });     \
  })
