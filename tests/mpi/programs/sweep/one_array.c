/* Calls that send from and receive into one array: the blocks of one side lie in the holes between
 * those of the other. */
#include <stdlib.h>

#include "sweep.h"

typedef struct Array {
  MPI_Comm comm;
  const char* name;
  int rank, size, ints; /* in a block */
  int* work;            /* two blocks a rank: those sent and those received take turns */
  int *counts, *even, *odd;
} Array;

static int value(int from, int to, int i) { return (from * 37 + to) * 1009 + i; }

static void fill(const Array* array, int block, int from, int to) {
  for (int i = 0; i < array->ints; ++i) array->work[block * array->ints + i] = value(from, to, i);
}
static void check(const Array* array, int block, int from, int to, const char* call) {
  for (int i = 0; i < array->ints; ++i) {
    const int got = array->work[block * array->ints + i];
    if (got != value(from, to, i)) wrong(call, array->name, i, got, value(from, to, i));
  }
}

static void alltoallv(const Array* a) {
  for (int to = 0; to < a->size; ++to) fill(a, 2 * to, a->rank, to);
  /* MPICH takes buffers of the same address for a mistake: those of one rank stay with it. */
  int* const to = a->size == 1 ? a->work + a->ints : a->work;
  MPI_Alltoallv(a->work, a->counts, a->even, MPI_INT, to, a->counts,
                a->size == 1 ? a->even : a->odd, MPI_INT, a->comm);
  for (int peer = 0; peer < a->size; ++peer) {
    check(a, 2 * peer, a->rank, peer, "MPI_Alltoallv");
    check(a, 2 * peer + 1, peer, a->rank, "MPI_Alltoallv");
  }
}

static void allgatherv(const Array* a) {
  fill(a, 1, a->rank, 0);
  MPI_Allgatherv(a->work + a->ints, a->ints, MPI_INT, a->work, a->counts, a->even, MPI_INT,
                 a->comm);
  for (int from = 0; from < a->size; ++from) check(a, 2 * from, from, 0, "MPI_Allgatherv");
  check(a, 1, a->rank, 0, "MPI_Allgatherv");
}

static void gatherv(const Array* a, int root) {
  fill(a, 1, a->rank, 0);
  MPI_Gatherv(a->work + a->ints, a->ints, MPI_INT, a->work, a->counts, a->even, MPI_INT, root,
              a->comm);
  for (int from = 0; a->rank == root && from < a->size; ++from)
    check(a, 2 * from, from, 0, "MPI_Gatherv");
  check(a, 1, a->rank, 0, "MPI_Gatherv");
}

static void scatterv(const Array* a, int root) {
  for (int to = 0; to < a->size; ++to) fill(a, 2 * to, a->rank, to);
  MPI_Scatterv(a->work, a->counts, a->even, MPI_INT, a->work + a->ints, a->ints, MPI_INT, root,
               a->comm);
  check(a, 1, root, a->rank, "MPI_Scatterv");
  for (int to = 0; to < a->size; ++to) check(a, 2 * to, a->rank, to, "MPI_Scatterv");
}

/* A datatype that has the addresses of what is moved. */
static void from_bottom(const Array* a) {
  int here = a->rank == 0 ? 7 : 0, there = a->rank == 0 ? 11 : 0;
  const int lengths[] = {1, 1};
  MPI_Aint places[2];
  MPI_Datatype type;
  MPI_Get_address(&here, &places[0]);
  MPI_Get_address(&there, &places[1]);
  MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Bcast(MPI_BOTTOM, 1, type, 0, a->comm);
  if (here != 7 || there != 11) wrong("MPI_Bcast", "MPI_BOTTOM", here, there, 11);
  MPI_Type_free(&type);
}

void sweep_one_array(MPI_Comm comm, const char* name) {
  static const int lengths[] = {1, 50, 3000, 60000};
  Array a = {comm, name, 0, 1, 0, NULL, NULL, NULL, NULL};
  MPI_Comm_rank(comm, &a.rank);
  MPI_Comm_size(comm, &a.size);
  a.counts = memory((size_t)a.size * sizeof(int));
  a.even = memory((size_t)a.size * sizeof(int));
  a.odd = memory((size_t)a.size * sizeof(int));
  for (size_t length = 0; length < sizeof lengths / sizeof *lengths; ++length) {
    a.ints = lengths[length];
    a.work = memory(2 * (size_t)a.size * (size_t)a.ints * sizeof(int));
    for (int i = 0; i < a.size; ++i) {
      a.counts[i] = a.ints;
      a.even[i] = 2 * i * a.ints;
      a.odd[i] = (2 * i + 1) * a.ints;
    }
    alltoallv(&a);
    allgatherv(&a);
    for (int root = 0; root < a.size; ++root) {
      gatherv(&a, root);
      scatterv(&a, root);
    }
    free(a.work);
  }
  from_bottom(&a);
  free(a.counts);
  free(a.even);
  free(a.odd);
}
