// MPI_Alltoallw: the MPI's, and noted where the program's traffic is recorded.

#include "integrations/mpi/stands_by.h"

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

#define ALLTOALLW(Number, Place)                                                                   \
  const void *send, const Number *send_counts, const Place *send_places, const Handle *send_types, \
      void *recv, const Number *recv_counts, const Place *recv_places, const Handle *recv_types,
#define ALLTOALLW_GIVEN() \
  send, send_counts, send_places, send_types, recv, recv_counts, recv_places, recv_types,
#define NOTED note(IBCOLL_MPI_FLOWS_kAlltoallw)
#define STAND_BY(suffix, Number)                                                       \
  IBCOLL_MPI_STANDS_BY(MPI_Alltoallw##suffix, (ALLTOALLW(Number, Number) Handle comm), \
                       (ALLTOALLW_GIVEN() comm), NOTED)                                \
  IBCOLL_MPI_STANDS_BY(MPI_Ialltoallw##suffix,                                         \
                       (ALLTOALLW(Number, Number) Handle comm, void* request),         \
                       (ALLTOALLW_GIVEN() comm, request), NOTED)                       \
  PERSISTENT(MPI_Alltoallw_init##suffix, Number)
#define PERSISTENT(name, Number)                                                                  \
  IBCOLL_MPI_STANDS_BY(name, (ALLTOALLW(Number, Number) Handle comm, Handle info, void* request), \
                       (ALLTOALLW_GIVEN() comm, info, request),                                   \
                       note_persistent(request, IBCOLL_MPI_FLOWS_kAlltoallw))
STAND_BY(, int)
STAND_BY(_c, Count)
PERSISTENT(MPIX_Alltoallw_init, int)
