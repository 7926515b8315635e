/* Reduce, Allreduce, Reduce_scatter(_block), Scan and Exscan, of every type and operator. Values
 * are small integers, so that all types hold the exact result whatever the order is. */
#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "called.h"
#include "sweep.h"

enum { SUM, PROD, MIN, MAX, BAND, BOR, BXOR, LAND, LOR, LXOR, OPERATORS };
static const char* const kOperators[] = {"sum", "product", "min",  "max", "band",
                                         "bor", "bxor",    "land", "lor", "lxor"};

static long combine(int op, long a, long b) {
  switch (op) {
    case SUM:
      return a + b;
    case PROD:
      return a * b;
    case MIN:
      return a < b ? a : b;
    case MAX:
      return a > b ? a : b;
    case BAND:
      return a & b;
    case BOR:
      return a | b;
    case BXOR:
      return a ^ b;
    case LAND:
      return a && b;
    case LOR:
      return a || b;
    default:
      return !a != !b;
  }
}

/* What a rank has at an index, small enough for products of five in a signed char. */
static long value(int op, int rank, int i) {
  if (op == PROD) return 1 + (rank + i) % 2;
  if (op >= LAND) return (rank + i) % 3 == 0 ? 0 : 1;
  return (rank * 5 + i * 3) % 11;
}
/* Of ranks first to last. */
static long expected(int op, int first, int last, int i) {
  long all = value(op, first, i);
  for (int rank = first + 1; rank <= last; ++rank) all = combine(op, all, value(op, rank, i));
  return all;
}

typedef struct Elements {
  const char* name;
  MPI_Datatype type;
  size_t bytes;
  void (*set)(void* array, int i, long value);
  long (*get)(const void* array, int i);
  unsigned operators; /* a bit each */
} Elements;

#define ACCESS(name, type)                                                              \
  static void set_##name(void* array, int i, long to) { ((type*)array)[i] = (type)to; } \
  static long get_##name(const void* array, int i) { return (long)((const type*)array)[i]; }
ACCESS(int8, int8_t)
ACCESS(uint8, uint8_t)
ACCESS(int16, int16_t)
ACCESS(uint16, uint16_t)
ACCESS(int32, int32_t)
ACCESS(uint32, uint32_t)
ACCESS(int64, int64_t)
ACCESS(uint64, uint64_t)
ACCESS(float, float)
ACCESS(double, double)
ACCESS(long_double, long double)
ACCESS(float_complex, float complex)
ACCESS(double_complex, double complex)
ACCESS(bool, bool)

#define ALL_BITS ((1u << OPERATORS) - 1)
#define NUMBERS (1u << SUM | 1u << PROD | 1u << MIN | 1u << MAX)
#define BITWISE (1u << BAND | 1u << BOR | 1u << BXOR)
#define LOGICAL (1u << LAND | 1u << LOR | 1u << LXOR)

typedef struct Run {
  MPI_Comm comm;
  const char* name;
  int rank, size, count, in_place, op;
  MPI_Op handle;
  const Elements* of;
} Run;

static void fill(const Run* run, void* array, int count) {
  for (int i = 0; i < count; ++i) run->of->set(array, i, value(run->op, run->rank, i));
}
/* `from`: the index in the whole vector of the first element. */
static void check(const Run* run, const void* array, int count, int from, int first, int last,
                  const char* call) {
  for (int i = 0; i < count; ++i) {
    const long got = run->of->get(array, i), should = expected(run->op, first, last, from + i);
    if (got != should) {
      char where[200];
      snprintf(where, sizeof where, "%s of %s on %s", kOperators[run->op], run->of->name,
               run->name);
      wrong(call, where, i, got, should);
    }
  }
}

static void all_calls(const Run* run) {
  g_starts = run->in_place ? 1 : 3;
  const int n = run->count, last = run->size - 1;
  void* send = memory((size_t)(n * run->size + 1) * run->of->bytes);
  void* recv = memory((size_t)(n * run->size + 1) * run->of->bytes);
  const void* from = run->in_place ? MPI_IN_PLACE : send;
  const MPI_Datatype type = run->of->type;
#define BEGIN(count) fill(run, run->in_place ? recv : send, count)
  BEGIN(n);
  CALLED(Allreduce, Iallreduce, from, recv, n, type, run->handle, run->comm);
  check(run, recv, n, 0, 0, last, "MPI_Allreduce");
  BEGIN(n);
  CALLED(Scan, Iscan, from, recv, n, type, run->handle, run->comm);
  check(run, recv, n, 0, 0, run->rank, "MPI_Scan");
  BEGIN(n);
  CALLED(Exscan, Iexscan, from, recv, n, type, run->handle, run->comm);
  if (run->rank > 0) check(run, recv, n, 0, 0, run->rank - 1, "MPI_Exscan");
  for (int root = 0; root <= last; root += last > 0 ? last : 1) {
    const int is_root = run->rank == root;
    fill(run, run->in_place && is_root ? recv : send, n);
    CALLED(Reduce, Ireduce, is_root ? from : send, is_root ? recv : NULL, n, type, run->handle,
           root, run->comm);
    if (is_root) check(run, recv, n, 0, 0, last, "MPI_Reduce");
  }
  BEGIN(n * run->size);
  CALLED(Reduce_scatter_block, Ireduce_scatter_block, from, recv, n, type, run->handle, run->comm);
  check(run, recv, n, n * run->rank, 0, last, "MPI_Reduce_scatter_block");
  int* counts = memory((size_t)run->size * sizeof *counts);
  int all = 0, first = 0;
  for (int i = 0; i < run->size; ++i) {
    counts[i] = i % 2 == 0 ? n : n / 2;
    if (i == run->rank) first = all;
    all += counts[i];
  }
  BEGIN(all);
  CALLED(Reduce_scatter, Ireduce_scatter, from, recv, counts, type, run->handle, run->comm);
  check(run, recv, counts[run->rank], first, 0, last, "MPI_Reduce_scatter");
  free(counts);
  free(send);
  free(recv);
}

/* The least value, of equal ones the lowest index, and the greatest. */
#define LOCATIONS(id, type, Value)                                                             \
  static void locate_##id(const Run* run) {                                                    \
    struct {                                                                                   \
      Value value;                                                                             \
      int index;                                                                               \
    } mine[7], least[7], most[7];                                                              \
    memset(mine, 0, sizeof mine);                                                              \
    for (int i = 0; i < 7; ++i) {                                                              \
      mine[i].value = (Value)((run->rank * 3 + i) % 4);                                        \
      mine[i].index = run->rank;                                                               \
    }                                                                                          \
    CALLED(Allreduce, Iallreduce, mine, least, 7, type, MPI_MINLOC, run->comm);                \
    CALLED(Allreduce, Iallreduce, mine, most, 7, type, MPI_MAXLOC, run->comm);                 \
    for (int i = 0; i < 7; ++i) {                                                              \
      int low = 0, high = 0;                                                                   \
      for (int rank = 1; rank < run->size; ++rank) {                                           \
        if ((rank * 3 + i) % 4 < (low * 3 + i) % 4) low = rank;                                \
        if ((rank * 3 + i) % 4 > (high * 3 + i) % 4) high = rank;                              \
      }                                                                                        \
      if (least[i].index != low) wrong("minloc of " #type, run->name, i, least[i].index, low); \
      if (most[i].index != high) wrong("maxloc of " #type, run->name, i, most[i].index, high); \
    }                                                                                          \
  }
LOCATIONS(float, MPI_FLOAT_INT, float)
LOCATIONS(double, MPI_DOUBLE_INT, double)
LOCATIONS(long, MPI_LONG_INT, long)
LOCATIONS(int, MPI_2INT, int)
LOCATIONS(short, MPI_SHORT_INT, short)
LOCATIONS(long_double, MPI_LONG_DOUBLE_INT, long double)

static void own_sum(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) ((int*)inout)[i] += ((int*)in)[i];
}

void sweep_reductions(MPI_Comm comm, const char* name, int thorough) {
  const Elements types[] = {
      {"int8", MPI_SIGNED_CHAR, 1, set_int8, get_int8, ALL_BITS},
      {"uint8", MPI_UINT8_T, 1, set_uint8, get_uint8, ALL_BITS},
      {"byte", MPI_BYTE, 1, set_uint8, get_uint8, BITWISE},
      {"short", MPI_SHORT, 2, set_int16, get_int16, ALL_BITS},
      {"uint16", MPI_UINT16_T, 2, set_uint16, get_uint16, ALL_BITS},
      {"int", MPI_INT, 4, set_int32, get_int32, ALL_BITS},
      {"unsigned", MPI_UNSIGNED, 4, set_uint32, get_uint32, ALL_BITS},
      {"long", MPI_LONG, 8, set_int64, get_int64, ALL_BITS},
      {"aint", MPI_AINT, 8, set_int64, get_int64, NUMBERS},
      {"uint64", MPI_UINT64_T, 8, set_uint64, get_uint64, ALL_BITS},
      {"float", MPI_FLOAT, 4, set_float, get_float, NUMBERS},
      {"double", MPI_DOUBLE, 8, set_double, get_double, NUMBERS},
      {"long double", MPI_LONG_DOUBLE, sizeof(long double), set_long_double, get_long_double,
       NUMBERS},
      {"float complex", MPI_C_FLOAT_COMPLEX, 8, set_float_complex, get_float_complex,
       1u << SUM | 1u << PROD},
      {"double complex", MPI_C_DOUBLE_COMPLEX, 16, set_double_complex, get_double_complex,
       1u << SUM | 1u << PROD},
      {"bool", MPI_C_BOOL, 1, set_bool, get_bool, LOGICAL},
  };
  const MPI_Op operators[] = {MPI_SUM, MPI_PROD, MPI_MIN,  MPI_MAX, MPI_BAND,
                              MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
  static const int counts[] = {200, 1, 0};
  Run run = {comm, name, 0, 1, 0, 0, 0, MPI_OP_NULL, NULL};
  MPI_Comm_rank(comm, &run.rank);
  MPI_Comm_size(comm, &run.size);
  for (size_t t = 0; t < sizeof types / sizeof *types; ++t) {
    run.of = &types[t];
    if (!thorough && t % 5 != 0) continue;
    for (run.op = 0; run.op < OPERATORS; ++run.op) {
      if ((types[t].operators >> run.op & 1) == 0) continue;
      run.handle = operators[run.op];
      for (size_t c = 0; c < (thorough ? sizeof counts / sizeof *counts : 1); ++c) {
        run.count = counts[c];
        for (run.in_place = 0; run.in_place < 2; ++run.in_place) all_calls(&run);
      }
    }
  }
  run.of = &types[11];
  run.op = SUM;
  run.handle = MPI_SUM;
  run.count = 60000; /* long enough for the algorithms of long vectors */
  for (run.in_place = 0; run.in_place < 2; ++run.in_place) all_calls(&run);
  run.of = &types[5];
  run.count = 7;
  run.in_place = 0;
  /* Persistent calls by it stay with the MPI, and MPICH's own (4.0.2) fail. */
  if (g_form != PERSISTENT) {
    MPI_Op_create(own_sum, 1, &run.handle);
    all_calls(&run);
    MPI_Op_free(&run.handle);
  }
  locate_float(&run);
  locate_double(&run);
  locate_long(&run);
  locate_int(&run);
  locate_short(&run);
  locate_long_double(&run);
}
