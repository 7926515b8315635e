// Functions that may wait for other ranks and have no form that could be tested: the engine's own
// thread moves operations on meanwhile, where the MPI does not.

#include "integrations/mpi/flows.h"
#include "integrations/mpi/stand_in.h"

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

namespace {

/// An argument of whatever type: none is longer than a register, and none is a floating-point
/// number.
using Any = uintptr_t;

}  // namespace

#define PASSED_ON(name, parameters, given)                                          \
  IBCOLL_MPI_STANDS_IN(name, parameters, {                                          \
    static auto* const original = original_of<decltype(MPI_##name)>("PMPI_" #name); \
    const WhileTheMpiBlocks moving;                                                 \
    return original given;                                                          \
  })
#define WITH_1(name) PASSED_ON(name, (Any a), (a))
#define WITH_2(name) PASSED_ON(name, (Any a, Any b), (a, b))
#define WITH_3(name) PASSED_ON(name, (Any a, Any b, Any c), (a, b, c))
#define WITH_4(name) PASSED_ON(name, (Any a, Any b, Any c, Any d), (a, b, c, d))
#define WITH_5(name) PASSED_ON(name, (Any a, Any b, Any c, Any d, Any e), (a, b, c, d, e))
#define WITH_6(name) PASSED_ON(name, (Any a, Any b, Any c, Any d, Any e, Any f), (a, b, c, d, e, f))
#define WITH_7(name) \
  PASSED_ON(name, (Any a, Any b, Any c, Any d, Any e, Any f, Any g), (a, b, c, d, e, f, g))
#define WITH_8(name)                                                        \
  PASSED_ON(name, (Any a, Any b, Any c, Any d, Any e, Any f, Any g, Any h), \
            (a, b, c, d, e, f, g, h))
#define WITH_9(name)                                                               \
  PASSED_ON(name, (Any a, Any b, Any c, Any d, Any e, Any f, Any g, Any h, Any i), \
            (a, b, c, d, e, f, g, h, i))
#define WITH_10(name)                                                                     \
  PASSED_ON(name, (Any a, Any b, Any c, Any d, Any e, Any f, Any g, Any h, Any i, Any j), \
            (a, b, c, d, e, f, g, h, i, j))

#define REPLACES(name, Number)                                                                   \
  IBCOLL_MPI_STANDS_IN(                                                                          \
      name,                                                                                      \
      (void* data, Number count, Handle type, int to, int tag, int from, int recv_tag,           \
       Handle comm, void* status),                                                               \
      {                                                                                          \
        IBCOLL_MPI_NOTES(MPI_##name, (data, count, type, to, tag, from, recv_tag, comm, status), \
                         note(flows_to(comm, to, count, type)))                                  \
        static auto* const original = original_of<decltype(MPI_##name)>("PMPI_" #name);          \
        const WhileTheMpiBlocks moving;                                                          \
        return original(data, count, type, to, tag, from, recv_tag, comm, status);               \
      })
REPLACES(Sendrecv_replace, int)
REPLACES(Sendrecv_replace_c, Count)

WITH_2(Buffer_detach)

WITH_2(Comm_dup)
WITH_3(Comm_dup_with_info)
WITH_3(Comm_create)
WITH_4(Comm_create_group)
WITH_2(Comm_set_info)
WITH_4(Comm_split)
WITH_5(Comm_split_type)
WITH_1(Comm_free)
WITH_1(Comm_disconnect)
WITH_5(Comm_accept)
WITH_5(Comm_connect)
WITH_8(Comm_spawn)
WITH_9(Comm_spawn_multiple)
WITH_2(Comm_join)
WITH_6(Intercomm_create)
WITH_8(Intercomm_create_from_groups)
WITH_3(Intercomm_merge)
WITH_6(Cart_create)
WITH_3(Cart_sub)
WITH_6(Graph_create)
WITH_9(Dist_graph_create)
WITH_10(Dist_graph_create_adjacent)

WITH_6(Win_create)
WITH_6(Win_create_c)
WITH_6(Win_allocate)
WITH_6(Win_allocate_c)
WITH_6(Win_allocate_shared)
WITH_6(Win_allocate_shared_c)
WITH_3(Win_create_dynamic)
WITH_1(Win_free)
WITH_2(Win_set_info)
WITH_2(Win_fence)
WITH_3(Win_start)
WITH_1(Win_complete)
WITH_1(Win_wait)
WITH_4(Win_lock)
WITH_2(Win_unlock)
WITH_2(Win_lock_all)
WITH_1(Win_unlock_all)
WITH_2(Win_flush)
WITH_1(Win_flush_all)
WITH_2(Win_flush_local)
WITH_1(Win_flush_local_all)

WITH_5(File_open)
WITH_1(File_close)
WITH_2(File_set_size)
WITH_2(File_preallocate)
WITH_6(File_set_view)
WITH_2(File_set_atomicity)
WITH_2(File_set_info)
WITH_1(File_sync)
WITH_3(File_seek_shared)
WITH_5(File_read_all)
WITH_5(File_read_all_c)
WITH_5(File_write_all)
WITH_5(File_write_all_c)
WITH_6(File_read_at_all)
WITH_6(File_read_at_all_c)
WITH_6(File_write_at_all)
WITH_6(File_write_at_all_c)
WITH_5(File_read_ordered)
WITH_5(File_read_ordered_c)
WITH_5(File_write_ordered)
WITH_5(File_write_ordered_c)
WITH_5(File_read_shared)
WITH_5(File_read_shared_c)
WITH_5(File_write_shared)
WITH_5(File_write_shared_c)
WITH_4(File_read_all_begin)
WITH_4(File_read_all_begin_c)
WITH_4(File_write_all_begin)
WITH_4(File_write_all_begin_c)
WITH_5(File_read_at_all_begin)
WITH_5(File_read_at_all_begin_c)
WITH_5(File_write_at_all_begin)
WITH_5(File_write_at_all_begin_c)
WITH_4(File_read_ordered_begin)
WITH_4(File_read_ordered_begin_c)
WITH_4(File_write_ordered_begin)
WITH_4(File_write_ordered_begin_c)
WITH_3(File_read_all_end)
WITH_3(File_write_all_end)
WITH_3(File_read_at_all_end)
WITH_3(File_write_at_all_end)
WITH_3(File_read_ordered_end)
WITH_3(File_write_ordered_end)
