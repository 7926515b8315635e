#pragma once
/// The forms that MPI has of each collective, all made of one description of the call.

#include "integrations/mpi/flows.h"
#include "integrations/mpi/operations.h"

/// Stands in for all forms of MPI_`name`. `PARAMETERS`(Number, Place) are the function's up to the
/// communicator, each with its comma; `GIVEN`(): their names alike; `DESCRIBE`(Number, Place)
/// describes `call` for `attempt`. What it sends, for the record, is in flows.h.
#define IBCOLL_MPI_FORMS(name, nonblocking, function, PARAMETERS, GIVEN, DESCRIBE)                \
  IBCOLL_MPI_FORMS_OF(, int, int, name, nonblocking, function, PARAMETERS, GIVEN, DESCRIBE)       \
  IBCOLL_MPI_FORMS_OF(_c, Count, Count, name, nonblocking, function, PARAMETERS, GIVEN, DESCRIBE) \
  IBCOLL_MPI_OLD_FORM(name, function, PARAMETERS, GIVEN, DESCRIBE)

/// The same with counts and places of one width.
#define IBCOLL_MPI_FORMS_OF(suffix, Number, Place, name, nonblocking, function, PARAMETERS, GIVEN, \
                            DESCRIBE)                                                              \
  IBCOLL_MPI_STANDS_IN(name##suffix, (PARAMETERS(Number, Place) Handle comm), {                    \
    IBCOLL_MPI_NOTES(MPI_##name##suffix, (GIVEN() comm), note(IBCOLL_MPI_FLOWS_##function))        \
    static auto* const original =                                                                  \
        original_of<decltype(MPI_##name##suffix)>("PMPI_" #name #suffix);                          \
    return carry_out(                                                                              \
        Function::function, comm, [&] { return original(GIVEN() comm); },                          \
        [&](const Attempt& attempt, DescribedCall& call) { return DESCRIBE(Number, Place); });     \
  })                                                                                               \
  IBCOLL_MPI_STANDS_IN(                                                                            \
      nonblocking##suffix, (PARAMETERS(Number, Place) Handle comm, void* request), {               \
        IBCOLL_MPI_NOTES(MPI_##nonblocking##suffix, (GIVEN() comm, request),                       \
                         note(IBCOLL_MPI_FLOWS_##function))                                        \
        static auto* const original =                                                              \
            original_of<decltype(MPI_##nonblocking##suffix)>("PMPI_" #nonblocking #suffix);        \
        return launch(                                                                             \
            Function::function, Form::kNonblocking, comm, request,                                 \
            [&] { return original(GIVEN() comm, request); },                                       \
            [&](const Attempt& attempt, DescribedCall& call) { return DESCRIBE(Number, Place); }); \
      })                                                                                           \
  IBCOLL_MPI_PERSISTENT(MPI_##name##_init##suffix, Number, Place, function, PARAMETERS, GIVEN,     \
                        DESCRIBE)

/// Under the name that persistent ones had before MPI 4.0.
#define IBCOLL_MPI_OLD_FORM(name, function, PARAMETERS, GIVEN, DESCRIBE) \
  IBCOLL_MPI_PERSISTENT(MPIX_##name##_init, int, int, function, PARAMETERS, GIVEN, DESCRIBE)

#define IBCOLL_MPI_PERSISTENT(whole_name, Number, Place, function, PARAMETERS, GIVEN, DESCRIBE)    \
  IBCOLL_MPI_STANDS_BEFORE(                                                                        \
      whole_name, (PARAMETERS(Number, Place) Handle comm, Handle info, void* request), {           \
        IBCOLL_MPI_NOTES(whole_name, (GIVEN() comm, info, request),                                \
                         note_persistent(request, IBCOLL_MPI_FLOWS_##function))                    \
        static auto* const original = original_of<decltype(whole_name)>("P" #whole_name);          \
        return launch(                                                                             \
            Function::function, Form::kPersistent, comm, request,                                  \
            [&] { return original(GIVEN() comm, info, request); },                                 \
            [&](const Attempt& attempt, DescribedCall& call) { return DESCRIBE(Number, Place); }); \
      })
