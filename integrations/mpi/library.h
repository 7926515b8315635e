#pragma once
/// The MPI of the program, which the preloaded library stands before: found when it is first asked
/// for, never linked to.

#include <cstddef>
#include <cstdint>
#include <string>

#include "integrations/mpi/mpi_constants.h"

namespace ibcoll::mpi {

/// A handle of the MPI's, an integer of 32 bits or a pointer. Both travel in a register, or in
/// eight bytes of the stack, wherever this library runs: so a function that takes one can be
/// called, and stood in for, as one of uintptr_t. What lies above an integer's 32 bits means
/// nothing.
using Handle = uintptr_t;
/// Of MPI_Count and MPI_Aint.
using Count = int64_t;
static_assert(sizeof(ptrdiff_t) == sizeof(Count));

using CopyAttribute = int(Handle, int, void*, void*, void*, int*);
using DeleteAttribute = int(Handle, int, void*, void*);
/// Of a generalized request: they are handed its extra state.
using QueryRequest = int(void*, void* status);
using FreeRequest = int(void*);
using CancelRequest = int(void*, int complete);

/// The functions that this library itself calls, as the MPI has them (PMPI_). Handles come out of
/// them into a Handle that was 0 before.
#define IBCOLL_MPI_FUNCTIONS_USED(each)                                              \
  each(Comm_size, (Handle, int*));                                                   \
  each(Comm_rank, (Handle, int*));                                                   \
  each(Comm_test_inter, (Handle, int*));                                             \
  each(Comm_dup, (Handle, Handle*));                                                 \
  each(Comm_free, (Handle*));                                                        \
  each(Comm_group, (Handle, Handle*));                                               \
  each(Comm_create_keyval, (CopyAttribute*, DeleteAttribute*, int*, void*));         \
  each(Comm_free_keyval, (int*));                                                    \
  each(Comm_get_attr, (Handle, int, void*, int*));                                   \
  each(Comm_set_attr, (Handle, int, void*));                                         \
  each(Comm_set_errhandler, (Handle, Handle));                                       \
  each(Comm_get_errhandler, (Handle, Handle*));                                      \
  each(Comm_call_errhandler, (Handle, int));                                         \
  each(Comm_get_parent, (Handle*));                                                  \
  each(Errhandler_free, (Handle*));                                                  \
  each(Group_translate_ranks, (Handle, int, const int*, Handle, int*));              \
  each(Group_size, (Handle, int*));                                                  \
  each(Group_free, (Handle*));                                                       \
  each(Type_create_keyval, (CopyAttribute*, DeleteAttribute*, int*, void*));         \
  each(Type_free_keyval, (int*));                                                    \
  each(Type_get_attr, (Handle, int, void*, int*));                                   \
  each(Type_set_attr, (Handle, int, void*));                                         \
  each(Type_size_x, (Handle, Count*));                                               \
  each(Type_get_extent_x, (Handle, Count*, Count*));                                 \
  each(Type_get_true_extent_x, (Handle, Count*, Count*));                            \
  each(Type_get_envelope, (Handle, int*, int*, int*, int*));                         \
  each(Type_get_contents, (Handle, int, int, int, int*, Count*, void*));             \
  each(Type_free, (Handle*));                                                        \
  each(Type_contiguous, (int, Handle, Handle*));                                     \
  each(Type_create_struct, (int, const int*, const Count*, const void*, Handle*));   \
  each(Type_commit, (Handle*));                                                      \
  each(Pack, (const void*, int, Handle, void*, int, int*, Handle));                  \
  each(Unpack, (const void*, int, int*, void*, int, Handle, Handle));                \
  each(Irecv, (void*, int, Handle, int, int, Handle, Handle*));                      \
  each(Send, (const void*, int, Handle, int, int, Handle));                          \
  each(Recv, (void*, int, Handle, int, int, Handle, void*));                         \
  each(Recv_init, (void*, int, Handle, int, int, Handle, void*));                    \
  each(Start, (void*));                                                              \
  each(Grequest_start, (QueryRequest*, FreeRequest*, CancelRequest*, void*, void*)); \
  each(Grequest_complete, (Handle));                                                 \
  each(Status_set_elements, (void*, Handle, int));                                   \
  each(Status_set_cancelled, (void*, int));                                          \
  each(Request_free, (void*));                                                       \
  each(Test, (Handle*, int*, void*));                                                \
  each(Wait, (Handle*, void*));                                                      \
  each(Info_get, (Handle, const char*, int, char*, int*));                           \
  each(Info_free, (Handle*));                                                        \
  each(Query_thread, (int*));                                                        \
  each(Barrier, (Handle));                                                           \
  each(Bcast, (void*, int, Handle, int, Handle));                                    \
  each(Allgather, (const void*, int, Handle, void*, int, Handle, Handle));           \
  each(Allreduce, (const void*, void*, int, Handle, Handle, Handle));                \
  each(Reduce, (const void*, void*, int, Handle, Handle, int, Handle))
/// More of them, of reductions and topologies.
#define IBCOLL_MPI_MORE_FUNCTIONS_USED(each)                     \
  each(Reduce_local, (const void*, void*, int, Handle, Handle)); \
  each(Op_commutative, (Handle, int*));                          \
  each(Op_free, (Handle*));                                      \
  each(Topo_test, (Handle, int*));                               \
  each(Cartdim_get, (Handle, int*));                             \
  each(Cart_shift, (Handle, int, int, int*, int*));              \
  each(Graph_neighbors_count, (Handle, int, int*));              \
  each(Graph_neighbors, (Handle, int, int, int*));               \
  each(Dist_graph_neighbors_count, (Handle, int*, int*, int*));  \
  each(Dist_graph_neighbors, (Handle, int, int*, int*, int, int*, int*))

/// Those that not every MPI has: for datatypes that were made with large counts, and sessions.
#define IBCOLL_MPI_FUNCTIONS_OF_MPI_4(each)                                                     \
  each(Type_get_envelope_c, (Handle, Count*, Count*, Count*, Count*, int*));                    \
  each(Type_get_contents_c, (Handle, Count, Count, Count, Count, int*, Count*, Count*, void*)); \
  each(Session_init, (Handle, Handle, Handle*));                                                \
  each(Session_finalize, (Handle*));                                                            \
  each(Session_get_info, (Handle, Handle*));                                                    \
  each(Group_from_session_pset, (Handle, const char*, Handle*));                                \
  each(Comm_create_from_group, (Handle, const char*, Handle, Handle, Handle*))

struct Library {
#define IBCOLL_MPI_MEMBER(name, parameters) int(*name) parameters = nullptr
  IBCOLL_MPI_FUNCTIONS_USED(IBCOLL_MPI_MEMBER);
  IBCOLL_MPI_MORE_FUNCTIONS_USED(IBCOLL_MPI_MEMBER);
  IBCOLL_MPI_FUNCTIONS_OF_MPI_4(IBCOLL_MPI_MEMBER);
#undef IBCOLL_MPI_MEMBER
  ibcoll_mpi_constants constants = {};
  const char* family = "";  ///< "MPICH", "MVAPICH", "Intel MPI", "Open MPI"
  std::string version;      ///< its own
  bool is_open_mpi = false;
  bool standard_abi = false;  ///< MPI 5's, not the family's own
  /// Why no call can be taken over: an MPI that this library was not built for. Null: it can.
  const char* unusable = nullptr;

  Handle clean(Handle handle) const { return handle & constants.handle_mask; }
  /// Of an array of handles in the program's memory.
  Handle handle_at(const void* array, int i) const {
    if (constants.handle_mask == UINT32_MAX) return static_cast<const uint32_t*>(array)[i];
    return static_cast<const uintptr_t*>(array)[i];
  }
  void set_handle(void* place, Handle handle) const {
    if (constants.handle_mask == UINT32_MAX)
      *static_cast<uint32_t*>(place) = static_cast<uint32_t>(handle);
    else
      *static_cast<uintptr_t*>(place) = handle;
  }
  void* place_of_handle(void* array, int i) const {
    const size_t bytes = constants.handle_mask == UINT32_MAX ? sizeof(uint32_t) : sizeof(Handle);
    return static_cast<std::byte*>(array) + static_cast<size_t>(i) * bytes;
  }
  void write(void* handles, Handle handle) const {
    if (constants.handle_mask == UINT32_MAX)
      *static_cast<uint32_t*>(handles) = static_cast<uint32_t>(handle);
    else
      *static_cast<uintptr_t*>(handles) = handle;
  }
};

/// The program's MPI.
const Library& library();
/// A function of its; null: it has none of that name.
void* find_symbol(const char* name);
/// The same for what the program has called: where there is none the process ends.
void* find_called(const char* name);

}  // namespace ibcoll::mpi
