// Functions that may wait for other ranks and have no form that could be tested: the engine's own
// thread moves operations on meanwhile, where the MPI does not.

#include "integrations/mpi/flows.h"
#include "integrations/mpi/stand_in.h"

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

namespace {

/// An argument of whatever type: none is longer than a register, and none is a floating-point
/// number.
using Any = uintptr_t;

/// A topology is there for neighbour collectives, whose ranks have to agree on them: nonblocking
/// ones can't wait for that any more.
void note_topology(Handle parent, Handle child) {
  note_child(parent, child);
  Job& job = *running_job();
  if (child == library().constants.comm_null || !job.has_selected(Function::kNeighborAlltoall))
    return;
  const Communicator* const on = find_communicator(job, child);
  if (on != nullptr && on->group != nullptr) (void)make_neighbours(*on, child);
}

void note_apart(Handle, Handle child) { note_stray(child); }

template <class Note>
void made(const Note& note, Handle parent, const void* child) {
  if (Inside::is() || running_job() == nullptr || child == nullptr) return;
  const Inside inside;
  post_those_that_wait();
  note(library().clean(parent), library().handle_at(child, 0));
}

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

/// The same of functions that make a communicator, the last argument, of the first: `note`(both).
#define MAKES(name, note, parameters, given, place)                                 \
  IBCOLL_MPI_STANDS_IN(name, parameters, {                                          \
    static auto* const original = original_of<decltype(MPI_##name)>("PMPI_" #name); \
    int code = 0;                                                                   \
    {                                                                               \
      const WhileTheMpiBlocks moving;                                               \
      code = original given;                                                        \
    }                                                                               \
    if (code == 0) made(note, a, reinterpret_cast<void*>(place));                   \
    return code;                                                                    \
  })
#define MAKES_2(name, note) MAKES(name, note, (Any a, Any b), (a, b), b)
#define MAKES_3(name, note) MAKES(name, note, (Any a, Any b, Any c), (a, b, c), c)
#define MAKES_4(name, note) MAKES(name, note, (Any a, Any b, Any c, Any d), (a, b, c, d), d)
#define MAKES_5(name, note) \
  MAKES(name, note, (Any a, Any b, Any c, Any d, Any e), (a, b, c, d, e), e)
#define MAKES_6(name, note) \
  MAKES(name, note, (Any a, Any b, Any c, Any d, Any e, Any f), (a, b, c, d, e, f), f)
#define MAKES_9(name, note)                                                          \
  MAKES(name, note, (Any a, Any b, Any c, Any d, Any e, Any f, Any g, Any h, Any i), \
        (a, b, c, d, e, f, g, h, i), i)
#define MAKES_10(name, note)                                                                \
  MAKES(name, note, (Any a, Any b, Any c, Any d, Any e, Any f, Any g, Any h, Any i, Any j), \
        (a, b, c, d, e, f, g, h, i, j), j)

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

MAKES_2(Comm_dup, note_child)
MAKES_3(Comm_dup_with_info, note_child)
MAKES_3(Comm_create, note_child)
MAKES_4(Comm_create_group, note_apart)
WITH_2(Comm_set_info)
MAKES_4(Comm_split, note_child)
MAKES_5(Comm_split_type, note_child)
WITH_1(Comm_free)
WITH_1(Comm_disconnect)
WITH_5(Comm_accept)
WITH_5(Comm_connect)
WITH_8(Comm_spawn)
WITH_9(Comm_spawn_multiple)
WITH_2(Comm_join)
WITH_6(Intercomm_create)
WITH_8(Intercomm_create_from_groups)
MAKES_3(Intercomm_merge, note_apart)
MAKES_6(Cart_create, note_topology)
MAKES_3(Cart_sub, note_child)
MAKES_6(Graph_create, note_topology)
MAKES_9(Dist_graph_create, note_topology)
MAKES_10(Dist_graph_create_adjacent, note_topology)

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
