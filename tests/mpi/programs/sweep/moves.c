/* Alltoall(v), Allgather(v), Gather(v), Scatter(v) and Bcast. A unit of data is four ints, which
 * lie in one of several ways; ranks differ in which, and so do what they send and what they
 * receive. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "called.h"
#include "sweep.h"

enum { INTS, CONTIGUOUS, GAPS, REVERSED, LAYOUTS };

typedef struct Layout {
  MPI_Datatype type;
  int count;  /* elements in a unit */
  int extent; /* ints in a unit, with gaps */
  int kind;
} Layout;

static Layout g_layouts[LAYOUTS];

static void make_layouts(void) {
  if (g_layouts[0].count != 0) return;
  MPI_Datatype parts;
  const int backwards[] = {3, 2, 1, 0};
  g_layouts[INTS] = (Layout){MPI_INT, 4, 4, INTS};
  g_layouts[CONTIGUOUS] = (Layout){MPI_DATATYPE_NULL, 1, 4, CONTIGUOUS};
  MPI_Type_contiguous(4, MPI_INT, &g_layouts[CONTIGUOUS].type);
  g_layouts[GAPS] = (Layout){MPI_DATATYPE_NULL, 1, 8, GAPS};
  MPI_Type_vector(4, 1, 2, MPI_INT, &parts);
  MPI_Type_create_resized(parts, 0, 8 * sizeof(int), &g_layouts[GAPS].type);
  MPI_Type_free(&parts);
  /* As long as its data, but in another order. */
  g_layouts[REVERSED] = (Layout){MPI_DATATYPE_NULL, 1, 4, REVERSED};
  MPI_Type_create_indexed_block(4, 1, backwards, MPI_INT, &g_layouts[REVERSED].type);
  for (int i = CONTIGUOUS; i < LAYOUTS; ++i) MPI_Type_commit(&g_layouts[i].type);
}

static int place(const Layout* layout, int unit, int j) {
  if (layout->kind == GAPS) return unit * 8 + 2 * j;
  return unit * 4 + (layout->kind == REVERSED ? 3 - j : j);
}

/* What `from` sends to `to`. */
static int value(int from, int to, int unit, int j) {
  return (((from * 31 + to) * 131 + unit) * 7 + j) * 2 + 1;
}
enum { UNTOUCHED = -77 };

typedef struct Buffer {
  const Layout* layout;
  int units;
  int* ints;
} Buffer;

static Buffer make(const Layout* layout, int units) {
  const size_t ints = (size_t)units * (size_t)layout->extent;
  Buffer made = {layout, units, memory((ints + 1) * sizeof(int))};
  for (size_t i = 0; i < ints; ++i) made.ints[i] = UNTOUCHED;
  return made;
}

static void fill(Buffer buffer, int first, int units, int from, int to) {
  for (int unit = 0; unit < units; ++unit)
    for (int j = 0; j < 4; ++j)
      buffer.ints[place(buffer.layout, first + unit, j)] = value(from, to, unit, j);
}

/* What is right becomes untouched, so that what is left shows what should not have been. */
static void check(Buffer buffer, int first, int units, int from, int to, const char* call,
                  const char* name) {
  for (int unit = 0; unit < units; ++unit) {
    for (int j = 0; j < 4; ++j) {
      int* at = &buffer.ints[place(buffer.layout, first + unit, j)];
      if (*at != value(from, to, unit, j)) wrong(call, name, unit, *at, value(from, to, unit, j));
      *at = UNTOUCHED;
    }
  }
}

static void check_rest(Buffer buffer, const char* call, const char* name) {
  const int ints = buffer.units * buffer.layout->extent;
  for (int i = 0; i < ints; ++i)
    if (buffer.ints[i] != UNTOUCHED) wrong(call, name, i, buffer.ints[i], UNTOUCHED);
  free(buffer.ints);
}

typedef struct Call {
  MPI_Comm comm;
  const char* name;
  int rank, size, units, in_place;
  const Layout *send, *recv;
} Call;

#define SEND_OF(call, buffer) ((call)->in_place ? MPI_IN_PLACE : (void*)(buffer).ints)

static void alltoall(const Call* call) {
  const int n = call->units, count = n * call->recv->count;
  Buffer send = make(call->send, n * call->size), recv = make(call->recv, n * call->size);
  for (int to = 0; to < call->size; ++to)
    fill(call->in_place ? recv : send, to * n, n, call->rank, to);
  CALLED(Alltoall, Ialltoall, SEND_OF(call, send), n * call->send->count, call->send->type,
         recv.ints, count, call->recv->type, call->comm);
  for (int from = 0; from < call->size; ++from)
    check(recv, from * n, n, from, call->rank, "MPI_Alltoall", call->name);
  check_rest(recv, "MPI_Alltoall", call->name);
  free(send.ints);
}

static void allgather(const Call* call) {
  const int n = call->units;
  Buffer send = make(call->send, n), recv = make(call->recv, n * call->size);
  if (call->in_place)
    fill(recv, call->rank * n, n, call->rank, 0);
  else
    fill(send, 0, n, call->rank, 0);
  CALLED(Allgather, Iallgather, SEND_OF(call, send), n * call->send->count, call->send->type,
         recv.ints, n * call->recv->count, call->recv->type, call->comm);
  for (int from = 0; from < call->size; ++from)
    check(recv, from * n, n, from, 0, "MPI_Allgather", call->name);
  check_rest(recv, "MPI_Allgather", call->name);
  free(send.ints);
}

static void gather(const Call* call, int root) {
  const int n = call->units, is_root = call->rank == root, in_place = call->in_place && is_root;
  Buffer send = make(call->send, n), recv = make(call->recv, is_root ? n * call->size : 0);
  if (in_place)
    fill(recv, root * n, n, root, 0);
  else
    fill(send, 0, n, call->rank, 0);
  CALLED(Gather, Igather, in_place ? MPI_IN_PLACE : (void*)send.ints, n * call->send->count,
         call->send->type, is_root ? recv.ints : NULL, is_root ? n * call->recv->count : -5,
         is_root ? call->recv->type : MPI_DATATYPE_NULL, root, call->comm);
  for (int from = 0; is_root && from < call->size; ++from)
    check(recv, from * n, n, from, 0, "MPI_Gather", call->name);
  check_rest(recv, "MPI_Gather", call->name);
  free(send.ints);
}

static void scatter(const Call* call, int root) {
  const int n = call->units, is_root = call->rank == root, in_place = call->in_place && is_root;
  Buffer send = make(call->send, is_root ? n * call->size : 0), recv = make(call->recv, n);
  for (int to = 0; is_root && to < call->size; ++to) fill(send, to * n, n, root, to);
  CALLED(Scatter, Iscatter, is_root ? send.ints : NULL, is_root ? n * call->send->count : -5,
         is_root ? call->send->type : MPI_DATATYPE_NULL, in_place ? MPI_IN_PLACE : (void*)recv.ints,
         n * call->recv->count, call->recv->type, root, call->comm);
  if (!in_place) check(recv, 0, n, root, call->rank, "MPI_Scatter", call->name);
  check_rest(recv, "MPI_Scatter", call->name);
  free(send.ints);
}

static void bcast(const Call* call, int root) {
  Buffer buffer = make(call->send, call->units);
  if (call->rank == root) fill(buffer, 0, call->units, root, 0);
  CALLED(Bcast, Ibcast, buffer.ints, call->units * call->send->count, call->send->type, root,
         call->comm);
  check(buffer, 0, call->units, root, 0, "MPI_Bcast", call->name);
  check_rest(buffer, "MPI_Bcast", call->name);
}

/* Unequal blocks, some of none; the places leave a unit between blocks, and go backwards. */
static int units_of(const Call* call, int from, int to) {
  return (from * 3 + to * 5) % 4 == 0 ? 0 : call->units + (from * 7 + to * 7) % 3;
}
typedef struct Blocks {
  int *units, *counts, *places, all;
} Blocks;

static Blocks make_blocks(int blocks, const Layout* layout) {
  (void)layout;
  Blocks made = {memory((size_t)blocks * sizeof(int)), memory((size_t)blocks * sizeof(int)),
                 memory((size_t)blocks * sizeof(int)), 0};
  return made;
}
static void lay_out(Blocks* blocks, int count, const Layout* layout) {
  blocks->all = 0;
  for (int i = count - 1; i >= 0; --i) {
    blocks->counts[i] = blocks->units[i] * layout->count;
    blocks->places[i] = blocks->all * layout->count;
    blocks->all += blocks->units[i] + 1;
  }
}
static int first_of(const Blocks* blocks, int i, const Layout* layout) {
  return blocks->places[i] / layout->count;
}
static void end_blocks(Blocks* blocks) {
  free(blocks->units);
  free(blocks->counts);
  free(blocks->places);
}

static void alltoallv(const Call* call) {
  Blocks out = make_blocks(call->size, call->send), in = make_blocks(call->size, call->recv);
  for (int peer = 0; peer < call->size; ++peer) {
    out.units[peer] = units_of(call, call->rank, peer);
    in.units[peer] = units_of(call, peer, call->rank);
    /* In place both have the same lengths. */
    if (call->in_place) in.units[peer] = units_of(call, peer + call->rank, 0);
  }
  lay_out(&out, call->size, call->send);
  lay_out(&in, call->size, call->recv);
  Buffer send = make(call->send, out.all), recv = make(call->recv, in.all);
  for (int to = 0; to < call->size; ++to) {
    if (call->in_place)
      fill(recv, first_of(&in, to, call->recv), in.units[to], call->rank, to);
    else
      fill(send, first_of(&out, to, call->send), out.units[to], call->rank, to);
  }
  CALLED(Alltoallv, Ialltoallv, SEND_OF(call, send), out.counts, out.places, call->send->type,
         recv.ints, in.counts, in.places, call->recv->type, call->comm);
  for (int from = 0; from < call->size; ++from)
    check(recv, first_of(&in, from, call->recv), in.units[from], from, call->rank, "MPI_Alltoallv",
          call->name);
  check_rest(recv, "MPI_Alltoallv", call->name);
  free(send.ints);
  end_blocks(&out);
  end_blocks(&in);
}

static void allgatherv(const Call* call) {
  Blocks in = make_blocks(call->size, call->recv);
  for (int from = 0; from < call->size; ++from) in.units[from] = units_of(call, from, 0);
  lay_out(&in, call->size, call->recv);
  const int own = in.units[call->rank];
  Buffer send = make(call->send, own), recv = make(call->recv, in.all);
  if (call->in_place)
    fill(recv, first_of(&in, call->rank, call->recv), own, call->rank, 0);
  else
    fill(send, 0, own, call->rank, 0);
  CALLED(Allgatherv, Iallgatherv, SEND_OF(call, send), own * call->send->count, call->send->type,
         recv.ints, in.counts, in.places, call->recv->type, call->comm);
  for (int from = 0; from < call->size; ++from)
    check(recv, first_of(&in, from, call->recv), in.units[from], from, 0, "MPI_Allgatherv",
          call->name);
  check_rest(recv, "MPI_Allgatherv", call->name);
  free(send.ints);
  end_blocks(&in);
}

static void gatherv_scatterv(const Call* call, int root, int gathers) {
  const char* what = gathers ? "MPI_Gatherv" : "MPI_Scatterv";
  const Layout* many = gathers ? call->recv : call->send;
  const Layout* one = gathers ? call->send : call->recv;
  const int is_root = call->rank == root, in_place = call->in_place && is_root;
  Blocks blocks = make_blocks(call->size, many);
  for (int peer = 0; peer < call->size; ++peer) blocks.units[peer] = units_of(call, peer, root);
  lay_out(&blocks, call->size, many);
  const int own = blocks.units[call->rank];
  Buffer all = make(many, is_root ? blocks.all : 0), mine = make(one, own);
  void* const my_place = in_place ? MPI_IN_PLACE : (void*)mine.ints;
  if (gathers) {
    if (in_place)
      fill(all, first_of(&blocks, root, many), own, root, 0);
    else
      fill(mine, 0, own, call->rank, 0);
    CALLED(Gatherv, Igatherv, my_place, own * one->count, one->type, is_root ? all.ints : NULL,
           is_root ? blocks.counts : NULL, is_root ? blocks.places : NULL,
           is_root ? many->type : MPI_DATATYPE_NULL, root, call->comm);
    for (int from = 0; is_root && from < call->size; ++from)
      check(all, first_of(&blocks, from, many), blocks.units[from], from, 0, what, call->name);
    check_rest(all, what, call->name);
    free(mine.ints);
  } else {
    for (int to = 0; is_root && to < call->size; ++to)
      fill(all, first_of(&blocks, to, many), blocks.units[to], root, to);
    CALLED(Scatterv, Iscatterv, is_root ? all.ints : NULL, is_root ? blocks.counts : NULL,
           is_root ? blocks.places : NULL, is_root ? many->type : MPI_DATATYPE_NULL, my_place,
           own * one->count, one->type, root, call->comm);
    if (!in_place) check(mine, 0, own, root, call->rank, what, call->name);
    check_rest(mine, what, call->name);
    free(all.ints);
  }
  end_blocks(&blocks);
}

static void all_calls(const Call* call) {
  g_starts = call->in_place ? 1 : 3;
  alltoall(call);
  alltoallv(call);
  allgather(call);
  allgatherv(call);
  for (int root = 0; root<call->size; root += call->size> 1 ? call->size - 1 : 1) {
    gather(call, root);
    scatter(call, root);
    bcast(call, root);
    gatherv_scatterv(call, root, 1);
    gatherv_scatterv(call, root, 0);
  }
}

void sweep_moves(MPI_Comm comm, const char* name) {
  static const int units[] = {0, 1, 5, 100, 3000, 20000};
  Call call = {comm, name, 0, 1, 0, 0, NULL, NULL};
  make_layouts();
  MPI_Comm_rank(comm, &call.rank);
  MPI_Comm_size(comm, &call.size);
  for (size_t i = 0; i < sizeof units / sizeof *units; ++i) {
    call.units = units[i];
    for (int shift = 0; shift < LAYOUTS; ++shift) {
      /* All forms are made of one description of a call. */
      if ((units[i] > 1000 || g_form != BLOCKING) && shift % 2 != 0) continue;
      for (call.in_place = 0; call.in_place < 2; ++call.in_place) {
        call.send = &g_layouts[(call.rank + shift) % LAYOUTS];
        call.recv = &g_layouts[(2 * call.rank + 3 * shift) % LAYOUTS];
        all_calls(&call);
        call.send = call.recv = &g_layouts[shift];
        all_calls(&call);
      }
    }
  }
  CALLED(Barrier, Ibarrier, comm);
}
