/* In place of constants.c where no MPI of a family is installed: its constants are not known. */
#include "integrations/mpi/mpi_constants.h"

void IBCOLL_CONSTANTS(ibcoll_mpi_finder find, struct ibcoll_mpi_constants* to) {
  (void)find;
  (void)to;
}
