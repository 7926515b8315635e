/* The MPI contender of compare_mpi: serves orders with the collectives of MPI. One source for every
 * MPI. */
#include <mpi.h>

#include "contest.h"

/* Counts and places as MPI wants them; in doubles where they are combined. */
struct counts {
  int send[CONTEST_MAX_RANKS], send_at[CONTEST_MAX_RANKS];
  int receive[CONTEST_MAX_RANKS], receive_at[CONTEST_MAX_RANKS];
  int ones[CONTEST_MAX_RANKS];
  MPI_Datatype types[CONTEST_MAX_RANKS]; /* of the blocks of an alltoallw */
  MPI_Datatype runs;                     /* MPI_DATATYPE_NULL: there is none now */
  MPI_Comm graph;
  int block; /* of equal blocks */
};

/* Equal blocks, whose places are told in bytes. */
static void lay_out(const struct contest_rank* me) {
  struct counts* c = me->user;
  if (c->runs != MPI_DATATYPE_NULL) MPI_Type_free(&c->runs);
  if (me->blocks.run == 0) return;
  const int run = (int)me->blocks.run, count = (int)(me->block_bytes / (uint64_t)run);
  MPI_Type_vector(count, run, 2 * run, MPI_BYTE, &c->runs);
  MPI_Type_commit(&c->runs);
  for (int i = 0; i < me->contest->ranks; ++i) {
    c->ones[i] = 1;
    c->types[i] = c->runs;
  }
}

static void prepare(const struct contest_rank* me) {
  struct counts* c = me->user;
  lay_out(me);
  const int unit = contest_reduces((int)me->seat->collective) ? 8 : 1;
  for (int i = 0; i < me->blocks.sends; ++i) {
    c->send[i] = (int)(me->blocks.send_bytes[i] / unit);
    c->send_at[i] = (int)(me->blocks.send_at[i] / unit);
  }
  for (int i = 0; i < me->blocks.receives; ++i) {
    c->receive[i] = (int)(me->blocks.receive_bytes[i] / unit);
    c->receive_at[i] = (int)(me->blocks.receive_at[i] / unit);
  }
  c->block = (int)(me->block_bytes / (uint64_t)unit);
}

static int combine(const struct contest_rank* me, int collective) {
  const struct counts* c = me->user;
  void* const send = me->send;
  void* const receive = me->receive;
  switch (collective) {
    case CONTEST_REDUCE:
      return MPI_Reduce(send, receive, c->block, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    case CONTEST_ALLREDUCE:
      return MPI_Allreduce(send, receive, c->block, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    case CONTEST_REDUCE_SCATTER:
      return MPI_Reduce_scatter(send, receive, c->send, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    case CONTEST_REDUCE_SCATTER_BLOCK:
      return MPI_Reduce_scatter_block(send, receive, c->block, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    case CONTEST_SCAN:
      return MPI_Scan(send, receive, c->block, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    case CONTEST_EXSCAN:
      return MPI_Exscan(send, receive, c->block, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    default:
      return MPI_ERR_OTHER;
  }
}

static int call(const struct contest_rank* me, int collective) {
  const struct counts* c = me->user;
  const int n = c->block;
  void* const send = me->send;
  void* const receive = me->receive;
  const MPI_Comm world = MPI_COMM_WORLD;
  switch (collective) {
    case CONTEST_ALLTOALL:
      return MPI_Alltoall(send, n, MPI_BYTE, receive, n, MPI_BYTE, world);
    case CONTEST_ALLTOALLV:
      return MPI_Alltoallv(send, c->send, c->send_at, MPI_BYTE, receive, c->receive, c->receive_at,
                           MPI_BYTE, world);
    case CONTEST_ALLTOALLW:
      return MPI_Alltoallw(send, c->ones, c->send_at, c->types, receive, c->ones, c->receive_at,
                           c->types, world);
    case CONTEST_NEIGHBOR_ALLGATHER:
      return MPI_Neighbor_allgather(send, n, MPI_BYTE, receive, n, MPI_BYTE, c->graph);
    case CONTEST_NEIGHBOR_ALLTOALL:
      return MPI_Neighbor_alltoall(send, n, MPI_BYTE, receive, n, MPI_BYTE, c->graph);
    case CONTEST_ALLGATHER:
      return MPI_Allgather(send, n, MPI_BYTE, receive, n, MPI_BYTE, world);
    case CONTEST_ALLGATHERV:
      return MPI_Allgatherv(send, c->send[0], MPI_BYTE, receive, c->receive, c->receive_at,
                            MPI_BYTE, world);
    case CONTEST_GATHER:
      return MPI_Gather(send, n, MPI_BYTE, receive, n, MPI_BYTE, 0, world);
    case CONTEST_GATHERV:
      return MPI_Gatherv(send, c->send[0], MPI_BYTE, receive, c->receive, c->receive_at, MPI_BYTE,
                         0, world);
    case CONTEST_SCATTER:
      return MPI_Scatter(send, n, MPI_BYTE, receive, n, MPI_BYTE, 0, world);
    case CONTEST_SCATTERV:
      return MPI_Scatterv(send, c->send, c->send_at, MPI_BYTE, receive, c->receive[0], MPI_BYTE, 0,
                          world);
    case CONTEST_BCAST:
      return MPI_Bcast(receive, n, MPI_BYTE, 0, world);
    case CONTEST_BARRIER:
      return MPI_Barrier(world);
    default:
      return combine(me, collective);
  }
}

static int make_graph(const struct contest_rank* me) {
  struct counts* c = me->user;
  int sources[CONTEST_NEIGHBORS], destinations[CONTEST_NEIGHBORS];
  const int weights[CONTEST_NEIGHBORS] = {1, 1};
  for (int i = 0; i < CONTEST_NEIGHBORS; ++i) {
    sources[i] = contest_source(me->rank, i, me->contest->ranks);
    destinations[i] = contest_destination(me->rank, i, me->contest->ranks);
  }
  return MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, CONTEST_NEIGHBORS, sources, weights,
                                        CONTEST_NEIGHBORS, destinations, weights, MPI_INFO_NULL, 0,
                                        &c->graph);
}

/* The rank before MPI_Init, which must find the process bound already. */
static int rank_from_environment(void) {
  const char* text = getenv("OMPI_COMM_WORLD_RANK");
  if (text == NULL) text = getenv("PMI_RANK");
  return text != NULL ? atoi(text) : -1;
}

static unsigned char* pages(uint64_t bytes) {
  return aligned_alloc(4096, (bytes + 4095) / 4096 * 4096 + 4096);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s CONTEST SEAT (started by compare_mpi)\n", argv[0]);
    return 2;
  }
  struct counts counts = {0};
  struct contest_rank me = {
      .contest = contest_map(argv[1]), .call = call, .prepare = prepare, .user = &counts};
  const int early_rank = rank_from_environment(), seat = atoi(argv[2]);
  if (me.contest == NULL || seat < 0 || seat >= CONTEST_SEATS) return 2;
  me.seat = &me.contest->seat[seat];
  if (contest_bind(me.contest, early_rank) != 0) {
    contest_fail(me.seat, "can't bind the ranks");
    return 1;
  }
  int size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  me.send = pages(me.contest->send_room);
  me.receive = pages(me.contest->receive_room);
  if (size != me.contest->ranks || me.send == NULL || me.receive == NULL) {
    contest_fail(me.seat, size != me.contest->ranks ? "started with another number of ranks"
                                                    : "not enough memory for the buffers");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  counts.runs = MPI_DATATYPE_NULL;
  if (make_graph(&me) != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
  const int status = contest_serve(&me);
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return 0;
}
