#ifndef IBCOLL_MPI_CONSTANTS_H
#define IBCOLL_MPI_CONSTANTS_H
/* What mpi.h of one family of MPI libraries says, or that of MPI 5's standard ABI, for code that is
 * compiled without it. Handles are integers of 32 bits in MPICH's family and pointers elsewhere:
 * here each is a uintptr_t. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What elements of a predefined datatype are. */
enum ibcoll_mpi_kind {
  IBCOLL_MPI_OPAQUE, /* moved, and combined by the MPI alone */
  IBCOLL_MPI_SIGNED,
  IBCOLL_MPI_UNSIGNED,
  IBCOLL_MPI_FLOAT, /* of 4 or 8 bytes */
  IBCOLL_MPI_LONG_DOUBLE,
  IBCOLL_MPI_COMPLEX, /* of 8 or 16 bytes */
  IBCOLL_MPI_LONG_DOUBLE_COMPLEX,
  IBCOLL_MPI_BOOL,
  IBCOLL_MPI_BITS,
  IBCOLL_MPI_FLOAT_INT,
  IBCOLL_MPI_DOUBLE_INT,
  IBCOLL_MPI_LONG_INT,
  IBCOLL_MPI_INT_INT,
  IBCOLL_MPI_SHORT_INT,
  IBCOLL_MPI_LONG_DOUBLE_INT
};

struct ibcoll_mpi_type {
  uintptr_t handle;
  enum ibcoll_mpi_kind kind;
};

struct ibcoll_mpi_operator {
  uintptr_t handle;
  int op; /* an ibcoll_operator */
};

struct ibcoll_mpi_constants {
  uintptr_t handle_mask; /* the bits of a uintptr_t that a handle has */
  uintptr_t comm_null, comm_world, comm_self, type_null, info_null;
  uintptr_t errors_return, errors_are_fatal;
  uintptr_t type_byte, type_uint64, op_null, op_max, op_min, op_sum, op_band;
  const void* in_place;
  void *status_ignore, *statuses_ignore;
  size_t status_bytes, status_source_at, status_tag_at, status_error_at; /* of an MPI_Status */
  uintptr_t request_null;
  int undefined, proc_null, thread_multiple, any_source, any_tag;
  int topology_cart, topology_graph, topology_dist_graph;
  int err_other, err_truncate, err_in_status;
  int combiner_named, combiner_dup, combiner_contiguous, combiner_resized, combiner_vector;
  int combiner_hvector, combiner_subarray, combiner_indexed, combiner_hindexed, combiner_struct;
  int combiner_indexed_block, combiner_hindexed_block, order_c;
  int combiner_f90_real, combiner_f90_complex, combiner_f90_integer;
  size_t type_count, operator_count;
  struct ibcoll_mpi_type types[64];
  struct ibcoll_mpi_operator operators[16];
};

/* Where a symbol of the program's MPI is; NULL: it has none. */
typedef void* (*ibcoll_mpi_finder)(const char* name);

void ibcoll_mpi_constants_standard_abi(ibcoll_mpi_finder find,
                                       struct ibcoll_mpi_constants* constants);
/* Each leaves the constants as they are where no MPI of the family was installed at the build. */
void ibcoll_mpi_constants_mpich(ibcoll_mpi_finder find, struct ibcoll_mpi_constants* constants);
void ibcoll_mpi_constants_openmpi(ibcoll_mpi_finder find, struct ibcoll_mpi_constants* constants);

#ifdef __cplusplus
}
#endif

#endif
