/* Rank 0 waits in some function of the MPI between the start of a collective and its end, where the
 * others wait first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "called.h"
#include "sweep.h"

enum { BYTES = 1 << 18 };
enum {
  RECV,
  PROBE,
  MPROBE,
  SSEND,
  SENDRECV,
  SENDRECV_REPLACE,
  WAIT,
  WAITALL,
  WAITANY,
  WAITSOME,
  TESTS,
  IPROBE,
  IMPROBE,
  WIN_TEST,
  PARRIVED,
  COMM_DUP,
  COMM_SPLIT,
  FENCE,
  LOCK,
  ALLTOALLW,
  NEIGHBORS,
  FROM_GROUP,
  NEW_COMM,
  NEW_PERSISTENT,
  OF_THE_MPI,
  WAYS
};

/* Rank 0 and the others: its collectives stay with the MPI. */
static MPI_Comm g_between;
static MPI_Comm g_ring;
/* Without a collective yet. */
static MPI_Comm g_fresh[2];
/* Rank 0's, and rank 1's. */
static MPI_Win g_window;

static void send_int(int to, int value) { MPI_Send(&value, 1, MPI_INT, to, 9, MPI_COMM_WORLD); }
static void receive_int(int from, int expected) {
  int got = -1;
  MPI_Recv(&got, 1, MPI_INT, from, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (got != expected) wrong("MPI_Recv", "between start and end", from, got, expected);
}

/* Calls of more arguments than travel in registers, which stay with the MPI. */
static void blocks(int way) {
  enum { MOST = 64 };
  int size = 0, rank = 0, counts[MOST], places[MOST], in[MOST], out[MOST];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Datatype types[MOST];
  for (int i = 0; i < size; ++i) {
    counts[i] = 1;
    places[i] = i * (int)sizeof(int);
    types[i] = MPI_INT;
    in[i] = rank * MOST + i;
  }
  if (way == ALLTOALLW) {
    MPI_Alltoallw(in, counts, places, types, out, counts, places, types, MPI_COMM_WORLD);
    for (int i = 0; i < size; ++i)
      if (out[i] != i * MOST + rank) wrong("MPI_Alltoallw", "waits", i, out[i], i * MOST + rank);
    return;
  }
  MPI_Neighbor_alltoall(in, 1, MPI_INT, out, 1, MPI_INT, g_ring);
  const int below = (rank + size - 1) % size, above = (rank + 1) % size;
  if (out[0] != below * MOST + 1) wrong("MPI_Neighbor_alltoall", "below", 0, out[0], below);
  if (out[1] != above * MOST) wrong("MPI_Neighbor_alltoall", "above", 1, out[1], above);
}

/* What is collective. */
static void together(int way) {
  MPI_Comm comm;
  MPI_Win window;
  MPI_Request request;
  MPI_Group group;
  (void)group;
  int cell = 0, *cells = NULL;
  switch (way) {
    case COMM_DUP:
      MPI_Comm_dup(MPI_COMM_WORLD, &comm);
      MPI_Comm_free(&comm);
      break;
    case COMM_SPLIT:
      MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &comm);
      MPI_Comm_free(&comm);
      break;
    case FENCE:
      MPI_Win_create(&cell, sizeof cell, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
      MPI_Win_fence(0, window);
      MPI_Win_fence(0, window);
      MPI_Win_free(&window);
      break;
    case LOCK:
      MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &window);
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
      MPI_Win_unlock(0, window);
      MPI_Win_free(&window);
      break;
    case ALLTOALLW:
    case NEIGHBORS:
      blocks(way);
      break;
    case FROM_GROUP:
#if MPI_VERSION >= 4
      MPI_Comm_group(MPI_COMM_WORLD, &group);
      MPI_Comm_create_from_group(group, "sweep", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
      MPI_Group_free(&group);
      MPI_Comm_free(&comm);
#endif
      break;
    case NEW_COMM:
      MPI_Barrier(g_fresh[0]);
      break;
    case NEW_PERSISTENT:
      PREPARED(Barrier)(g_fresh[1], MPI_INFO_NULL, &request);
      MPI_Request_free(&request);
      break;
    case OF_THE_MPI:
      MPI_Barrier(g_between);
      break;
    default:
      break;
  }
}

/* The group of one rank of MPI_COMM_WORLD. */
static MPI_Group only(int rank) {
  MPI_Group world, one;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &rank, &one);
  MPI_Group_free(&world);
  return one;
}

/* Until rank 1's part has come. */
static void ask(int way) {
  MPI_Status status;
  MPI_Message message;
  int flag = 0, got = -1;
  if (way == IPROBE) {
    while (!flag) MPI_Iprobe(1, 9, MPI_COMM_WORLD, &flag, &status);
    receive_int(1, way);
  } else if (way == IMPROBE) {
    while (!flag) MPI_Improbe(1, 9, MPI_COMM_WORLD, &flag, &message, &status);
    MPI_Mrecv(&got, 1, MPI_INT, &message, &status);
    if (got != way) wrong("MPI_Mrecv", "rank 0", way, got, way);
  } else if (way == WIN_TEST) {
    MPI_Group origin = only(1);
    MPI_Win_post(origin, 0, g_window);
    while (!flag) MPI_Win_test(g_window, &flag);
    MPI_Group_free(&origin);
#if MPI_VERSION >= 4
  } else if (way == PARRIVED) {
    MPI_Request request;
    MPI_Precv_init(&got, 1, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    while (!flag) MPI_Parrived(request, 0, &flag);
    MPI_Wait(&request, &status);
    MPI_Request_free(&request);
    if (got != way) wrong("MPI_Parrived", "rank 0", way, got, way);
#endif
  }
}

/* Rank 1's part. */
static void answer(int way) {
  if (way == IPROBE || way == IMPROBE) send_int(0, way);
  if (way == WIN_TEST) {
    MPI_Group target = only(0);
    MPI_Win_start(target, 0, g_window);
    MPI_Win_complete(g_window);
    MPI_Group_free(&target);
  }
#if MPI_VERSION >= 4
  if (way == PARRIVED) {
    MPI_Request request;
    MPI_Psend_init(&way, 1, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Pready(0, request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
  }
#endif
}

/* Rank 0, whom rank 1 sends to, or receives from, when its own wait is over. */
static void first(int way) {
  MPI_Status status;
  MPI_Message message;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int got = -1, index = 0, count = 0, flag = 0, indices[2];
  if (way >= WAIT && way <= TESTS) MPI_Irecv(&got, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, &requests[1]);
  switch (way) {
    case RECV:
      receive_int(1, way);
      break;
    case PROBE:
      MPI_Probe(1, 9, MPI_COMM_WORLD, &status);
      receive_int(1, way);
      break;
    case MPROBE:
      MPI_Mprobe(1, 9, MPI_COMM_WORLD, &message, &status);
      MPI_Mrecv(&got, 1, MPI_INT, &message, &status);
      break;
    case SSEND:
      MPI_Ssend(&way, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
      break;
    case SENDRECV:
      MPI_Sendrecv(&way, 1, MPI_INT, 1, 9, &got, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, &status);
      break;
    case SENDRECV_REPLACE:
      got = way;
      MPI_Sendrecv_replace(&got, 1, MPI_INT, 1, 9, 1, 9, MPI_COMM_WORLD, &status);
      break;
    case WAIT:
      MPI_Wait(&requests[1], &status);
      break;
    case WAITALL:
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      break;
    case WAITANY:
      MPI_Waitany(2, requests, &index, &status);
      break;
    case WAITSOME:
      MPI_Waitsome(2, requests, &count, indices, MPI_STATUSES_IGNORE);
      break;
    case TESTS:
      while (!flag) MPI_Test(&requests[1], &flag, &status);
      break;
    default:
      return ask(way);
  }
  if (way > PROBE && way != SSEND && got != way) wrong("rank 0", "got", way, got, way);
}

static void second(int way) {
  int got = -1;
  MPI_Status status;
  switch (way) {
    case SSEND:
      receive_int(0, way);
      break;
    case SENDRECV:
    case SENDRECV_REPLACE:
      MPI_Sendrecv(&way, 1, MPI_INT, 0, 9, &got, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &status);
      if (got != way) wrong("MPI_Sendrecv", "rank 1", way, got, way);
      break;
    default:
      if (way >= IPROBE)
        answer(way);
      else
        send_int(0, way);
      break;
  }
}

void waits(void) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int each = BYTES / size;
  char *const in = memory(BYTES), *const out = memory(BYTES);
  MPI_Comm side;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &side);
  MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 3, &g_between);
  int cell = 0, around = 1;
  for (int i = 0; i < 2; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &g_fresh[i]);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &around, 0, &g_ring);
  MPI_Win_create(&cell, sizeof cell, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &g_window);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int way = 0; way < WAYS; ++way) {
    MPI_Request request;
    memset(in, rank + way, BYTES);
    memset(out, -1, BYTES);
    MPI_Ialltoall(in, each, MPI_BYTE, out, each, MPI_BYTE, MPI_COMM_WORLD, &request);
    if (rank == 0) {
      first(way);
      together(way);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      if (rank == 1 && way < COMM_DUP) second(way);
      together(way);
    }
    for (int i = 0; i < each * size; i += 97)
      if (out[i] != (char)(i / each + way)) wrong("MPI_Ialltoall", "waits", i, out[i], i / each);
  }
  for (int i = 0; i < 2; ++i) MPI_Comm_free(&g_fresh[i]);
  MPI_Comm_free(&g_ring);
  MPI_Win_free(&g_window);
  MPI_Comm_free(&g_between);
  MPI_Comm_free(&side);
  free(in);
  free(out);
}

#ifdef NO_MPI_IO
void files(void) { wrong("MPI_File_open", "the MPI has none", 0, 1, 0); }
#else
/* Nonblocking collectives over a file, which the MPI's own library goes on with in each test. */
void files(void) {
  enum { ROUNDS = 5, EACH = 4096 };
  char name[] = "/tmp/sweepXXXXXX";
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0) close(mkstemp(name));
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "romio_cb_write", "enable");
  MPI_File file;
  if (MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &file) !=
      MPI_SUCCESS)
    wrong("MPI_File_open", name, 0, 1, 0);
  MPI_Info_free(&info);
  const MPI_Offset next = (MPI_Offset)((rank + 1) % size) * EACH;
  char *const mine = memory(EACH), *const theirs = memory(EACH);
  for (int round = 0; round < ROUNDS; ++round) {
    MPI_Request requests[2];
    const int count = round % 2 == 0 ? 1 : 2;
    memset(mine, rank + round, EACH);
    MPI_File_iwrite_at_all(file, (MPI_Offset)rank * EACH, mine, EACH, MPI_BYTE, &requests[0]);
    /* One rank comes later, and in some rounds to a call of its own, too. */
    if (round % size == rank) usleep(20000);
    if (count == 2) MPI_Ibarrier(MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at(file, next, theirs, EACH, MPI_BYTE, MPI_STATUS_IGNORE);
    if (theirs[EACH - 1] != (char)((rank + 1) % size + round))
      wrong("MPI_File_iwrite_at_all", "round", round, theirs[EACH - 1], (rank + 1) % size + round);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_File_close(&file);
  free(mine);
  free(theirs);
}
#endif
