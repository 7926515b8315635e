// Sends that come back at once, or are prepared: the MPI's, and noted where the program's traffic
// is recorded.

#include "integrations/mpi/stands_by.h"

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

/// A function and its form with large counts.
#define BOTH(each, name) each(name, int) each(name##_c, Count)

#define SEND(name, Number)                                                                     \
  IBCOLL_MPI_STANDS_BY(                                                                        \
      MPI_##name, (const void* data, Number count, Handle type, int to, int tag, Handle comm), \
      (data, count, type, to, tag, comm), note(flows_to(comm, to, count, type)))
BOTH(SEND, Bsend)

#define ISEND(name, Number)                                                                        \
  IBCOLL_MPI_STANDS_BY(MPI_##name,                                                                 \
                       (const void* data, Number count, Handle type, int to, int tag, Handle comm, \
                        Handle* request),                                                          \
                       (data, count, type, to, tag, comm, request),                                \
                       note(flows_to(comm, to, count, type)))
BOTH(ISEND, Isend)
BOTH(ISEND, Ibsend)
BOTH(ISEND, Issend)
BOTH(ISEND, Irsend)

#define SENDRECV(name, Number)                                                                     \
  IBCOLL_MPI_STANDS_BY(                                                                            \
      MPI_##name,                                                                                  \
      (const void* data, Number count, Handle type, int to, int tag, void* target,                 \
       Number recv_count, Handle recv_type, int from, int recv_tag, Handle comm, Handle* request), \
      (data, count, type, to, tag, target, recv_count, recv_type, from, recv_tag, comm, request),  \
      note(flows_to(comm, to, count, type)))
SENDRECV(Isendrecv, int)
SENDRECV(Isendrecv_c, Count)

#define SENDRECV_REPLACE(name, Number)                                                    \
  IBCOLL_MPI_STANDS_BY(MPI_##name,                                                        \
                       (void* data, Number count, Handle type, int to, int tag, int from, \
                        int recv_tag, Handle comm, Handle* request),                      \
                       (data, count, type, to, tag, from, recv_tag, comm, request),       \
                       note(flows_to(comm, to, count, type)))
SENDRECV_REPLACE(Isendrecv_replace, int)
SENDRECV_REPLACE(Isendrecv_replace_c, Count)

#define SEND_INIT(name, Number)                                                                    \
  IBCOLL_MPI_STANDS_BY(MPI_##name,                                                                 \
                       (const void* data, Number count, Handle type, int to, int tag, Handle comm, \
                        Handle* request),                                                          \
                       (data, count, type, to, tag, comm, request),                                \
                       note_persistent(request, flows_to(comm, to, count, type)))
BOTH(SEND_INIT, Send_init)
BOTH(SEND_INIT, Bsend_init)
BOTH(SEND_INIT, Ssend_init)
BOTH(SEND_INIT, Rsend_init)

IBCOLL_MPI_STANDS_BY(MPI_Psend_init,
                     (const void* data, int partitions, Count count, Handle type, int to, int tag,
                      Handle comm, Handle info, Handle* request),
                     (data, partitions, count, type, to, tag, comm, info, request),
                     note_persistent(request, flows_to(comm, to, partitions* count, type)))
