/* Collectives of datatypes that lie in strides, and of some that do not, against what MPI_Pack and
 * MPI_Unpack make of the same buffers. */
#include <stdlib.h>
#include <string.h>

#include "called.h"
#include "sweep.h"

enum { BUFFER = 144 << 10, MIDDLE = 32 << 10, TYPES = 14 };

/* Frees `inner`. */
static MPI_Datatype committed(MPI_Datatype type, MPI_Datatype inner) {
  MPI_Type_commit(&type);
  if (inner != MPI_DATATYPE_NULL) MPI_Type_free(&inner);
  return type;
}

static MPI_Datatype make_type(int number) {
  MPI_Datatype type, inner = MPI_DATATYPE_NULL, more;
  const int sizes[] = {6, 5, 8}, part[] = {3, 2, 4}, from[] = {1, 2, 3};
  const int lengths[] = {1, 3, 2}, places[] = {7, 0, 3}, even[] = {2, 12, 22};
  const MPI_Aint at[] = {0, 8, 20};
  const MPI_Datatype parts[] = {MPI_DOUBLE, MPI_INT, MPI_CHAR};
  switch (number) {
    case 0: /* a column */
      MPI_Type_vector(20, 1, 40, MPI_DOUBLE, &type);
      break;
    case 1: /* columns that follow each other */
      MPI_Type_vector(20, 1, 40, MPI_DOUBLE, &inner);
      MPI_Type_create_resized(inner, 0, sizeof(double), &type);
      break;
    case 2:
      MPI_Type_create_hvector(9, 3, 37, MPI_CHAR, &type);
      break;
    case 3: /* backwards */
      MPI_Type_create_hvector(5, 2, -24, MPI_FLOAT, &type);
      break;
    case 4:
      MPI_Type_create_subarray(3, sizes, part, from, MPI_ORDER_C, MPI_SHORT, &type);
      break;
    case 5:
      MPI_Type_create_subarray(3, sizes, part, from, MPI_ORDER_FORTRAN, MPI_INT, &type);
      break;
    case 6: /* of which two dimensions are whole */
      MPI_Type_create_subarray(2, sizes, part, from, MPI_ORDER_C, MPI_DOUBLE, &type);
      break;
    case 7: /* a vector of vectors */
      MPI_Type_vector(3, 2, 5, MPI_INT, &inner);
      MPI_Type_create_hvector(4, 1, 100, inner, &type);
      break;
    case 8: /* and one more: too deep to be one block of more elements */
      MPI_Type_vector(3, 2, 5, MPI_INT, &inner);
      MPI_Type_create_hvector(2, 1, 100, inner, &more);
      MPI_Type_free(&inner);
      MPI_Type_create_hvector(2, 1, 300, more, &type);
      inner = more;
      break;
    case 9: /* uneven */
      MPI_Type_indexed(3, lengths, places, MPI_INT, &type);
      break;
    case 10: /* even */
      MPI_Type_create_indexed_block(3, 4, even, MPI_SHORT, &type);
      break;
    case 11: /* without gaps but behind */
      MPI_Type_create_struct(3, lengths, at, parts, &type);
      break;
    case 12: /* whole pages apart */
      MPI_Type_create_hvector(3, 1500, 5000, MPI_CHAR, &type);
      break;
    default: /* a duplicate of a vector, with a gap in front */
      MPI_Type_vector(6, 1, 3, MPI_INT, &inner);
      MPI_Type_create_resized(inner, -8, 100, &more);
      MPI_Type_free(&inner);
      MPI_Type_dup(more, &type);
      inner = more;
      break;
  }
  return committed(type, inner);
}

static unsigned char byte_of(int rank, long at) {
  return (unsigned char)(rank * 101 + at * 7 + at / 251);
}
static void fill(unsigned char* buffer, int rank) {
  for (long i = 0; i < BUFFER; ++i) buffer[i] = byte_of(rank, i);
}

typedef struct Run {
  MPI_Comm comm;
  const char* name;
  int rank, size, number;
  MPI_Datatype sent, received; /* elements of these, so many in a block */
  int send_count, recv_count;
  int bytes; /* in a block */
  MPI_Aint send_extent, recv_extent;
  unsigned char *send, *recv, *should, *other, *packed;
} Run;

/* What rank `from` has at block `at` is to be at block `to` here. */
static void expect(const Run* run, int from, int at, int to) {
  int position = 0;
  fill(run->other, from);
  MPI_Pack(run->other + MIDDLE + at * run->send_count * run->send_extent, run->send_count,
           run->sent, run->packed, BUFFER, &position, MPI_COMM_SELF);
  position = 0;
  MPI_Unpack(run->packed, run->bytes, &position,
             run->should + MIDDLE + to * run->recv_count * run->recv_extent, run->recv_count,
             run->received, MPI_COMM_SELF);
}
static void begin(const Run* run) {
  fill(run->send, run->rank);
  memset(run->recv, 0x55, BUFFER);
  memset(run->should, 0x55, BUFFER);
}
static void check(const Run* run, const char* call) {
  for (long i = 0; i < BUFFER; ++i)
    if (run->recv[i] != run->should[i])
      wrong(call, run->name, run->number * 1000000 + i, run->recv[i], run->should[i]);
}

#define SEND run->send + MIDDLE, run->send_count, run->sent
#define RECV run->recv + MIDDLE, run->recv_count, run->received

static void equal_calls(const Run* run) {
  begin(run);
  CALLED(Alltoall, Ialltoall, SEND, RECV, run->comm);
  for (int i = 0; i < run->size; ++i) expect(run, i, run->rank, i);
  check(run, "MPI_Alltoall of strides");
  begin(run);
  CALLED(Allgather, Iallgather, SEND, RECV, run->comm);
  for (int i = 0; i < run->size; ++i) expect(run, i, 0, i);
  check(run, "MPI_Allgather of strides");
  const int root = run->size - 1, is_root = run->rank == root;
  begin(run);
  CALLED(Gather, Igather, SEND, RECV, root, run->comm);
  for (int i = 0; is_root && i < run->size; ++i) expect(run, i, 0, i);
  check(run, "MPI_Gather of strides");
  begin(run);
  CALLED(Scatter, Iscatter, SEND, RECV, root, run->comm);
  expect(run, root, run->rank, 0);
  check(run, "MPI_Scatter of strides");
  begin(run);
  if (is_root)
    CALLED(Bcast, Ibcast, SEND, root, run->comm);
  else
    CALLED(Bcast, Ibcast, RECV, root, run->comm);
  if (!is_root) expect(run, root, 0, 0);
  check(run, "MPI_Bcast of strides");
}

static void unequal_calls(const Run* run) {
  int *const many = memory((size_t)run->size * sizeof(int)), *const few = memory((size_t)run->size *
                                                                                 sizeof(int));
  int *const from = memory((size_t)run->size * sizeof(int)), *const to = memory((size_t)run->size *
                                                                                sizeof(int));
  MPI_Datatype *const sent = memory((size_t)run->size * sizeof(MPI_Datatype)),
                      *const received = memory((size_t)run->size * sizeof(MPI_Datatype));
  for (int i = 0; i < run->size; ++i) {
    const int none = (i + run->rank) % 3 == 2; /* for either side */
    many[i] = none ? 0 : run->send_count;
    few[i] = none ? 0 : run->recv_count;
    from[i] = i * run->send_count;
    to[i] = i * run->recv_count;
    sent[i] = run->sent;
    received[i] = run->received;
  }
  begin(run);
  CALLED(Alltoallv, Ialltoallv, run->send + MIDDLE, many, from, run->sent, run->recv + MIDDLE, few,
         to, run->received, run->comm);
  for (int i = 0; i < run->size; ++i)
    if (few[i] != 0) expect(run, i, run->rank, i);
  check(run, "MPI_Alltoallv of strides");
  for (int i = 0; i < run->size; ++i) {
    from[i] *= (int)run->send_extent;
    to[i] *= (int)run->recv_extent;
  }
  begin(run);
  CALLED(Alltoallw, Ialltoallw, run->send + MIDDLE, many, from, sent, run->recv + MIDDLE, few, to,
         received, run->comm);
  for (int i = 0; i < run->size; ++i)
    if (few[i] != 0) expect(run, i, run->rank, i);
  check(run, "MPI_Alltoallw of strides");
  free(many);
  free(few);
  free(from);
  free(to);
  free(sent);
  free(received);
}

/* Each block has another type, and lies in place. */
static void each_in_place(const Run* run) {
  int* const counts = memory((size_t)run->size * sizeof(int));
  int* const places = memory((size_t)run->size * sizeof(int));
  MPI_Datatype* const types = memory((size_t)run->size * sizeof(MPI_Datatype));
  for (int i = 0; i < run->size; ++i) {
    /* The same of both, so that it is as long here as there. */
    types[i] = make_type((run->number + i + run->rank) % TYPES);
    counts[i] = 1;
    places[i] = i * 14000;
  }
  memset(run->should, 0x55, BUFFER);
  for (int i = 0; i < run->size; ++i) {
    int position = 0;
    fill(run->other, i);
    MPI_Pack(run->other + MIDDLE + run->rank * 14000, 1, types[i], run->packed, BUFFER, &position,
             MPI_COMM_SELF);
    const int bytes = position;
    position = 0;
    MPI_Unpack(run->packed, bytes, &position, run->should + MIDDLE + places[i], 1, types[i],
               MPI_COMM_SELF);
  }
  fill(run->recv, run->rank);
  CALLED(Alltoallw, Ialltoallw, MPI_IN_PLACE, NULL, NULL, NULL, run->recv + MIDDLE, counts, places,
         types, run->comm);
  /* What lies between the blocks is as it was. */
  for (int i = 0; i < run->size; ++i) {
    int position = 0, size = 0;
    MPI_Type_size(types[i], &size);
    MPI_Pack(run->recv + MIDDLE + places[i], 1, types[i], run->packed, BUFFER, &position,
             MPI_COMM_SELF);
    memcpy(run->other, run->packed, (size_t)size);
    position = 0;
    MPI_Pack(run->should + MIDDLE + places[i], 1, types[i], run->packed, BUFFER, &position,
             MPI_COMM_SELF);
    for (int at = 0; at < size; ++at)
      if (run->other[at] != run->packed[at])
        wrong("MPI_Alltoallw in place", run->name, i * 1000000 + at, run->other[at],
              run->packed[at]);
    MPI_Type_free(&types[i]);
  }
  free(counts);
  free(places);
  free(types);
}

static void sweep_type(Run* run, MPI_Datatype type, int elements) {
  int size = 0;
  MPI_Aint lower = 0, extent = 0;
  MPI_Type_size(type, &size);
  MPI_Type_get_extent(type, &lower, &extent);
  run->bytes = elements * size;
  for (int way = 0; way < 3; ++way) {
    /* Bytes on one side, or elements on both; ranks differ in the last. */
    const int sends = way != 0, receives = way != 1;
    run->sent = sends ? type : MPI_BYTE;
    run->send_count = sends ? elements : run->bytes;
    run->send_extent = sends ? extent : 1;
    run->received = receives ? type : MPI_BYTE;
    run->recv_count = receives ? elements : run->bytes;
    run->recv_extent = receives ? extent : 1;
    equal_calls(run);
    unequal_calls(run);
  }
}

/* Pairs of a type that Fortran asks for by its precision, which nobody may free. */
static void fortrans_kinds(const Run* run) {
  MPI_Datatype real, pair;
  double both[2] = {0, 0};
  if (run->rank == 0) both[0] = both[1] = 1.5;
  MPI_Type_create_f90_real(15, 307, &real);
  if (real == MPI_DATATYPE_NULL) return; /* an MPI without Fortran */
  MPI_Type_vector(2, 1, 1, real, &pair);
  MPI_Type_commit(&pair);
  MPI_Bcast(both, 1, pair, 0, run->comm);
  MPI_Bcast(both, 2, real, 0, run->comm);
  MPI_Type_free(&pair);
  if (both[0] != 1.5 || both[1] != 1.5) wrong("MPI_Bcast", "precision", 0, (long)both[1], 1);
}

void sweep_strides(MPI_Comm comm, const char* name) {
  Run run = {0};
  run.comm = comm;
  run.name = name;
  MPI_Comm_rank(comm, &run.rank);
  MPI_Comm_size(comm, &run.size);
  if (run.size > 6) return;
  unsigned char** const buffers[] = {&run.send, &run.recv, &run.should, &run.other, &run.packed};
  for (int i = 0; i < 5; ++i) *buffers[i] = memory(BUFFER);
  for (run.number = 0; run.number < TYPES; ++run.number) {
    g_form = run.size == 1 ? BLOCKING : run.number % FORMS;
    MPI_Datatype type = make_type(run.number);
    sweep_type(&run, type, 1);
    if (run.number != 0 && run.number != 3 && run.number != 12) sweep_type(&run, type, 3);
    each_in_place(&run);
    MPI_Type_free(&type);
  }
  g_form = BLOCKING;
  fortrans_kinds(&run);
  for (int i = 0; i < 5; ++i) free(*buffers[i]);
}
