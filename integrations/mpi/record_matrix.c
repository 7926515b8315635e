/* Records who sends how many bytes to whom in an MPI program, for ib_map: a library to preload,
 * compiled once against the mpi.h of each family of MPI libraries and linked to none of them, so
 * that it binds to the one the program has.
 *
 *   mpirun -n 64 -x LD_PRELOAD=/usr/local/lib/libibcoll_record_openmpi.so \
 *     -x IBCOLL_RECORD=halo.edges ./program
 *
 * MPI_Finalize writes an edge list, ranks of MPI_COMM_WORLD, bytes of payload:
 * - point-to-point, by the sender: MPI_[I][bsr]send, MPI_Sendrecv[_replace], and every start of a
 *   persistent send;
 * - collectives by their logical pairs, whatever algorithm carries them: alltoall and its relatives
 *   pair by pair; allgather(v): each rank's block to all others; bcast, scatter(v): root to the
 *   others; gather(v), reduce: the others to root; allreduce: each rank's vector to all others;
 *   reduce_scatter: each part to its owner; scan, exscan: to the next rank. Also nonblocking.
 * What a rank sends to itself, barriers, one-sided and intercommunicator traffic, and calls from
 * Fortran in Open MPI (which do not pass by here) are not counted. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t* g_row; /* bytes to each rank of the world */
static int g_size, g_rank;
static int g_keyval = MPI_KEYVAL_INVALID;

static int free_ranks(MPI_Comm comm, int keyval, void* value, void* extra) {
  (void)comm, (void)keyval, (void)extra;
  free(value);
  return MPI_SUCCESS;
}

static void begin(void) {
  PMPI_Comm_size(MPI_COMM_WORLD, &g_size);
  PMPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_ranks, &g_keyval, NULL);
  g_row = calloc((size_t)g_size, sizeof *g_row);
}

/* Ranks in the world of a communicator's ranks, kept with it; NULL: not counted. */
static const int* world_ranks(MPI_Comm comm) {
  int* ranks = NULL;
  int found = 0, inter = 0, size = 0;
  if (g_row == NULL || comm == MPI_COMM_NULL) return NULL;
  PMPI_Comm_get_attr(comm, g_keyval, &ranks, &found);
  if (found) return ranks;
  PMPI_Comm_test_inter(comm, &inter);
  PMPI_Comm_size(comm, &size);
  ranks = inter ? NULL : malloc(2 * (size_t)size * sizeof *ranks);
  if (ranks != NULL) {
    MPI_Group world, group;
    int* own = ranks + size;
    for (int i = 0; i < size; ++i) own[i] = i;
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Comm_group(comm, &group);
    PMPI_Group_translate_ranks(group, size, own, world, ranks);
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
    PMPI_Comm_set_attr(comm, g_keyval, ranks);
  }
  return ranks;
}

static uint64_t bytes_of(int count, MPI_Datatype type) {
  int size = 0;
  if (count <= 0 || type == MPI_DATATYPE_NULL) return 0;
  PMPI_Type_size(type, &size);
  return size > 0 ? (uint64_t)count * (uint64_t)size : 0;
}

static void add(MPI_Comm comm, int to, uint64_t bytes) {
  const int* ranks = to >= 0 && bytes > 0 ? world_ranks(comm) : NULL;
  int size = 0;
  if (ranks == NULL) return;
  PMPI_Comm_size(comm, &size);
  if (to >= size) return;
  const int target = ranks[to];
  /* MPI_UNDEFINED: a process that MPI_Comm_spawn has started, which is of another world. */
  if (target < 0 || target == g_rank) return;
  __atomic_fetch_add(&g_row[target], bytes, __ATOMIC_RELAXED);
}

static void add_all(MPI_Comm comm, uint64_t bytes) {
  int size = 0;
  if (comm == MPI_COMM_NULL) return;
  PMPI_Comm_size(comm, &size);
  for (int to = 0; to < size; ++to) add(comm, to, bytes);
}

static void add_each(MPI_Comm comm, const int* counts, MPI_Datatype type,
                     const MPI_Datatype* types) {
  int size = 0;
  if (comm == MPI_COMM_NULL) return;
  PMPI_Comm_size(comm, &size);
  for (int to = 0; to < size; ++to) add(comm, to, bytes_of(counts[to], types ? types[to] : type));
}

static int is_root(MPI_Comm comm, int root) {
  int rank = -1;
  if (comm != MPI_COMM_NULL) PMPI_Comm_rank(comm, &rank);
  return rank == root;
}

static void add_next(MPI_Comm comm, uint64_t bytes) {
  int rank = 0;
  if (comm == MPI_COMM_NULL) return;
  PMPI_Comm_rank(comm, &rank);
  add(comm, rank + 1, bytes);
}

/* ---- Start and end */

int MPI_Init(int* argc, char*** argv) {
  const int done = PMPI_Init(argc, argv);
  if (done == MPI_SUCCESS) begin();
  return done;
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int done = PMPI_Init_thread(argc, argv, required, provided);
  if (done == MPI_SUCCESS) begin();
  return done;
}

static void write_matrix(FILE* file) {
  uint64_t* row = malloc((size_t)g_size * sizeof *row);
  if (row == NULL) return;
  fprintf(file, "# tasks %d\n", g_size);
  for (int from = 0; from < g_size; ++from) {
    if (from == 0)
      memcpy(row, g_row, (size_t)g_size * sizeof *row);
    else
      PMPI_Recv(row, g_size, MPI_UINT64_T, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int to = 0; to < g_size; ++to)
      if (row[to] > 0) fprintf(file, "%d %d %llu\n", from, to, (unsigned long long)row[to]);
  }
  free(row);
}

int MPI_Finalize(void) {
  if (g_row != NULL) {
    const char* path = getenv("IBCOLL_RECORD");
    int usable = 1;
    FILE* file = NULL;
    if (path == NULL || path[0] == '\0') path = "matrix.edges";
    if (g_rank == 0) {
      file = fopen(path, "w");
      if (file == NULL) perror("ibcoll: can't write the communication matrix");
      usable = file != NULL;
    }
    PMPI_Bcast(&usable, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (usable && g_rank == 0)
      write_matrix(file);
    else if (usable)
      PMPI_Send(g_row, g_size, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD);
    if (file != NULL && fclose(file) != 0) perror("ibcoll: can't write the communication matrix");
    free(g_row);
    g_row = NULL;
    PMPI_Comm_free_keyval(&g_keyval);
  }
  return PMPI_Finalize();
}

/* ---- Point to point; the macros take a semicolon */

#define SEND(name)                                                                                 \
  int MPI_##name(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) { \
    add(comm, to, bytes_of(count, type));                                                          \
    return PMPI_##name(data, count, type, to, tag, comm);                                          \
  }                                                                                                \
  _Static_assert(1, "")

SEND(Send);
SEND(Bsend);
SEND(Ssend);
SEND(Rsend);

#define ISEND(name)                                                                              \
  int MPI_##name(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, \
                 MPI_Request* request) {                                                         \
    add(comm, to, bytes_of(count, type));                                                        \
    return PMPI_##name(data, count, type, to, tag, comm, request);                               \
  }                                                                                              \
  _Static_assert(1, "")
ISEND(Isend);
ISEND(Ibsend);
ISEND(Issend);
ISEND(Irsend);

int MPI_Sendrecv(const void* data, int count, MPI_Datatype type, int to, int tag, void* target,
                 int recv_count, MPI_Datatype recv_type, int from, int recv_tag, MPI_Comm comm,
                 MPI_Status* status) {
  add(comm, to, bytes_of(count, type));
  return PMPI_Sendrecv(data, count, type, to, tag, target, recv_count, recv_type, from, recv_tag,
                       comm, status);
}

int MPI_Sendrecv_replace(void* data, int count, MPI_Datatype type, int to, int tag, int from,
                         int recv_tag, MPI_Comm comm, MPI_Status* status) {
  add(comm, to, bytes_of(count, type));
  return PMPI_Sendrecv_replace(data, count, type, to, tag, from, recv_tag, comm, status);
}

/* Persistent sends, until they are freed. Programs have few. */
struct persistent {
  struct persistent* next;
  MPI_Request request;
  MPI_Comm comm;
  int to;
  uint64_t bytes;
};
static struct persistent* g_persistent;

static void remember(MPI_Request request, MPI_Comm comm, int to, uint64_t bytes) {
  struct persistent* entry = malloc(sizeof *entry);
  if (entry == NULL) return;
  *entry = (struct persistent){g_persistent, request, comm, to, bytes};
  g_persistent = entry;
}

static void count_start(MPI_Request request) {
  for (struct persistent* entry = g_persistent; entry != NULL; entry = entry->next)
    if (entry->request == request) add(entry->comm, entry->to, entry->bytes);
}

#define SEND_INIT(name)                                                                          \
  int MPI_##name(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, \
                 MPI_Request* request) {                                                         \
    const int done = PMPI_##name(data, count, type, to, tag, comm, request);                     \
    if (done == MPI_SUCCESS) remember(*request, comm, to, bytes_of(count, type));                \
    return done;                                                                                 \
  }                                                                                              \
  _Static_assert(1, "")

SEND_INIT(Send_init);
SEND_INIT(Bsend_init);
SEND_INIT(Ssend_init);
SEND_INIT(Rsend_init);

int MPI_Start(MPI_Request* request) {
  count_start(*request);
  return PMPI_Start(request);
}

int MPI_Startall(int count, MPI_Request requests[]) {
  for (int i = 0; i < count; ++i) count_start(requests[i]);
  return PMPI_Startall(count, requests);
}

int MPI_Request_free(MPI_Request* request) {
  for (struct persistent** at = &g_persistent; *at != NULL; at = &(*at)->next) {
    if ((*at)->request != *request) continue;
    struct persistent* gone = *at;
    *at = gone->next;
    free(gone);
    break;
  }
  return PMPI_Request_free(request);
}

/* ---- Collectives: each blocking and nonblocking. PAIRS is what this rank sends. */

#define BOTH(name, iname, pairs, parameters, ...) \
  int MPI_##name parameters {                     \
    pairs;                                        \
    return PMPI_##name(__VA_ARGS__);              \
  }                                               \
  BOTH_NONBLOCKING(iname, pairs, parameters, __VA_ARGS__)
#define OPEN(...) __VA_ARGS__
#define BOTH_NONBLOCKING(iname, pairs, parameters, ...)    \
  int MPI_##iname(OPEN parameters, MPI_Request* request) { \
    pairs;                                                 \
    return PMPI_##iname(__VA_ARGS__, request);             \
  }

/* In place, the send arguments mean nothing: the receive side says what is sent. */
#define BYTES(send, count, type, recv_count, recv_type) \
  ((send) == MPI_IN_PLACE ? bytes_of(recv_count, recv_type) : bytes_of(count, type))

BOTH(Bcast, Ibcast, if (is_root(comm, root)) add_all(comm, bytes_of(count, type)),
     (void* data, int count, MPI_Datatype type, int root, MPI_Comm comm), data, count, type, root,
     comm)
BOTH(Gather, Igather, if (!is_root(comm, root)) add(comm, root, bytes_of(count, type)),
     (const void* send, int count, MPI_Datatype type, void* recv, int recv_count,
      MPI_Datatype recv_type, int root, MPI_Comm comm),
     send, count, type, recv, recv_count, recv_type, root, comm)
BOTH(Gatherv, Igatherv, if (!is_root(comm, root)) add(comm, root, bytes_of(count, type)),
     (const void* send, int count, MPI_Datatype type, void* recv, const int recv_counts[],
      const int places[], MPI_Datatype recv_type, int root, MPI_Comm comm),
     send, count, type, recv, recv_counts, places, recv_type, root, comm)
BOTH(Scatter, Iscatter, if (is_root(comm, root)) add_all(comm, bytes_of(count, type)),
     (const void* send, int count, MPI_Datatype type, void* recv, int recv_count,
      MPI_Datatype recv_type, int root, MPI_Comm comm),
     send, count, type, recv, recv_count, recv_type, root, comm)
BOTH(Scatterv, Iscatterv, if (is_root(comm, root)) add_each(comm, counts, type, NULL),
     (const void* send, const int counts[], const int places[], MPI_Datatype type, void* recv,
      int recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm),
     send, counts, places, type, recv, recv_count, recv_type, root, comm)
BOTH(Allgather, Iallgather, add_all(comm, BYTES(send, count, type, recv_count, recv_type)),
     (const void* send, int count, MPI_Datatype type, void* recv, int recv_count,
      MPI_Datatype recv_type, MPI_Comm comm),
     send, count, type, recv, recv_count, recv_type, comm)

static uint64_t own_part(const void* send, int count, MPI_Datatype type, const int* recv_counts,
                         MPI_Datatype recv_type, MPI_Comm comm) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  return BYTES(send, count, type, recv_counts[rank], recv_type);
}
BOTH(Allgatherv, Iallgatherv,
     add_all(comm, own_part(send, count, type, recv_counts, recv_type, comm)),
     (const void* send, int count, MPI_Datatype type, void* recv, const int recv_counts[],
      const int places[], MPI_Datatype recv_type, MPI_Comm comm),
     send, count, type, recv, recv_counts, places, recv_type, comm)
BOTH(Alltoall, Ialltoall, add_all(comm, BYTES(send, count, type, recv_count, recv_type)),
     (const void* send, int count, MPI_Datatype type, void* recv, int recv_count,
      MPI_Datatype recv_type, MPI_Comm comm),
     send, count, type, recv, recv_count, recv_type, comm)
BOTH(Alltoallv, Ialltoallv,
     add_each(comm, send == MPI_IN_PLACE ? recv_counts : counts,
              send == MPI_IN_PLACE ? recv_type : type, NULL),
     (const void* send, const int counts[], const int places[], MPI_Datatype type, void* recv,
      const int recv_counts[], const int recv_places[], MPI_Datatype recv_type, MPI_Comm comm),
     send, counts, places, type, recv, recv_counts, recv_places, recv_type, comm)
BOTH(Alltoallw, Ialltoallw,
     add_each(comm, send == MPI_IN_PLACE ? recv_counts : counts, MPI_DATATYPE_NULL,
              send == MPI_IN_PLACE ? recv_types : types),
     (const void* send, const int counts[], const int places[], const MPI_Datatype types[],
      void* recv, const int recv_counts[], const int recv_places[], const MPI_Datatype recv_types[],
      MPI_Comm comm),
     send, counts, places, types, recv, recv_counts, recv_places, recv_types, comm)
BOTH(Reduce, Ireduce, if (!is_root(comm, root)) add(comm, root, bytes_of(count, type)),
     (const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, int root,
      MPI_Comm comm),
     send, recv, count, type, op, root, comm)
BOTH(Allreduce, Iallreduce, add_all(comm, bytes_of(count, type)),
     (const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), send,
     recv, count, type, op, comm)
BOTH(Reduce_scatter, Ireduce_scatter, add_each(comm, counts, type, NULL),
     (const void* send, void* recv, const int counts[], MPI_Datatype type, MPI_Op op,
      MPI_Comm comm),
     send, recv, counts, type, op, comm)
BOTH(Reduce_scatter_block, Ireduce_scatter_block, add_all(comm, bytes_of(count, type)),
     (const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), send,
     recv, count, type, op, comm)
BOTH(Scan, Iscan, add_next(comm, bytes_of(count, type)),
     (const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), send,
     recv, count, type, op, comm)
BOTH(Exscan, Iexscan, add_next(comm, bytes_of(count, type)),
     (const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), send,
     recv, count, type, op, comm)
