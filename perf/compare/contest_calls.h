/* The collectives that compare_mpi compares: what each rank sends and receives in one call, and
 * whether it received what it should. The root is rank 0; what is combined are sums of doubles.
 *
 * Compiles as C11 and as C++20, see contest.h. */
#ifndef IBCOLL_PERF_CONTEST_CALLS_H
#define IBCOLL_PERF_CONTEST_CALLS_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { CONTEST_MAX_RANKS = 64 };

/* In the order of contest_names. */
enum contest_collective {
  CONTEST_ALLTOALL,
  CONTEST_ALLTOALLV,
  CONTEST_ALLTOALLW,
  CONTEST_ALLGATHER,
  CONTEST_ALLGATHERV,
  CONTEST_GATHER,
  CONTEST_GATHERV,
  CONTEST_SCATTER,
  CONTEST_SCATTERV,
  CONTEST_BCAST,
  CONTEST_REDUCE,
  CONTEST_ALLREDUCE,
  CONTEST_REDUCE_SCATTER,
  CONTEST_REDUCE_SCATTER_BLOCK,
  CONTEST_SCAN,
  CONTEST_EXSCAN,
  CONTEST_NEIGHBOR_ALLGATHER,
  CONTEST_NEIGHBOR_ALLTOALL,
  CONTEST_BARRIER,
  CONTEST_COLLECTIVES
};

static inline const char* contest_name(int collective) {
  static const char* const names[CONTEST_COLLECTIVES] = {"alltoall",
                                                         "alltoallv",
                                                         "alltoallw",
                                                         "allgather",
                                                         "allgatherv",
                                                         "gather",
                                                         "gatherv",
                                                         "scatter",
                                                         "scatterv",
                                                         "bcast",
                                                         "reduce",
                                                         "allreduce",
                                                         "reduce_scatter",
                                                         "reduce_scatter_block",
                                                         "scan",
                                                         "exscan",
                                                         "neighbor_allgather",
                                                         "neighbor_alltoall",
                                                         "barrier"};
  return names[collective];
}

static inline int contest_is_unequal(int collective) {
  return collective == CONTEST_ALLTOALLV || collective == CONTEST_ALLGATHERV ||
         collective == CONTEST_GATHERV || collective == CONTEST_SCATTERV ||
         collective == CONTEST_REDUCE_SCATTER;
}

static inline int contest_reduces(int collective) {
  return collective >= CONTEST_REDUCE && collective <= CONTEST_EXSCAN;
}

/* The graph of the neighbour collectives: a ring in which each rank sends to the one before it and
 * to the one after it. What two ranks send each other twice is told apart by its slot. */
enum { CONTEST_NEIGHBORS = 2 };
static inline int contest_destination(int me, int slot, int ranks) {
  return (me + (slot == 0 ? ranks - 1 : 1)) % ranks;
}
static inline int contest_source(int me, int slot, int ranks) {
  return (me + (slot == 0 ? 1 : ranks - 1)) % ranks;
}

/* What one rank sends and receives: blocks that lie side by side, lengths and places in bytes. */
struct contest_blocks {
  int sends, receives;
  int64_t run; /* of an alltoallw: blocks are runs of so many bytes with gaps as long; else 0 */
  int64_t send_bytes[CONTEST_MAX_RANKS], send_at[CONTEST_MAX_RANKS];
  int64_t receive_bytes[CONTEST_MAX_RANKS], receive_at[CONTEST_MAX_RANKS];
  int64_t send_end, receive_end; /* all of them together */
};

/* Half, once or one and a half times `bytes`, in whole doubles where they differ. */
static inline int64_t contest_length(int collective, int which, int64_t bytes) {
  const int64_t half = bytes / 16 * 8;
  if (!contest_is_unequal(collective)) return bytes;
  return which % 3 == 0 ? half : which % 3 == 1 ? bytes : 2 * bytes - half;
}

static inline void contest_describe(int collective, int ranks, int me, int64_t bytes,
                                    struct contest_blocks* blocks) {
  const int root = me == 0;
  int sends = 1, receives = 1;
  switch (collective) {
    case CONTEST_ALLTOALL:
    case CONTEST_ALLTOALLV:
    case CONTEST_ALLTOALLW:
      sends = receives = ranks;
      break;
    case CONTEST_NEIGHBOR_ALLGATHER:
      receives = CONTEST_NEIGHBORS;
      break;
    case CONTEST_NEIGHBOR_ALLTOALL:
      sends = receives = CONTEST_NEIGHBORS;
      break;
    case CONTEST_ALLGATHER:
    case CONTEST_ALLGATHERV:
      receives = ranks;
      break;
    case CONTEST_GATHER:
    case CONTEST_GATHERV:
      receives = root ? ranks : 0;
      break;
    case CONTEST_SCATTER:
    case CONTEST_SCATTERV:
      sends = root ? ranks : 0;
      break;
    case CONTEST_BCAST:
      sends = root;
      receives = !root;
      break;
    case CONTEST_REDUCE:
      receives = root;
      break;
    case CONTEST_REDUCE_SCATTER:
    case CONTEST_REDUCE_SCATTER_BLOCK:
      sends = ranks;
      break;
    case CONTEST_EXSCAN:
      receives = !root;
      break;
    case CONTEST_BARRIER:
      sends = receives = 0;
      break;
    default:
      break;
  }
  blocks->sends = sends;
  blocks->receives = receives;
  blocks->send_end = blocks->receive_end = 0;
  blocks->run = collective != CONTEST_ALLTOALLW ? 0 : bytes % 64 == 0 ? 64 : 8;
  const int spread = blocks->run != 0 ? 2 : 1;
  const int all_to_all = collective == CONTEST_ALLTOALLV;
  for (int i = 0; i < sends; ++i) {
    const int which = sends == 1 ? me : i + (all_to_all ? me : 0);
    blocks->send_bytes[i] = contest_length(collective, which, bytes);
    blocks->send_at[i] = blocks->send_end;
    blocks->send_end += spread * blocks->send_bytes[i];
  }
  for (int i = 0; i < receives; ++i) {
    const int which = receives == 1 ? me : i + (all_to_all ? me : 0);
    blocks->receive_bytes[i] = contest_length(collective, which, bytes);
    blocks->receive_at[i] = blocks->receive_end;
    blocks->receive_end += spread * blocks->receive_bytes[i];
  }
}

/* Where byte `at` of a block lies, from its beginning. */
static inline int64_t contest_place(const struct contest_blocks* blocks, int64_t at) {
  return blocks->run == 0 ? at : at / blocks->run * 2 * blocks->run + at % blocks->run;
}

/* The byte at `at` of the block that `origin` sends to `target`. */
static inline unsigned char contest_pattern(int origin, int target, uint64_t at) {
  return (unsigned char)(((uint64_t)origin * 151 + (uint64_t)target * 31 + at * 7 + at / 251) | 1);
}

/* The double at `at` of what `origin` contributes to block `block`: sums of them are exact. */
static inline double contest_number(int origin, int block, uint64_t at) {
  return (double)((at * 7 + (uint64_t)origin * 13 + (uint64_t)block * 5) % 1000);
}

static inline void contest_fill(int collective, int me, const struct contest_blocks* blocks,
                                unsigned char* send) {
  for (int slot = 0; slot < blocks->sends; ++slot) {
    unsigned char* block = send + blocks->send_at[slot];
    const int64_t bytes = blocks->send_bytes[slot];
    if (!contest_reduces(collective)) {
      for (int64_t i = 0; i < bytes; ++i)
        block[contest_place(blocks, i)] = contest_pattern(me, slot, (uint64_t)i);
      continue;
    }
    for (int64_t i = 0; i < bytes / 8; ++i) {
      const double number = contest_number(me, slot, (uint64_t)i);
      memcpy(block + 8 * i, &number, sizeof number);
    }
  }
}

/* What rank `me` receives at double `at`. */
static inline double contest_sum(int collective, int ranks, int me, uint64_t at) {
  const int scatters =
      collective == CONTEST_REDUCE_SCATTER || collective == CONTEST_REDUCE_SCATTER_BLOCK;
  const int last = collective == CONTEST_SCAN ? me + 1 : collective == CONTEST_EXSCAN ? me : ranks;
  double sum = 0;
  for (int origin = 0; origin < last; ++origin)
    sum += contest_number(origin, scatters ? me : 0, at);
  return sum;
}

/* Whether the receive buffer holds what it should; if not, `text` says what is wrong. */
static inline int contest_compare(int collective, int ranks, int me,
                                  const struct contest_blocks* blocks, const unsigned char* receive,
                                  char* text, size_t room) {
  for (int slot = 0; slot < blocks->receives; ++slot) {
    const unsigned char* block = receive + blocks->receive_at[slot];
    const int64_t bytes = blocks->receive_bytes[slot];
    /* One block comes from the root, and of all other collectives slot i from rank i. */
    int origin = slot, target = 0;
    switch (collective) {
      case CONTEST_ALLTOALL:
      case CONTEST_ALLTOALLV:
      case CONTEST_ALLTOALLW:
      case CONTEST_SCATTER:
      case CONTEST_SCATTERV:
        target = me;
        break;
      case CONTEST_NEIGHBOR_ALLTOALL:
        target = slot;
        origin = contest_source(me, slot, ranks);
        break;
      case CONTEST_NEIGHBOR_ALLGATHER:
        origin = contest_source(me, slot, ranks);
        break;
      default:
        break;
    }
    for (int64_t i = 0; i < bytes; ++i) {
      if (!contest_reduces(collective)) {
        if (block[contest_place(blocks, i)] == contest_pattern(origin, target, (uint64_t)i))
          continue;
      } else {
        double number = 0;
        if (i % 8 != 0) continue;
        memcpy(&number, block + i, sizeof number);
        if (number == contest_sum(collective, ranks, me, (uint64_t)i / 8)) continue;
      }
      snprintf(text, room, "rank %d received a wrong byte %lld of block %d of a call of %s", me,
               (long long)i, slot, contest_name(collective));
      return 0;
    }
  }
  return 1;
}

#endif
