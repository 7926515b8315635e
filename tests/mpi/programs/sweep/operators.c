/* Reductions by operators of the program's own, and by predefined ones on types that few programs
 * combine. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "called.h"
#include "sweep.h"

/* ---- products of matrices, which do not commute, and are exact modulo 2^32 ---- */

typedef struct Matrix {
  unsigned at[4];
} Matrix;
static MPI_Datatype g_expected_type;

static Matrix product(Matrix a, Matrix b) {
  const Matrix all = {{a.at[0] * b.at[0] + a.at[1] * b.at[2], a.at[0] * b.at[1] + a.at[1] * b.at[3],
                       a.at[2] * b.at[0] + a.at[3] * b.at[2],
                       a.at[2] * b.at[1] + a.at[3] * b.at[3]}};
  return all;
}
static void multiply(void* in, void* inout, int* count, MPI_Datatype* type) {
  if (*type != g_expected_type) wrong("an operator", "its datatype", 0, 0, 0);
  const Matrix* left = in;
  Matrix* right = inout;
  for (int i = 0; i < *count; ++i) right[i] = product(left[i], right[i]);
}
static Matrix matrix_of(int rank, int i) {
  const unsigned r = (unsigned)rank + 1, n = (unsigned)i;
  const Matrix all = {{r + n, n * 3 + 1, r * 7, r * n + 1}};
  return all;
}
static Matrix matrices_of(int first, int last, int i) {
  Matrix all = matrix_of(first, i);
  for (int rank = first + 1; rank <= last; ++rank) all = product(all, matrix_of(rank, i));
  return all;
}

/* ---- sums of two numbers that lie apart: what is between them stays as it is ---- */

enum { GAP = -55 };
typedef struct Apart {
  int before, first, between, second, behind;
} Apart;

static void add_apart(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  const Apart* more = in;
  Apart* all = inout;
  for (int i = 0; i < *count; ++i) {
    all[i].first += more[i].first;
    all[i].second += more[i].second;
  }
}
static Apart apart_of(int rank, int i) {
  const Apart all = {GAP, rank + i, GAP, rank * i, GAP};
  return all;
}

/* ---- sums of doubles, rounded as by a binomial tree ---- */

static double rounded(int rank, int i) {
  return 1.0 / (double)(3 + (rank * 31 + i) % 17) * (i + 1);
}
static double tree_sum(int first, int end, int i) {
  if (end - first == 1) return rounded(first, i);
  int half = 1;
  while (2 * half < end - first) half *= 2;
  return tree_sum(first, first + half, i) + tree_sum(first + half, end, i);
}
static void add(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) ((double*)inout)[i] = ((double*)in)[i] + ((double*)inout)[i];
}

/* ---- every reduction by one of them ---- */

typedef struct Run {
  MPI_Comm comm;
  const char* name;
  int rank, size, in_place;
  MPI_Datatype type;
  MPI_Op op;
  size_t bytes;
  void (*fill)(void* array, int rank, int i, int n);
  /* Of what ranks first to last have at an index of the vector. */
  void (*check)(const void* array, int at, int first, int last, int i, const char* call,
                const char* name);
} Run;

static void fill_matrix(void* to, int rank, int i, int n) {
  (void)n;
  ((Matrix*)to)[i] = matrix_of(rank, i);
}
static void check_matrix(const void* array, int at, int first, int last, int i, const char* call,
                         const char* name) {
  const Matrix should = matrices_of(first, last, i), is = ((const Matrix*)array)[at];
  for (int j = 0; j < 4; ++j)
    if (is.at[j] != should.at[j]) wrong(call, name, i, is.at[j], should.at[j]);
}
static void fill_apart(void* to, int rank, int i, int n) {
  (void)n;
  ((Apart*)to)[i] = apart_of(rank, i);
}
static void check_apart(const void* array, int at, int first, int last, int i, const char* call,
                        const char* name) {
  Apart should = apart_of(first, i);
  for (int rank = first + 1; rank <= last; ++rank) {
    should.first += apart_of(rank, i).first;
    should.second += apart_of(rank, i).second;
  }
  const int *is = (const int*)&((const Apart*)array)[at], *all = (const int*)&should;
  for (int j = 0; j < 5; ++j)
    if (is[j] != all[j]) wrong(call, name, i * 5 + j, is[j], all[j]);
}
static void fill_double(void* to, int rank, int i, int n) {
  (void)n;
  ((double*)to)[i] = rounded(rank, i);
}
static void check_double(const void* array, int at, int first, int last, int i, const char* call,
                         const char* name) {
  const double should = tree_sum(first, last + 1, i), is = ((const double*)array)[at];
  if (memcmp(&is, &should, sizeof is) != 0)
    wrong(call, name, i, (long)(is * 1e15), (long)(should * 1e15));
}

static void begin(const Run* run, void* send, void* recv, int count) {
  for (int i = 0; i < count; ++i) {
    run->fill(run->in_place ? recv : send, run->rank, i, count);
    if (!run->in_place) run->fill(recv, 0, i, count);
  }
}

static void all_calls(const Run* run, int n) {
  const int last = run->size - 1;
  void* send = memory((size_t)(n * run->size + 1) * run->bytes);
  void* recv = memory((size_t)(n * run->size + 1) * run->bytes);
  const void* from = run->in_place ? MPI_IN_PLACE : send;
#define CHECK(count, offset, first, end, call) \
  for (int i = 0; i < (count); ++i) run->check(recv, i, first, end, (offset) + i, call, run->name)
  begin(run, send, recv, n);
  CALLED(Allreduce, Iallreduce, from, recv, n, run->type, run->op, run->comm);
  CHECK(n, 0, 0, last, "MPI_Allreduce");
  begin(run, send, recv, n);
  CALLED(Scan, Iscan, from, recv, n, run->type, run->op, run->comm);
  CHECK(n, 0, 0, run->rank, "MPI_Scan");
  begin(run, send, recv, n);
  CALLED(Exscan, Iexscan, from, recv, n, run->type, run->op, run->comm);
  if (run->rank > 0) CHECK(n, 0, 0, run->rank - 1, "MPI_Exscan");
  for (int root = 0; root <= last; ++root) {
    const int is_root = run->rank == root;
    begin(run, send, recv, n);
    if (run->in_place && !is_root) memcpy(send, recv, (size_t)n * run->bytes);
    CALLED(Reduce, Ireduce, is_root ? from : send, is_root ? recv : NULL, n, run->type, run->op,
           root, run->comm);
    if (is_root) CHECK(n, 0, 0, last, "MPI_Reduce");
  }
  begin(run, send, recv, n * run->size);
  CALLED(Reduce_scatter_block, Ireduce_scatter_block, from, recv, n, run->type, run->op, run->comm);
  CHECK(n, n * run->rank, 0, last, "MPI_Reduce_scatter_block");
  int *counts = memory((size_t)run->size * sizeof *counts), all = 0, before = 0;
  for (int i = 0; i < run->size; ++i) {
    counts[i] = i % 2 == 0 ? n : n / 2;
    if (i < run->rank) before += counts[i];
    all += counts[i];
  }
  begin(run, send, recv, all);
  CALLED(Reduce_scatter, Ireduce_scatter, from, recv, counts, run->type, run->op, run->comm);
  CHECK(counts[run->rank], before, 0, last, "MPI_Reduce_scatter");
  free(counts);
  free(send);
  free(recv);
}

static void sweep_own(Run run) {
  static const int counts[] = {1, 33, 3000};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i)
    for (run.in_place = 0; run.in_place < 2; ++run.in_place)
      for (g_form = BLOCKING; g_form < (run.size == 1 ? PERSISTENT : FORMS); ++g_form)
        all_calls(&run, counts[i]);
  g_form = BLOCKING;
}

/* An MPI that was built without Fortran may know the names of its types, but not combine them. */
static int has(MPI_Datatype type, MPI_Op op) {
  double from[2] = {0, 0}, to[2] = {0, 0};
  if (type == MPI_DATATYPE_NULL) return 0;
  MPI_Errhandler before;
  MPI_Comm_get_errhandler(MPI_COMM_SELF, &before);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const int known = PMPI_Allreduce(from, to, 1, type, op, MPI_COMM_SELF) == MPI_SUCCESS;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, before);
  MPI_Errhandler_free(&before);
  return known;
}

/* Fortran's, which this library of the MPI may lack. */
static void fortran_types(const Run* run) {
  if (has(MPI_LOGICAL, MPI_LAND)) {
    const int even = run->rank % 2;
    int mine[3] = {1, even, 0}, all[3] = {7, 7, 7};
    MPI_Allreduce(mine, all, 3, MPI_LOGICAL, MPI_LAND, run->comm);
    if (all[0] != 1 || all[1] != 0 || all[2] != 0)
      wrong("MPI_LAND", run->name, all[0], all[1], all[2]);
    MPI_Allreduce(mine, all, 3, MPI_LOGICAL, MPI_LOR, run->comm);
    if (all[0] != 1 || all[1] != (run->size > 1) || all[2] != 0)
      wrong("MPI_LOR", run->name, all[0], all[1], all[2]);
  }
  if (has(MPI_2DOUBLE_PRECISION, MPI_MAXLOC)) {
    double mine[4] = {run->rank % 3, run->rank, -run->rank, run->rank}, all[4] = {0};
    MPI_Allreduce(mine, all, 2, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, run->comm);
    const int most = run->size < 3 ? run->size - 1 : 2;
    if (all[0] != most || all[1] != most || all[2] != 0 || all[3] != 0)
      wrong("MPI_MAXLOC", run->name, (long)all[0], (long)all[1], most);
  }
}

static Run of_comm(MPI_Comm comm, const char* name) {
  Run run = {comm, name, 0, 1, 0, MPI_DATATYPE_NULL, MPI_OP_NULL, 0, NULL, NULL};
  MPI_Comm_rank(comm, &run.rank);
  MPI_Comm_size(comm, &run.size);
  return run;
}
static void take_doubles(Run* run) {
  run->type = MPI_DOUBLE;
  run->bytes = sizeof(double);
  run->fill = fill_double;
  run->check = check_double;
}

/* Freed while calls are under way, more of them than the engine has at a time. */
static void freed_meanwhile(const Run* run) {
  MPI_Datatype type;
  MPI_Op op;
  MPI_Request requests[100];
  Matrix mine[100], all[100];
  for (int i = 0; i < 100; ++i) mine[i] = matrix_of(run->rank, i);
  MPI_Type_contiguous(4, MPI_UNSIGNED, &type);
  MPI_Type_commit(&type);
  MPI_Op_create(multiply, 0, &op);
  g_expected_type = type;
  for (int i = 0; i < 100; ++i)
    MPI_Iallreduce(&mine[i], &all[i], 1, type, op, run->comm, &requests[i]);
  MPI_Type_free(&type);
  MPI_Op_free(&op);
  MPI_Waitall(100, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 100; ++i)
    check_matrix(all, i, 0, run->size - 1, i, "MPI_Iallreduce", run->name);
}

void sweep_operators(MPI_Comm comm, const char* name) {
  Run run = of_comm(comm, name);
  MPI_Type_contiguous(4, MPI_UNSIGNED, &run.type);
  MPI_Type_commit(&run.type);
  MPI_Op_create(multiply, 0, &run.op);
  g_expected_type = run.type;
  run.bytes = sizeof(Matrix);
  run.fill = fill_matrix;
  run.check = check_matrix;
  sweep_own(run);
  MPI_Type_free(&run.type);
  MPI_Op_free(&run.op);
  if (run.op != MPI_OP_NULL) wrong("MPI_Op_free", name, 0, 1, 0);

  freed_meanwhile(&run);
  MPI_Datatype two;
  const int places[] = {1, 3};
  MPI_Type_create_indexed_block(2, 1, places, MPI_INT, &two);
  MPI_Type_create_resized(two, 0, sizeof(Apart), &run.type);
  MPI_Type_commit(&run.type);
  MPI_Type_free(&two);
  MPI_Op_create(add_apart, 1, &run.op);
  run.bytes = sizeof(Apart);
  run.fill = fill_apart;
  run.check = check_apart;
  sweep_own(run);
  MPI_Op_free(&run.op);
  MPI_Type_free(&run.type);
  fortran_types(&run);
}

/* Sums that are rounded: the operator is one of the program's that does not commute, and, where all
 * are ordered, MPI_SUM. */
void ordered_sums(int all_are) {
  Run run = of_comm(MPI_COMM_WORLD, "ordered");
  take_doubles(&run);
  MPI_Op_create(add, 0, &run.op);
  sweep_own(run);
  MPI_Op_free(&run.op);
  run.op = MPI_SUM;
  if (all_are) sweep_own(run);
}

void many_operators(void) {
  enum { ROUNDS = 1000, MEASURED = 300, ALLOWED = 16 << 10 };
  size_t before = 0;
  Run run = of_comm(MPI_COMM_WORLD, "many operators");
  for (int round = 0; round < ROUNDS; ++round) {
    MPI_Datatype type;
    MPI_Op op;
    Matrix mine = matrix_of(run.rank, round), all;
    MPI_Type_contiguous(4, MPI_UNSIGNED, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(multiply, 0, &op);
    g_expected_type = type;
    MPI_Allreduce(&mine, &all, 1, type, op, MPI_COMM_WORLD);
    check_matrix(&all, 0, 0, run.size - 1, round, "MPI_Allreduce", run.name);
    if (round % 2 == 0) MPI_Type_free(&type);
    MPI_Op_free(&op);
    if (round % 2 != 0) MPI_Type_free(&type);
    if (round == MEASURED) before = mallinfo2().uordblks;
  }
  const size_t now = mallinfo2().uordblks;
  if (now > before + ALLOWED) wrong("memory", "operators", ROUNDS, (long)now, (long)before);
}
