/* The constants of one mpi.h: compiled once against each family that is installed, whose name
 * IBCOLL_CONSTANTS has, and against standard_abi/; linked to no MPI. */
#include "integrations/mpi/mpi_constants.h"

#include <mpi.h>
#include <stddef.h>

#include "ibcoll/types.h"

/* Open MPI's handles are addresses of objects, which are looked up when the MPI is known. */
static ibcoll_mpi_finder g_find;
#ifdef OPEN_MPI
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) ((type)g_find(#global))
#endif

#define HANDLE(handle) ((uintptr_t)(handle)&kMask)
static const uintptr_t kMask =
    sizeof(MPI_Comm) == sizeof(uintptr_t) ? UINTPTR_MAX : (uintptr_t)UINT32_MAX;

static void add_type(struct ibcoll_mpi_constants* to, MPI_Datatype type,
                     enum ibcoll_mpi_kind kind) {
  const uintptr_t handle = HANDLE(type);
  /* What a library lacks is MPI_DATATYPE_NULL in one family, and no symbol in the other. */
  if (handle == 0 || handle == to->type_null) return;
  if (to->type_count == sizeof to->types / sizeof *to->types) return;
  to->types[to->type_count++] = (struct ibcoll_mpi_type){handle, kind};
}

static void add_c_types(struct ibcoll_mpi_constants* to) {
  add_type(to, MPI_CHAR, IBCOLL_MPI_OPAQUE);
  add_type(to, MPI_WCHAR, IBCOLL_MPI_OPAQUE);
  add_type(to, MPI_PACKED, IBCOLL_MPI_OPAQUE);
  add_type(to, MPI_BYTE, IBCOLL_MPI_BITS);
  add_type(to, MPI_C_BOOL, IBCOLL_MPI_BOOL);
  const MPI_Datatype integers[] = {MPI_SIGNED_CHAR, MPI_SHORT,  MPI_INT,     MPI_LONG,
                                   MPI_LONG_LONG,   MPI_INT8_T, MPI_INT16_T, MPI_INT32_T,
                                   MPI_INT64_T,     MPI_AINT,   MPI_OFFSET,  MPI_COUNT};
  for (size_t i = 0; i < sizeof integers / sizeof integers[0]; ++i)
    add_type(to, integers[i], IBCOLL_MPI_SIGNED);
  const MPI_Datatype naturals[] = {MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT,     MPI_UNSIGNED,
                                   MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T,
                                   MPI_UINT16_T,      MPI_UINT32_T,           MPI_UINT64_T};
  for (size_t i = 0; i < sizeof naturals / sizeof naturals[0]; ++i)
    add_type(to, naturals[i], IBCOLL_MPI_UNSIGNED);
  add_type(to, MPI_FLOAT, IBCOLL_MPI_FLOAT);
  add_type(to, MPI_DOUBLE, IBCOLL_MPI_FLOAT);
  add_type(to, MPI_LONG_DOUBLE, IBCOLL_MPI_LONG_DOUBLE);
  add_type(to, MPI_C_FLOAT_COMPLEX, IBCOLL_MPI_COMPLEX);
  add_type(to, MPI_C_DOUBLE_COMPLEX, IBCOLL_MPI_COMPLEX);
  add_type(to, MPI_C_LONG_DOUBLE_COMPLEX, IBCOLL_MPI_LONG_DOUBLE_COMPLEX);
  add_type(to, MPI_FLOAT_INT, IBCOLL_MPI_FLOAT_INT);
  add_type(to, MPI_DOUBLE_INT, IBCOLL_MPI_DOUBLE_INT);
  add_type(to, MPI_LONG_INT, IBCOLL_MPI_LONG_INT);
  add_type(to, MPI_2INT, IBCOLL_MPI_INT_INT);
  add_type(to, MPI_SHORT_INT, IBCOLL_MPI_SHORT_INT);
  add_type(to, MPI_LONG_DOUBLE_INT, IBCOLL_MPI_LONG_DOUBLE_INT);
}

static void add_fortran_types(struct ibcoll_mpi_constants* to) {
  add_type(to, MPI_CHARACTER, IBCOLL_MPI_OPAQUE);
  add_type(to, MPI_LOGICAL, IBCOLL_MPI_OPAQUE);
  add_type(to, MPI_INTEGER, IBCOLL_MPI_SIGNED);
  add_type(to, MPI_INTEGER1, IBCOLL_MPI_SIGNED);
  add_type(to, MPI_INTEGER2, IBCOLL_MPI_SIGNED);
  add_type(to, MPI_INTEGER4, IBCOLL_MPI_SIGNED);
  add_type(to, MPI_INTEGER8, IBCOLL_MPI_SIGNED);
  add_type(to, MPI_REAL, IBCOLL_MPI_FLOAT);
  add_type(to, MPI_REAL4, IBCOLL_MPI_FLOAT);
  add_type(to, MPI_REAL8, IBCOLL_MPI_FLOAT);
  add_type(to, MPI_DOUBLE_PRECISION, IBCOLL_MPI_FLOAT);
  add_type(to, MPI_COMPLEX, IBCOLL_MPI_COMPLEX);
  add_type(to, MPI_COMPLEX8, IBCOLL_MPI_COMPLEX);
  add_type(to, MPI_COMPLEX16, IBCOLL_MPI_COMPLEX);
  add_type(to, MPI_DOUBLE_COMPLEX, IBCOLL_MPI_COMPLEX);
  add_type(to, MPI_2INTEGER, IBCOLL_MPI_INT_INT);
}

static void add_operator(struct ibcoll_mpi_constants* to, MPI_Op handle, ibcoll_operator op) {
  to->operators[to->operator_count++] = (struct ibcoll_mpi_operator){HANDLE(handle), (int)op};
}

static void add_operators(struct ibcoll_mpi_constants* to) {
  add_operator(to, MPI_SUM, IBCOLL_SUM);
  add_operator(to, MPI_PROD, IBCOLL_PRODUCT);
  add_operator(to, MPI_MIN, IBCOLL_MIN);
  add_operator(to, MPI_MAX, IBCOLL_MAX);
  add_operator(to, MPI_BAND, IBCOLL_BAND);
  add_operator(to, MPI_BOR, IBCOLL_BOR);
  add_operator(to, MPI_BXOR, IBCOLL_BXOR);
  add_operator(to, MPI_LAND, IBCOLL_LAND);
  add_operator(to, MPI_LOR, IBCOLL_LOR);
  add_operator(to, MPI_LXOR, IBCOLL_LXOR);
  add_operator(to, MPI_MINLOC, IBCOLL_MINLOC);
  add_operator(to, MPI_MAXLOC, IBCOLL_MAXLOC);
  add_operator(to, MPI_REPLACE, IBCOLL_REPLACE);
  add_operator(to, MPI_NO_OP, IBCOLL_NO_OP);
}

void IBCOLL_CONSTANTS(ibcoll_mpi_finder find, struct ibcoll_mpi_constants* to) {
  g_find = find;
  *to = (struct ibcoll_mpi_constants){
      .handle_mask = kMask,
      .comm_null = HANDLE(MPI_COMM_NULL),
      .comm_world = HANDLE(MPI_COMM_WORLD),
      .comm_self = HANDLE(MPI_COMM_SELF),
      .type_null = HANDLE(MPI_DATATYPE_NULL),
      .info_null = HANDLE(MPI_INFO_NULL),
      .errors_return = HANDLE(MPI_ERRORS_RETURN),
      .errors_are_fatal = HANDLE(MPI_ERRORS_ARE_FATAL),
      .type_byte = HANDLE(MPI_BYTE),
      .type_uint64 = HANDLE(MPI_UINT64_T),
      .op_null = HANDLE(MPI_OP_NULL),
      .op_max = HANDLE(MPI_MAX),
      .op_min = HANDLE(MPI_MIN),
      .op_sum = HANDLE(MPI_SUM),
      .op_band = HANDLE(MPI_BAND),
      .in_place = MPI_IN_PLACE,
      .status_ignore = MPI_STATUS_IGNORE,
      .statuses_ignore = MPI_STATUSES_IGNORE,
      .status_bytes = sizeof(MPI_Status),
      .status_source_at = offsetof(MPI_Status, MPI_SOURCE),
      .status_tag_at = offsetof(MPI_Status, MPI_TAG),
      .status_error_at = offsetof(MPI_Status, MPI_ERROR),
      .request_null = HANDLE(MPI_REQUEST_NULL),
      .undefined = MPI_UNDEFINED,
      .proc_null = MPI_PROC_NULL,
      .topology_cart = MPI_CART,
      .topology_graph = MPI_GRAPH,
      .topology_dist_graph = MPI_DIST_GRAPH,
      .thread_multiple = MPI_THREAD_MULTIPLE,
      .any_source = MPI_ANY_SOURCE,
      .any_tag = MPI_ANY_TAG,
      .err_other = MPI_ERR_OTHER,
      .err_truncate = MPI_ERR_TRUNCATE,
      .err_in_status = MPI_ERR_IN_STATUS,
      .combiner_named = MPI_COMBINER_NAMED,
      .combiner_dup = MPI_COMBINER_DUP,
      .combiner_contiguous = MPI_COMBINER_CONTIGUOUS,
      .combiner_resized = MPI_COMBINER_RESIZED,
      .combiner_vector = MPI_COMBINER_VECTOR,
      .combiner_hvector = MPI_COMBINER_HVECTOR,
      .combiner_subarray = MPI_COMBINER_SUBARRAY,
      .combiner_indexed = MPI_COMBINER_INDEXED,
      .combiner_hindexed = MPI_COMBINER_HINDEXED,
      .combiner_struct = MPI_COMBINER_STRUCT,
      .combiner_indexed_block = MPI_COMBINER_INDEXED_BLOCK,
      .combiner_hindexed_block = MPI_COMBINER_HINDEXED_BLOCK,
      .combiner_f90_real = MPI_COMBINER_F90_REAL,
      .combiner_f90_complex = MPI_COMBINER_F90_COMPLEX,
      .combiner_f90_integer = MPI_COMBINER_F90_INTEGER,
      .order_c = MPI_ORDER_C,
  };
  add_c_types(to);
  add_fortran_types(to);
  add_operators(to);
}
