/* The same calls on the same data again and again, while the library may have them carried out by
 * the engine, or by the MPI. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sweep.h"

enum { INTS = 16, DOUBLES = 100, MOST_RANKS = 16, KINDS = 18 };

static int g_rank, g_size;
static MPI_Datatype g_row; /* INTS of MPI_INT */
static MPI_Op g_own;

static void add(void* in, void* out, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) ((int*)out)[i] += ((int*)in)[i];
}

/* Both of a size that all kinds of calls have room in. */
struct Data {
  int ints[INTS * MOST_RANKS];
  double doubles[DOUBLES];
};

static void fill(struct Data* data) {
  for (int i = 0; i < INTS * MOST_RANKS; ++i) data->ints[i] = (g_rank + 2) * (i + 1);
  /* What is lost of small ones depends on the order in which they are added; some are of different
   * sign, zeros, too. */
  for (int i = 0; i < DOUBLES; ++i)
    data->doubles[i] = i % 10 == 0 ? (g_rank % 2 == 0 ? 0.0 : -0.0)
                                   : (i % 2 == 0 ? 1 : -1) * (1e16 / (g_rank + 1) + 0.37 * i);
}

/* Makes the call of a kind. Ranks describe the same data in different ways. */
static void call(int kind, MPI_Comm comm, struct Data* in, struct Data* out) {
  const int odd = g_rank % 2, root = g_size - 1;
  const MPI_Datatype type = odd ? g_row : MPI_INT;
  const int count = odd ? 1 : INTS;
  int counts[MOST_RANKS], places[MOST_RANKS];
  MPI_Datatype types[MOST_RANKS];
  for (int i = 0; i < g_size; ++i) {
    counts[i] = i + 1;
    places[i] = i * INTS;
  }
  switch (kind) {
    case 0:
      MPI_Alltoall(in->ints, count, type, out->ints, INTS, MPI_INT, comm);
      break;
    case 1:
      memcpy(out->ints + g_rank * INTS, in->ints, INTS * sizeof(int));
      MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, out->ints, count, type, comm);
      break;
    case 2:
      MPI_Gather(in->ints, count, type, out->ints, INTS, MPI_INT, root, comm);
      break;
    case 3:
      if (g_rank == root)
        MPI_Scatter(in->ints, INTS, MPI_INT, MPI_IN_PLACE, 0, MPI_INT, root, comm);
      else
        MPI_Scatter(NULL, 0, MPI_INT, out->ints, count, type, root, comm);
      break;
    case 4:
      memcpy(out->ints, in->ints, sizeof in->ints);
      MPI_Bcast(out->ints, count, type, 0, comm);
      break;
    case 5:
      MPI_Allgatherv(in->ints, g_rank + 1, MPI_INT, out->ints, counts, places, MPI_INT, comm);
      break;
    case 6:
      MPI_Allreduce(in->ints, out->ints, INTS, MPI_INT, MPI_SUM, comm);
      break;
    case 7:
      memcpy(out->ints, in->ints, sizeof in->ints);
      MPI_Reduce_scatter_block(MPI_IN_PLACE, out->ints, INTS, MPI_INT, MPI_MAX, comm);
      memset(out->ints + INTS, 0, sizeof out->ints - INTS * sizeof(int));
      break;
    case 8:
      MPI_Reduce_scatter(in->ints, out->ints, counts, MPI_INT, MPI_BXOR, comm);
      break;
    case 9:
      MPI_Allreduce(in->ints, out->ints, INTS / 2, MPI_2INT, MPI_MINLOC, comm);
      break;
    /* Whose bits depend on who computes them. */
    case 10:
      MPI_Reduce(in->doubles, out->doubles, DOUBLES, MPI_DOUBLE, MPI_SUM, root, comm);
      break;
    case 11:
      MPI_Scan(in->doubles, out->doubles, DOUBLES, MPI_DOUBLE, MPI_MAX, comm);
      break;
    case 12:
      MPI_Exscan(in->ints, out->ints, INTS, MPI_INT, g_own, comm);
      break;
    /* Of whose lengths each rank knows its own. */
    case 13:
      for (int i = 0; i < g_size; ++i) counts[i] = g_rank + i + 1 < INTS ? g_rank + i + 1 : INTS;
      MPI_Alltoallv(in->ints, counts, places, MPI_INT, out->ints, counts, places, MPI_INT, comm);
      break;
    case 14:
      MPI_Gatherv(in->ints, g_rank + 1, MPI_INT, out->ints, counts, places, MPI_INT, root, comm);
      break;
    case 15:
      MPI_Scatterv(in->ints, counts, places, MPI_INT, out->ints, g_rank + 1, MPI_INT, root, comm);
      break;
    case 16:
      for (int i = 0; i < g_size; ++i) {
        counts[i] = odd ? 1 : INTS;
        places[i] = i * INTS * (int)sizeof(int);
        types[i] = type;
      }
      MPI_Alltoallw(in->ints, counts, places, types, out->ints, counts, places, types, comm);
      break;
    default:
      MPI_Barrier(comm);
      break;
  }
}

static void again_and_again(MPI_Comm comm, int calls) {
  static struct Data in, out, before, first[KINDS];
  MPI_Comm_rank(comm, &g_rank);
  MPI_Comm_size(comm, &g_size);
  if (g_size > MOST_RANKS) wrong("sampled", "ranks", 0, g_size, MOST_RANKS);
  fill(&before);
  for (int i = 0; i < calls; ++i)
    for (int kind = 0; kind < KINDS; ++kind) {
      struct Data* const expected = &first[kind];
      MPI_Request request = MPI_REQUEST_NULL;
      int sum = 0;
      in = before;
      memset(&out, 0, sizeof out);
      /* Another form beside them, of one of the kinds. */
      if (i % 10 == 0) MPI_Iallreduce(&g_rank, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
      call(kind, comm, &in, &out);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      if (i % 10 == 0 && sum != g_size * (g_size - 1) / 2)
        wrong("MPI_Iallreduce", "sampled", i, sum, g_size * (g_size - 1) / 2);
      if (i == 0) *expected = out;
      if (memcmp(&out, expected, sizeof out) != 0) wrong("sampled", "other bits", i, kind, kind);
    }
  for (int i = 0; i < INTS; ++i) {
    const int all = g_size * (g_size + 3) / 2 * (i + 1);
    if (first[6].ints[i] != all) wrong("MPI_Allreduce", "sampled", i, first[6].ints[i], all);
    if (first[4].ints[i] != 2 * (i + 1))
      wrong("MPI_Bcast", "sampled", i, first[4].ints[i], 2 * (i + 1));
  }
  for (int from = 0; from < g_size; ++from)
    if (first[13].ints[from * INTS] != (from + 2) * (g_rank * INTS + 1))
      wrong("MPI_Alltoallv", "sampled", from, first[13].ints[from * INTS], from);
  for (int from = 0; from < g_size; ++from)
    if (first[0].ints[from * INTS] != (from + 2) * (g_rank * INTS + 1))
      wrong("MPI_Alltoall", "sampled", from, first[0].ints[from * INTS], from);
}

void sampled_calls(int calls) {
  MPI_Comm other;
  MPI_Type_contiguous(INTS, MPI_INT, &g_row);
  MPI_Type_commit(&g_row);
  MPI_Op_create(add, 1, &g_own);
  again_and_again(MPI_COMM_WORLD, calls);
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  again_and_again(other, calls / 10);
  MPI_Comm_free(&other);
  MPI_Op_free(&g_own);
  MPI_Type_free(&g_row);
}

/* Reductions that give the same bits whoever computes them. */
static void hash(unsigned long* bits, const void* data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    *bits = (*bits ^ ((const unsigned char*)data)[i]) * 1099511628211UL;
}

void bits_of_exact_reductions(void) {
  enum { BYTES = 256, FUNCTIONS = 5, UNSIGNED = 8 };
  const MPI_Datatype types[] = {MPI_INT8_T,  MPI_UINT8_T,  MPI_INT16_T, MPI_UINT16_T,
                                MPI_INT32_T, MPI_UINT32_T, MPI_INT64_T, MPI_UINT64_T,
                                MPI_C_BOOL,  MPI_BYTE,     MPI_2INT};
  const MPI_Op ops[] = {MPI_SUM,  MPI_PROD, MPI_MIN, MPI_MAX,  MPI_LAND,   MPI_LOR,
                        MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
  enum { EXTREMES = 2, LOGICALS = 4, BITS = 7, LOCATIONS = 10, OPS = 12 };
  static unsigned char in[BYTES * MOST_RANKS], out[BYTES * MOST_RANKS];
  MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &g_size);
  unsigned long bits = 14695981039346656037UL, all = 0;
  for (int t = 0; t < (int)(sizeof types / sizeof *types); ++t) {
    int bytes = 0;
    MPI_Type_size(types[t], &bytes);
    const int count = BYTES / bytes;
    const int is_bool = types[t] == MPI_C_BOOL, is_byte = types[t] == MPI_BYTE,
              is_pair = types[t] == MPI_2INT;
    for (int i = 0; i < BYTES * g_size; ++i)
      in[i] = (unsigned char)(is_bool ? (g_rank + i) % 3 == 0 : (g_rank + 7) * (i + 3) % 251);
    for (int o = 0; o < OPS; ++o) {
      const int logical = o >= LOGICALS && o < BITS, bitwise = o >= BITS && o < LOCATIONS;
      if (is_pair ? o < LOCATIONS : o >= LOCATIONS) continue;
      if ((is_bool && !logical) || (is_byte && !bitwise)) continue;
      /* Open MPI 4.1 saturates some, MPICH 4.0 compares some as signed ones. */
      if (o < EXTREMES && bytes < 4) continue;
      if (o >= EXTREMES && o < LOGICALS && t < UNSIGNED && t % 2 != 0) continue;
      for (int function = 0; function < FUNCTIONS; ++function) {
        memset(out, 0, sizeof out);
        if (function == 0) MPI_Allreduce(in, out, count, types[t], ops[o], MPI_COMM_WORLD);
        if (function == 1) MPI_Scan(in, out, count, types[t], ops[o], MPI_COMM_WORLD);
        if (function == 2) MPI_Exscan(in, out, count, types[t], ops[o], MPI_COMM_WORLD);
        if (function == 3) MPI_Reduce(in, out, count, types[t], ops[o], 0, MPI_COMM_WORLD);
        if (function == 4)
          MPI_Reduce_scatter_block(in, out, count, types[t], ops[o], MPI_COMM_WORLD);
        /* What the first rank has after an exscan is undefined. */
        if (function != 2 || g_rank != 0) hash(&bits, out, sizeof out);
      }
    }
  }
  bits *= 2 * (unsigned long)g_rank + 1;
  MPI_Reduce(&bits, &all, 1, MPI_UINT64_T, MPI_BXOR, 0, MPI_COMM_WORLD);
  if (g_rank == 0) printf("bits %016lx\n", all);
}
