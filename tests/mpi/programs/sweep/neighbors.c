/* Neighbour collectives on every kind of topology. Which block comes from where is what the MPI
 * says by a nonblocking one, before the communicator's first blocking one. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "called.h"
#include "sweep.h"

enum { UNTOUCHED = -77, GAP = 2 };

typedef struct Run {
  MPI_Comm comm;
  const char* name;
  int rank, size, sources, destinations, n;
  int (*from)[2]; /* of each source: the rank, and its slot; a rank of -1 is none */
  MPI_Datatype apart;
  int strided; /* this rank has gaps */
  int step;    /* ints from one to the next */
  int *send, *recv, *should;
  size_t send_ints, recv_ints;
} Run;

static int value(int rank, int slot, int i) { return (rank * 61 + slot + 1) * 10007 + i; }

/* Lengths of the unequal ones: sender and slot decide. */
static int length(const Run* run, int rank, int slot) { return run->n * ((rank + slot) % 3); }

static int* make(size_t ints) {
  int* const made = memory((ints + 1) * sizeof(int));
  for (size_t i = 0; i <= ints; ++i) made[i] = UNTOUCHED;
  return made;
}
static void begin(Run* run) {
  const int longest = 2 * run->n + 1;
  run->send_ints = (size_t)((run->destinations + 1) * longest * run->step);
  run->recv_ints = (size_t)((run->sources + 1) * longest * run->step);
  run->send = make(run->send_ints);
  run->recv = make(run->recv_ints);
  run->should = make(run->recv_ints);
}
static void put(const Run* run, int* array, int first, int count, int rank, int slot) {
  for (int i = 0; i < count; ++i) array[(first + i) * run->step] = value(rank, slot, i);
}
static void end(Run* run, const char* call) {
  for (size_t i = 0; i < run->recv_ints; ++i)
    if (run->recv[i] != run->should[i])
      wrong(call, run->name, (long)i, run->recv[i], run->should[i]);
  free(run->send);
  free(run->recv);
  free(run->should);
}

static MPI_Datatype type_of(const Run* run) { return run->strided ? run->apart : MPI_INT; }
static void set_layout(Run* run, int shift) {
  run->strided = (run->rank + shift) % 2;
  run->step = run->strided ? GAP : 1;
}
static void equal_calls(Run* run) {
  const int n = run->n;
  const MPI_Datatype type = type_of(run);
  begin(run);
  for (int i = 0; i < run->destinations; ++i) put(run, run->send, i * n, n, run->rank, i);
  for (int i = 0; i < run->sources; ++i)
    if (run->from[i][0] >= 0) put(run, run->should, i * n, n, run->from[i][0], run->from[i][1]);
  CALLED(Neighbor_alltoall, Ineighbor_alltoall, run->send, n, type, run->recv, n, type, run->comm);
  end(run, "MPI_Neighbor_alltoall");
  begin(run);
  put(run, run->send, 0, n, run->rank, 0);
  for (int i = 0; i < run->sources; ++i)
    if (run->from[i][0] >= 0) put(run, run->should, i * n, n, run->from[i][0], 0);
  CALLED(Neighbor_allgather, Ineighbor_allgather, run->send, n, type, run->recv, n, type,
         run->comm);
  end(run, "MPI_Neighbor_allgather");
}

static void unequal_calls(Run* run) {
  const int longest = 2 * run->n + 1, all = run->sources + run->destinations + 1;
  const MPI_Datatype type = type_of(run);
  int* const out = memory((size_t)all * sizeof(int));
  int* const out_at = memory((size_t)all * sizeof(int));
  int* const in = memory((size_t)all * sizeof(int));
  int* const in_at = memory((size_t)all * sizeof(int));
  MPI_Aint* const out_bytes = memory((size_t)all * sizeof(MPI_Aint));
  MPI_Aint* const in_bytes = memory((size_t)all * sizeof(MPI_Aint));
  MPI_Datatype* const types = memory((size_t)all * sizeof(MPI_Datatype));
  for (int i = 0; i < all; ++i) types[i] = type;
  for (int i = 0; i < run->destinations; ++i) {
    out[i] = length(run, run->rank, i);
    out_at[i] = (run->destinations - 1 - i) * longest;
    out_bytes[i] = (MPI_Aint)out_at[i] * run->step * (MPI_Aint)sizeof(int);
  }
  for (int i = 0; i < run->sources; ++i) {
    in[i] = run->from[i][0] < 0 ? 1 : length(run, run->from[i][0], run->from[i][1]);
    in_at[i] = i * longest;
    in_bytes[i] = (MPI_Aint)in_at[i] * run->step * (MPI_Aint)sizeof(int);
  }
#define BEGIN_EACH()                                      \
  begin(run);                                             \
  for (int i = 0; i < run->destinations; ++i)             \
    put(run, run->send, out_at[i], out[i], run->rank, i); \
  for (int i = 0; i < run->sources; ++i)                  \
    if (run->from[i][0] >= 0)                             \
  put(run, run->should, in_at[i], in[i], run->from[i][0], run->from[i][1])
  BEGIN_EACH();
  CALLED(Neighbor_alltoallv, Ineighbor_alltoallv, run->send, out, out_at, type, run->recv, in,
         in_at, type, run->comm);
  end(run, "MPI_Neighbor_alltoallv");
  BEGIN_EACH();
  CALLED(Neighbor_alltoallw, Ineighbor_alltoallw, run->send, out, out_bytes, types, run->recv, in,
         in_bytes, types, run->comm);
  end(run, "MPI_Neighbor_alltoallw");
  begin(run);
  const int own = run->n * (run->rank % 3);
  put(run, run->send, 0, own, run->rank, 0);
  for (int i = 0; i < run->sources; ++i) {
    if (run->from[i][0] < 0) continue;
    in[i] = run->n * (run->from[i][0] % 3);
    put(run, run->should, in_at[i], in[i], run->from[i][0], 0);
  }
  CALLED(Neighbor_allgatherv, Ineighbor_allgatherv, run->send, own, type, run->recv, in, in_at,
         type, run->comm);
  end(run, "MPI_Neighbor_allgatherv");
  free(out);
  free(out_at);
  free(in);
  free(in_at);
  free(out_bytes);
  free(in_bytes);
  free(types);
}

/* Frees `comm`. */
static void sweep_topology(MPI_Comm comm, const char* name, int sources, int destinations) {
  static const int counts[] = {1, 200, 6000};
  Run run = {0};
  MPI_Datatype parts;
  MPI_Request request;
  run.comm = comm;
  run.name = name;
  MPI_Comm_rank(comm, &run.rank);
  MPI_Comm_size(comm, &run.size);
  run.sources = sources;
  run.destinations = destinations;
  run.from = memory((size_t)(sources + 1) * sizeof *run.from);
  int(*const to)[2] = memory((size_t)(destinations + 1) * sizeof *to);
  for (int i = 0; i < sources; ++i) run.from[i][0] = -1;
  for (int i = 0; i < destinations; ++i) {
    to[i][0] = run.rank;
    to[i][1] = i;
  }
  MPI_Ineighbor_alltoall(to, 2, MPI_INT, run.from, 2, MPI_INT, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Type_vector(1, 1, 1, MPI_INT, &parts);
  MPI_Type_create_resized(parts, 0, GAP * sizeof(int), &run.apart);
  MPI_Type_commit(&run.apart);
  MPI_Type_free(&parts);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    run.n = counts[i];
    for (g_form = BLOCKING; g_form < (run.size == 1 ? PERSISTENT : FORMS); ++g_form) {
      set_layout(&run, g_form);
      equal_calls(&run);
      unequal_calls(&run);
    }
  }
  g_form = BLOCKING;
  free(run.from);
  free(to);
  MPI_Type_free(&run.apart);
  MPI_Comm_free(&comm);
}

static void sweep_cart(MPI_Comm comm, const char* name, int dimensions, const int* sizes,
                       const int* periods) {
  MPI_Comm made;
  int closed[3];
  for (int i = 0; i < dimensions; ++i) closed[i] = periods[i] && sizes[i] > 2;
  MPI_Cart_create(comm, dimensions, sizes, closed, 0, &made);
  if (made != MPI_COMM_NULL) sweep_topology(made, name, 2 * dimensions, 2 * dimensions);
}

/* A ring, and a hub that all others have to do with. */
static void sweep_graph(MPI_Comm comm, int size) {
  int* const index = memory((size_t)size * sizeof(int));
  int* const edges = memory((size_t)size * 4 * sizeof(int));
  int all = 0;
  for (int rank = 0; rank < size; ++rank) {
    if (rank == 0) {
      for (int other = 1; other < size; ++other) edges[all++] = other;
    } else {
      edges[all++] = 0;
    }
    if (size > 3 && rank > 0) {
      edges[all++] = rank == 1 ? size - 1 : rank - 1;
      edges[all++] = rank == size - 1 ? 1 : rank + 1;
    }
    index[rank] = all;
  }
  MPI_Comm made;
  int rank = 0, count = 0;
  MPI_Graph_create(comm, size, index, edges, 0, &made);
  MPI_Comm_rank(made, &rank);
  MPI_Graph_neighbors_count(made, rank, &count);
  sweep_topology(made, "graph", count, count);
  free(index);
  free(edges);
}

/* Whether an edge leads from one rank to another: some lead to the rank itself, and the last of
 * three ranks and more has none. */
static int has_edge(int from, int to, int size) {
  if (size > 2 && (from == size - 1 || to == size - 1)) return 0;
  return (from * 2 + to * 3) % 4 != 1;
}
static void make_dist_graph(MPI_Comm comm, MPI_Comm* made, int* sources, int* destinations) {
  int rank = 0, size = 0, in = 0, out = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  int *const from = memory((size_t)size * sizeof(int)), *const to =
                                                            memory((size_t)size * sizeof(int));
  for (int i = 0; i < size; ++i) {
    const int peer = (i + rank) % size;
    if (has_edge(peer, rank, size)) from[in++] = peer;
    if (has_edge(rank, peer, size)) to[out++] = peer;
  }
  int* const weights = memory((size_t)size * sizeof(int));
  MPI_Dist_graph_create_adjacent(comm, in, from, weights, out, to, weights, MPI_INFO_NULL, 0, made);
  *sources = in;
  *destinations = out;
  free(from);
  free(to);
  free(weights);
}

/* In a ring of one rank both neighbours are the rank itself. */
static void sweep_copies(MPI_Comm comm) {
  const int periods[] = {1, 1};
  int sizes[] = {0, 1}, rank = 0, all[4] = {0};
  MPI_Comm ring;
  MPI_Comm_size(comm, &sizes[0]);
  MPI_Cart_create(comm, 2, sizes, periods, 0, &ring);
  MPI_Comm_rank(ring, &rank);
  MPI_Neighbor_allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, ring);
  for (int i = 2; i < 4; ++i)
    if (all[i] != rank) wrong("MPI_Neighbor_allgather", "several edges", i, all[i], rank);
  MPI_Comm_free(&ring);
}

/* The first neighbour call of a communicator is prepared behind calls of which each rank has ended
 * another number. */
static void prepared_behind_others(MPI_Comm comm, int size) {
  enum { CALLS = 150, ENDED = 20 };
  long mine[CALLS], all[CALLS];
  MPI_Request requests[CALLS], prepared;
  MPI_Comm line;
  const int periodic = 0;
  int rank = 0, around[2] = {UNTOUCHED, UNTOUCHED};
  MPI_Cart_create(comm, 1, &size, &periodic, 0, &line);
  MPI_Comm_rank(line, &rank);
  MPI_Barrier(line);
  for (int i = 0; i < CALLS; ++i) {
    mine[i] = rank + i;
    MPI_Iallreduce(&mine[i], &all[i], 1, MPI_LONG, MPI_SUM, line, &requests[i]);
  }
  if (rank == 0) MPI_Waitall(ENDED, requests, MPI_STATUSES_IGNORE);
  PREPARED(Neighbor_allgather)
  (&rank, 1, MPI_INT, around, 1, MPI_INT, line, MPI_INFO_NULL, &prepared);
  MPI_Waitall(CALLS, requests, MPI_STATUSES_IGNORE);
  MPI_Start(&prepared);
  MPI_Wait(&prepared, MPI_STATUS_IGNORE);
  MPI_Request_free(&prepared);
  for (int i = 0; i < CALLS; ++i) {
    const long sum = (long)size * i + (long)size * (size - 1) / 2;
    if (all[i] != sum) wrong("MPI_Iallreduce", "before neighbours", i, all[i], sum);
  }
  if (around[0] != (rank == 0 ? UNTOUCHED : rank - 1))
    wrong("MPI_Neighbor_allgather_init", "behind others", rank, around[0], rank - 1);
  MPI_Comm_free(&line);
}

void sweep_neighbors(MPI_Comm comm) {
  int size = 0, sources = 0, destinations = 0;
  MPI_Comm_size(comm, &size);
  int sizes[3] = {size, 1, 1}, periods[3] = {1, 1, 0};
  sweep_cart(comm, "ring", 1, sizes, periods);
  periods[0] = 0;
  sweep_cart(comm, "line", 1, sizes, periods);
  sweep_cart(comm, "line of rings", 2, sizes, periods);
  memset(sizes, 0, sizeof sizes);
  MPI_Dims_create(size, 2, sizes);
  periods[0] = 1;
  periods[1] = 0;
  sweep_cart(comm, "tube", 2, sizes, periods);
  periods[1] = 1;
  sweep_cart(comm, "torus", 2, sizes, periods);
  if (size > 1) sweep_graph(comm, size);
  if (size > 1) prepared_behind_others(comm, size);
  sweep_copies(comm);
  MPI_Comm made;
  make_dist_graph(comm, &made, &sources, &destinations);
  sweep_topology(made, "distributed graph", sources, destinations);
}

void many_topologies(void) {
  enum { ROUNDS = 1000, MEASURED = 400, BEHIND = 700, ALLOWED = 24 << 10 };
  size_t before = 0, halfway = 0;
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int round = 0; round < ROUNDS; ++round) {
    const int periodic = 0;
    const int to[2] = {rank * 10, rank * 10 + 1};
    int from[2] = {UNTOUCHED, UNTOUCHED};
    MPI_Comm line;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &line);
    MPI_Neighbor_alltoall(to, 1, MPI_INT, from, 1, MPI_INT, line);
    if (from[0] != (rank == 0 ? UNTOUCHED : (rank - 1) * 10 + 1))
      wrong("MPI_Neighbor_alltoall", "many topologies", round, from[0], rank);
    MPI_Comm_free(&line);
    if (round == MEASURED) before = mallinfo2().uordblks;
    if (round == BEHIND) halfway = mallinfo2().uordblks;
  }
  const size_t now = mallinfo2().uordblks;
  if (halfway > before + ALLOWED && now > halfway + ALLOWED)
    wrong("memory", "topologies", ROUNDS, (long)now, (long)before);
}
