#pragma once
/// Functions that only stand by: the MPI's, and noted where the program's traffic is recorded.
/// Where it is not, a call costs a load and a jump above the MPI's own.

#include "integrations/mpi/flows.h"
#include "integrations/mpi/stand_in.h"

namespace ibcoll::mpi {

/// The function a call goes to: `first` until it is known whether calls are recorded.
template <class Function>
Function* choose(std::atomic<Function*>& chosen, Function* recorded, Function* original) {
  if (recording() == Recording::kUndecided) return original;
  Function* const found = is_recording() ? recorded : original;
  chosen.store(found, std::memory_order_relaxed);
  return found;
}

}  // namespace ibcoll::mpi

/// `name`: the whole of it. `note` has the parameters' names.
#define IBCOLL_MPI_STANDS_BY(name, parameters, arguments, note)            \
  namespace {                                                              \
  using Function##name = int parameters;                                   \
  Function##name* original_##name() {                                      \
    static auto* const original = original_of<Function##name>("P" #name);  \
    return original;                                                       \
  }                                                                        \
  int first_##name parameters;                                             \
  constinit std::atomic<Function##name*> g_##name{first_##name};           \
  int recorded_##name parameters {                                         \
    IBCOLL_MPI_NOTES(original_##name(), arguments, note)                   \
    return original_##name() arguments;                                    \
  }                                                                        \
  int first_##name parameters {                                            \
    return choose(g_##name, recorded_##name, original_##name()) arguments; \
  }                                                                        \
  }                                                                        \
  IBCOLL_MPI_STANDS_BEFORE(name, parameters,                               \
                           { return g_##name.load(std::memory_order_relaxed) arguments; })
