/* Other forms of calls: places below the buffer, values with an index, the functions' second names
 * and those with large counts. */
#include <stdlib.h>

#include "sweep.h"

static void expect(const char* call, const char* name, int at, long got, long expected) {
  if (got != expected) wrong(call, name, at, got, expected);
}

static void below_the_buffer(MPI_Comm comm, const char* name, int rank, int size) {
  int* const work = memory(2 * (size_t)size * sizeof(int));
  int* const counts = memory((size_t)size * sizeof(int));
  int* const places = memory((size_t)size * sizeof(int));
  for (int i = 0; i < size; ++i) {
    counts[i] = 1;
    places[i] = i - size;
    work[i] = rank * 100 + i;
  }
  int *const sent_end = work + size, *const received_end = work + 2 * size;
  MPI_Alltoallv(sent_end, counts, places, MPI_INT, received_end, counts, places, MPI_INT, comm);
  for (int i = 0; i < size; ++i) expect("MPI_Alltoallv", name, i, work[size + i], i * 100 + rank);
  free(work);
  free(counts);
  free(places);
}

typedef struct Indexed {
  double value;
  int index;
} Indexed;

static void indexed_values(MPI_Comm comm, const char* name, int rank, int size) {
  enum { VALUES = 50 };
  Indexed mine[VALUES];
  Indexed* const all = memory((size_t)size * sizeof mine);
  for (int i = 0; i < VALUES; ++i) mine[i] = (Indexed){rank + i, rank * 100 + i};
  MPI_Allgather(mine, VALUES, MPI_DOUBLE_INT, all, VALUES, MPI_DOUBLE_INT, comm);
  for (int i = 0; i < size * VALUES; ++i) {
    expect("MPI_Allgather", name, i, (long)all[i].value, i / VALUES + i % VALUES);
    expect("MPI_Allgather", name, i, all[i].index, i / VALUES * 100 + i % VALUES);
  }
  free(all);
}

static void second_names(MPI_Comm comm, const char* name, int size) {
  int one = 1, sum = 0;
  PMPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  expect("PMPI_Allreduce", name, 0, sum, size);
}

static void large_counts(MPI_Comm comm, const char* name, int rank, int size) {
#if MPI_VERSION >= 4
  int one = 1, sum = 0;
  int *const in = memory((size_t)size * sizeof(int)), *const out =
                                                          memory((size_t)size * sizeof(int));
  MPI_Count* const counts = memory((size_t)size * sizeof(MPI_Count));
  MPI_Aint* const places = memory((size_t)size * sizeof(MPI_Aint));
  for (int i = 0; i < size; ++i) {
    in[i] = rank * 100 + i;
    counts[i] = 1;
    places[i] = (MPI_Aint)(size - 1 - i);
  }
  MPI_Allreduce_c(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  expect("MPI_Allreduce_c", name, 0, sum, size);
  MPI_Alltoall_c(in, 1, MPI_INT, out, 1, MPI_INT, comm);
  for (int i = 0; i < size; ++i) expect("MPI_Alltoall_c", name, i, out[i], i * 100 + rank);
  MPI_Alltoallv_c(in, counts, places, MPI_INT, out, counts, places, MPI_INT, comm);
  for (int i = 0; i < size; ++i)
    expect("MPI_Alltoallv_c", name, i, out[size - 1 - i], i * 100 + size - 1 - rank);
  free(in);
  free(out);
  free(counts);
  free(places);
#else
  (void)comm, (void)name, (void)rank, (void)size;
#endif
}

void sweep_forms(MPI_Comm comm, const char* name) {
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  below_the_buffer(comm, name, rank, size);
  indexed_values(comm, name, rank, size);
  second_names(comm, name, size);
  large_counts(comm, name, rank, size);
}

void some_without_bytes(void) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char *const in = memory(1000), *const out = memory(1000 * (size_t)size);
  MPI_Allgather(in, 1000, MPI_BYTE, out, 1000, MPI_BYTE, MPI_COMM_WORLD);
  for (int i = 0; i < 9; ++i) MPI_Allgather(in, 0, MPI_BYTE, out, 0, MPI_BYTE, MPI_COMM_WORLD);
  free(in);
  free(out);
}
