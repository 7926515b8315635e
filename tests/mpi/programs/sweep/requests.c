/* Nonblocking and persistent collectives among other things that go on. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "called.h"
#include "sweep.h"

enum { COMMS = 3, EACH = 40, ALL = COMMS * EACH, MESSAGES = 10, VALUES = 50 };

typedef struct Flight {
  MPI_Request requests[ALL + 2 * MESSAGES];
  long in[ALL][VALUES], out[ALL][VALUES];
  int sent[MESSAGES], received[MESSAGES];
  int done[ALL + 2 * MESSAGES];
  int rank, size;
} Flight;

static long share(int rank, int call, int i) { return rank * 7 + call * 3 + i; }
static long sum(int size, int call, int i) {
  return (long)size * (size - 1) / 2 * 7 + (long)size * (call * 3 + i);
}

/* Calls of the communicators in turns, messages around the ring among them. */
static void take_off(Flight* flight, const MPI_Comm* comms) {
  const int next = (flight->rank + 1) % flight->size,
            previous = (flight->rank + flight->size - 1) % flight->size;
  memset(flight->out, 0, sizeof flight->out);
  memset(flight->done, 0, sizeof flight->done);
  for (int i = 0; i < MESSAGES; ++i) {
    flight->sent[i] = flight->rank * 1000 + i;
    MPI_Irecv(&flight->received[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD,
              &flight->requests[ALL + i]);
  }
  for (int call = 0; call < ALL; ++call) {
    MPI_Comm comm = comms[call % COMMS];
    MPI_Request* const request = &flight->requests[call];
    for (int i = 0; i < VALUES; ++i) flight->in[call][i] = share(flight->rank, call, i);
    switch (call / COMMS % 4) {
      case 0:
        MPI_Iallreduce(flight->in[call], flight->out[call], VALUES, MPI_LONG, MPI_SUM, comm,
                       request);
        break;
      case 1: /* the root's own value */
        if (flight->rank == call % flight->size)
          memcpy(flight->out[call], flight->in[call], sizeof flight->in[call]);
        MPI_Ibcast(flight->out[call], VALUES, MPI_LONG, call % flight->size, comm, request);
        break;
      case 2:
        MPI_Ibarrier(comm, request);
        break;
      default:
        MPI_Iscan(flight->in[call], flight->out[call], VALUES, MPI_LONG, MPI_SUM, comm, request);
        break;
    }
    if (call % (ALL / MESSAGES) == 0) {
      const int message = call / (ALL / MESSAGES);
      MPI_Issend(&flight->sent[message], 1, MPI_INT, next, message, MPI_COMM_WORLD,
                 &flight->requests[ALL + MESSAGES + message]);
    }
  }
}

static void land(Flight* flight, int which, const char* by) {
  if (which < 0 || which >= ALL + 2 * MESSAGES || flight->done[which])
    wrong(by, "completed", which, 1, 0);
  flight->done[which] = 1;
  if (flight->requests[which] != MPI_REQUEST_NULL) wrong(by, "the request", which, 1, 0);
  if (which >= ALL + MESSAGES) return;
  if (which >= ALL) {
    const int previous = (flight->rank + flight->size - 1) % flight->size;
    if (flight->received[which - ALL] != previous * 1000 + which - ALL)
      wrong(by, "message", which, flight->received[which - ALL], previous * 1000 + which - ALL);
    return;
  }
  for (int i = 0; i < VALUES; ++i) {
    long expected = 0;
    switch (which / COMMS % 4) {
      case 0:
        expected = sum(flight->size, which, i);
        break;
      case 1:
        expected = share(which % flight->size, which, i);
        break;
      case 2:
        break;
      default:
        expected = sum(flight->rank + 1, which, i);
        break;
    }
    if (flight->out[which][i] != expected)
      wrong(by, "in flight", which, flight->out[which][i], expected);
  }
}

static void complete_all(Flight* flight, int way) {
  enum { N = ALL + 2 * MESSAGES };
  MPI_Status statuses[N];
  int indices[N], flag = 0, index = 0, count = 0, left = N;
  switch (way) {
    case 0:
      MPI_Waitall(N, flight->requests, statuses);
      for (int i = 0; i < N; ++i) land(flight, i, "MPI_Waitall");
      return;
    case 1:
      for (; left > 0; --left) {
        MPI_Waitany(N, flight->requests, &index, MPI_STATUS_IGNORE);
        land(flight, index, "MPI_Waitany");
      }
      return;
    case 2:
      for (; left > 0; left -= count) {
        MPI_Waitsome(N, flight->requests, &count, indices, statuses);
        for (int i = 0; i < count; ++i) land(flight, indices[i], "MPI_Waitsome");
      }
      return;
    case 3:
      for (; left > 0; left -= count) {
        MPI_Testsome(N, flight->requests, &count, indices, MPI_STATUSES_IGNORE);
        for (int i = 0; i < count; ++i) land(flight, indices[i], "MPI_Testsome");
      }
      return;
    case 4: /* the newest first */
      for (int i = N - 1; i >= 0; --i) {
        MPI_Wait(&flight->requests[i], MPI_STATUS_IGNORE);
        land(flight, i, "MPI_Wait");
      }
      return;
    case 5:
      while (left > 0) {
        MPI_Testany(N, flight->requests, &index, &flag, MPI_STATUS_IGNORE);
        if (flag) land(flight, index, "MPI_Testany");
        left -= flag;
      }
      return;
    default:
      while (!flag) MPI_Testall(N, flight->requests, &flag, statuses);
      for (int i = 0; i < N; ++i) land(flight, i, "MPI_Testall");
      return;
  }
}

/* Ranks wait for the communicators in opposite orders, or for a blocking call first, with more
 * calls on each than the engine has at a time. */
static void wait_crosswise(Flight* flight, const MPI_Comm* comms, int way) {
  const int odd = flight->rank % 2;
  take_off(flight, comms);
  if (way == 1 && !odd) MPI_Barrier(comms[1]);
  for (int i = 0; i < COMMS; ++i) {
    for (int call = odd ? COMMS - 1 - i : i; call < ALL; call += COMMS) {
      MPI_Wait(&flight->requests[call], MPI_STATUS_IGNORE);
      land(flight, call, "crosswise");
    }
    if (way == 1 && odd && i == 0) MPI_Barrier(comms[1]);
  }
  MPI_Waitall(2 * MESSAGES, &flight->requests[ALL], MPI_STATUSES_IGNORE);
}

/* Persistent collectives and messages, started together, in another order on each rank. */
static void persistent(MPI_Comm comm, int rank, int size) {
  enum { CALLS = 4, ROUNDS = 5, N = CALLS + 2 };
  long in[CALLS], out[CALLS];
  int sent = 0, received = -1;
  MPI_Request requests[N], shuffled[N];
  for (int i = 0; i < CALLS; ++i)
    PREPARED(Allreduce)(&in[i], &out[i], 1, MPI_LONG, MPI_SUM, comm, MPI_INFO_NULL, &requests[i]);
  MPI_Send_init(&sent, 1, MPI_INT, (rank + 1) % size, 5, comm, &requests[CALLS]);
  MPI_Recv_init(&received, 1, MPI_INT, (rank + size - 1) % size, 5, comm, &requests[CALLS + 1]);
  /* What was not started is complete. */
  MPI_Waitall(N, requests, MPI_STATUSES_IGNORE);
  for (int round = 0; round < ROUNDS; ++round) {
    for (int i = 0; i < CALLS; ++i) in[i] = share(rank, i, round);
    sent = rank + round;
    for (int i = 0; i < N; ++i) shuffled[i] = requests[(i + rank + round) % N];
    MPI_Startall(N, shuffled);
    MPI_Cancel(&requests[0]); /* without effect */
    /* A call of another form between its start and its end. */
    long mine = rank, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, comm);
    MPI_Waitall(N, shuffled, MPI_STATUSES_IGNORE);
    for (int i = 0; i < CALLS; ++i)
      if (out[i] != sum(size, i, round))
        wrong("MPI_Startall", "persistent", i, out[i], sum(size, i, round));
    if (received != (rank + size - 1) % size + round)
      wrong("MPI_Startall", "message", round, received, (rank + size - 1) % size + round);
    if (all != (long)size * (size - 1) / 2) wrong("MPI_Allreduce", "between", round, all, 0);
  }
  for (int i = 0; i < N; ++i) MPI_Request_free(&requests[i]);
}

static int g_copied;
static int count_copy(MPI_Datatype type, int key, void* extra, void* in, void* out, int* flag) {
  (void)type;
  (void)key;
  (void)extra;
  (void)in;
  (void)out;
  *flag = 0;
  ++g_copied;
  return MPI_SUCCESS;
}

/* The program frees what the call still needs. */
static void freed_meanwhile(int rank, int size) {
  MPI_Comm comm;
  MPI_Datatype every_other;
  MPI_Request request;
  int *const in = memory(8 * sizeof(int)), *const out = memory((size_t)size * 8 * sizeof(int));
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Barrier(comm);
  MPI_Type_vector(4, 1, 2, MPI_INT, &every_other);
  MPI_Type_commit(&every_other);
  for (int i = 0; i < 8; ++i) in[i] = rank * 10 + i;
  MPI_Iallgather(in, 1, every_other, out, 4, MPI_INT, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < size * 4; ++i)
    if (out[i] != i / 4 * 10 + i % 4 * 2) wrong("MPI_Iallgather", "types", i, out[i], i / 4 * 10);
  memset(out, 0, (size_t)size * 8 * sizeof(int));
  MPI_Datatype resized;
  MPI_Type_create_resized(every_other, 0, 8 * sizeof(int), &resized);
  MPI_Type_commit(&resized);
  int key = MPI_KEYVAL_INVALID;
  MPI_Type_create_keyval(count_copy, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
  MPI_Type_set_attr(resized, key, &key);
  MPI_Iallgather(in, 4, MPI_INT, out, 1, resized, comm, &request);
  MPI_Type_free(&resized);
  MPI_Type_free(&every_other);
  MPI_Comm_free(&comm);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Type_free_keyval(&key);
  if (g_copied != 0) wrong("MPI_Iallgather", "attributes copied", 0, g_copied, 0);
  for (int i = 0; i < size * 8; ++i) {
    const int expected = i % 2 == 0 ? i / 8 * 10 + i % 8 / 2 : 0;
    if (out[i] != expected) wrong("MPI_Iallgather", "freed", i, out[i], expected);
  }
  free(in);
  free(out);
}

/* Ranks free requests at other times: what tells their groups apart stays the same on all. */
static void freed_apart(int rank) {
  MPI_Request early, other, late;
  PREPARED(Barrier)(MPI_COMM_WORLD, MPI_INFO_NULL, &early);
  if (rank == 0) MPI_Request_free(&early);
  PREPARED(Barrier)(MPI_COMM_WORLD, MPI_INFO_NULL, &other);
  if (rank != 0) MPI_Request_free(&early);
  PREPARED(Barrier)(MPI_COMM_WORLD, MPI_INFO_NULL, &late);
  MPI_Start(&late);
  MPI_Start(&other);
  MPI_Wait(&late, MPI_STATUS_IGNORE);
  MPI_Wait(&other, MPI_STATUS_IGNORE);
  MPI_Request_free(&other);
  MPI_Request_free(&late);
}

/* What is freed or forgotten when it was started goes on, and ends before MPI_Finalize does. */
static void left_alone(int rank, int size) {
  static long in[3], out[3];
  MPI_Request request;
  for (int i = 0; i < 3; ++i) {
    in[i] = share(rank, i, 0);
    PREPARED(Allreduce)
    (&in[i], &out[i], 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Request_free(&request);
  }
  long all = rank;
  MPI_Iallreduce(MPI_IN_PLACE, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (all != (long)size * (size - 1) / 2) wrong("MPI_Iallreduce", "behind", 0, all, 0);
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  /* And what is prepared, or was made, is never freed. */
  PREPARED(Allreduce)
  (&in[0], &out[0], 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  PREPARED(Barrier)(MPI_COMM_WORLD, MPI_INFO_NULL, &request);
}

void requests(void) {
  Flight* const flight = memory(sizeof *flight);
  MPI_Comm comms[COMMS];
  MPI_Comm_rank(MPI_COMM_WORLD, &flight->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &flight->size);
  comms[0] = MPI_COMM_WORLD;
  for (int i = 1; i < COMMS; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  /* Some before a blocking collective of their communicator. */
  take_off(flight, comms);
  complete_all(flight, 0);
  for (int i = 0; i < COMMS; ++i) MPI_Barrier(comms[i]);
  for (int way = 0; way < 7; ++way) {
    take_off(flight, comms);
    complete_all(flight, way);
  }
  for (int way = 0; way < 2; ++way) wait_crosswise(flight, comms, way);
  for (int i = 0; i < COMMS; ++i) persistent(comms[i], flight->rank, flight->size);
  freed_meanwhile(flight->rank, flight->size);
  for (int round = 0; round < 3; ++round) freed_apart(flight->rank);
  left_alone(flight->rank, flight->size);
  for (int i = 1; i < COMMS; ++i) MPI_Comm_free(&comms[i]);
  free(flight);
}

void many_requests(void) {
  enum { MANY = 3000, ROUNDS = 12, MEASURED = 3, BEHIND = 7, ALLOWED = 64 << 10 };
  int rank = 0, size = 0;
  size_t before = 0, halfway = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Request* const all = memory(MANY * sizeof(MPI_Request));
  int* const out = memory(MANY * sizeof(int));
  MPI_Barrier(MPI_COMM_WORLD);
  for (int round = 0; round < ROUNDS; ++round) {
    for (int i = 0; i < MANY; ++i)
      MPI_Iallreduce(&rank, &out[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &all[i]);
    MPI_Waitall(MANY, all, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; ++i)
      if (out[i] != size * (size - 1) / 2) wrong("MPI_Iallreduce", "many", i, out[i], 0);
    /* Persistent ones, made and freed. */
    for (int i = 0; i < 20; ++i) {
      MPI_Request request;
      out[0] = 0;
      PREPARED(Allreduce)(&rank, out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
      MPI_Start(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      MPI_Request_free(&request);
      if (out[0] != size * (size - 1) / 2) wrong("MPI_Allreduce_init", "many", i, out[0], 0);
    }
    if (round == MEASURED) before = mallinfo2().uordblks;
    if (round == BEHIND) halfway = mallinfo2().uordblks;
  }
  const size_t now = mallinfo2().uordblks;
  if (halfway > before + ALLOWED && now > halfway + ALLOWED)
    wrong("memory", "requests", ROUNDS, (long)now, (long)before);
  free(all);
  free(out);
}

void ended_requests(void) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char mine[8] = {0};
  char* const all = memory((size_t)size * sizeof mine);
  MPI_Comm comm;
  MPI_Request requests[3];
  MPI_Status statuses[3];
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Barrier(comm);
  /* All are out of it: a rank that is still inside would get the error there. */
  for (int peer = 0; peer < size; ++peer) MPI_Send(&peer, 1, MPI_INT, peer, 0, MPI_COMM_WORLD);
  for (int peer = 0, number = 0; peer < size; ++peer)
    MPI_Recv(&number, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  /* The last rank has other lengths: the others get the error when they wait. */
  const int bytes = rank == size - 1 ? 4 : 8;
  MPI_Iallgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm, &requests[1]);
  MPI_Irecv(mine, 1, MPI_BYTE, MPI_PROC_NULL, 0, comm, &requests[0]);
  requests[2] = MPI_REQUEST_NULL;
  const int code = MPI_Waitall(3, requests, statuses);
  if (code != MPI_ERR_IN_STATUS) wrong("MPI_Waitall", "of a call that failed", 0, code, 0);
  int is = 0;
  MPI_Error_class(statuses[1].MPI_ERROR, &is);
  if (is != MPI_ERR_TRUNCATE) wrong("MPI_Waitall", "status", 1, is, MPI_ERR_TRUNCATE);
  if (statuses[0].MPI_ERROR != MPI_SUCCESS) wrong("MPI_Waitall", "status", 0, 1, 0);
  if (requests[1] != MPI_REQUEST_NULL) wrong("MPI_Waitall", "request", 0, 1, 0);
  free(all);
}

void endless_requests(void) {
  enum { N = 30 };
  static double in[1000], out[N][1000];
  MPI_Request requests[N];
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < N / 2; ++i) PREPARED(Allreduce)
  (in, out[i], 1000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
  for (int round = 0;; ++round) {
    int index = 0;
    MPI_Startall(N / 2, requests);
    for (int i = N / 2; i < N; ++i)
      MPI_Iallreduce(in, out[i], 1000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
    if (round % 2 == 0) MPI_Waitall(N, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; round % 2 != 0 && i < N; ++i)
      MPI_Waitany(N, requests, &index, MPI_STATUS_IGNORE);
  }
}

/* The first collective of a communicator is a nonblocking one. */
static void start_with(MPI_Comm comm, const char* what) {
  MPI_Request requests[2];
  int rank = 0, size = 0, sum = -1, from = -1;
  if (comm == MPI_COMM_NULL) return;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  if (rank == size - 1) from = 77;
  MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, &requests[0]);
  MPI_Ibcast(&from, 1, MPI_INT, size - 1, comm, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  if (sum != size * (size - 1) / 2 || from != 77) wrong("MPI_Iallreduce", what, from, sum, 0);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
  if (sum != size * (size - 1) / 2) wrong("MPI_Allreduce", what, 0, sum, 0);
}

static void exchange_first(MPI_Comm comm, int neighbours, const char* what) {
  MPI_Request request;
  int rank = 0, got[2] = {-1, -1};
  MPI_Comm_rank(comm, &rank);
  MPI_Ineighbor_allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < neighbours; ++i)
    if (got[i] < 0) wrong("MPI_Ineighbor_allgather", what, i, got[i], 0);
}

void first_requests(void) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int periodic = 1, next = (rank + 1) % size, previous = (rank + size - 1) % size;
  start_with(MPI_COMM_WORLD, "world");
  for (int round = 0; round < 3; ++round) {
    MPI_Comm of, made, other;
    MPI_Group all, but_one;
    /* Made of each other, used in another order than they are made, and used again. */
    MPI_Comm_dup(MPI_COMM_WORLD, &of);
    MPI_Comm_dup(of, &made);
    MPI_Comm_dup_with_info(of, MPI_INFO_NULL, &other);
    start_with(other, "a duplicate with info");
    start_with(made, "a duplicate's");
    start_with(of, "a duplicate");
    MPI_Comm_free(&other);
    MPI_Comm_free(&made);
    MPI_Comm_split(of, rank == 0 ? MPI_UNDEFINED : 1, -rank, &made);
    MPI_Comm_split(of, rank % 2, rank, &other);
    start_with(made, "a part");
    start_with(other, "parts");
    if (made != MPI_COMM_NULL) MPI_Comm_free(&made);
    MPI_Comm_free(&other);
    MPI_Comm_split_type(of, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made);
    start_with(made, "of one server");
    MPI_Comm_free(&made);
    MPI_Comm_group(of, &all);
    MPI_Group_excl(all, 1, &(int){0}, &but_one);
    MPI_Comm_create(of, but_one, &made);
    start_with(made, "without the first");
    if (rank != 0) MPI_Comm_create_group(of, but_one, 5, &other);
    if (rank != 0) start_with(other, "of a group");
    if (rank != 0) MPI_Comm_free(&other);
    if (made != MPI_COMM_NULL) MPI_Comm_free(&made);
    MPI_Group_free(&all);
    MPI_Group_free(&but_one);
    MPI_Comm half, inter;
    MPI_Comm_split(of, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, of, 1 - rank % 2, 7, &inter);
    MPI_Intercomm_merge(inter, rank % 2, &made);
    start_with(made, "merged");
    MPI_Comm_free(&made);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    MPI_Cart_create(of, 1, &size, &periodic, 0, &made);
    exchange_first(made, 2, "a ring");
    start_with(made, "a ring");
    MPI_Cart_sub(made, &periodic, &other);
    start_with(other, "a part of a ring");
    MPI_Comm_free(&other);
    MPI_Comm_free(&made);
    MPI_Dist_graph_create_adjacent(of, 1, &previous, &periodic, 1, &next, &periodic, MPI_INFO_NULL,
                                   0, &made);
    exchange_first(made, 1, "a graph");
    MPI_Comm_free(&made);
    MPI_Comm_free(&of);
  }
}
