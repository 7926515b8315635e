/* How compare_mpi times contenders in the same way although each is a job of its own: the driver
 * puts a `struct contest` in a memfd that the ranks of all contenders map; every contender has a
 * seat in it. Ranks sleep on the seat's futex until the driver orders a measurement, so that
 * waiting contenders take no processor time, then all ranks carry it out with the code below.
 *
 * Compiles as C11 (the MPI contenders) and as C++20 (the driver and its own contenders). */
#ifndef IBCOLL_PERF_CONTEST_H
#define IBCOLL_PERF_CONTEST_H

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "contest_calls.h"

enum {
  CONTEST_SEATS = 8,
  CONTEST_MAX_SAMPLES = 256,
  CONTEST_LINE = 64 /* bytes of a cache line */
};

/* One contender. Words that different processes write stand in cache lines of their own. */
struct contest_seat {
  /* Written by the driver. `order` counts measurements asked for; ranks sleep on it. */
  uint32_t order __attribute__((aligned(CONTEST_LINE)));
  uint32_t quit;
  uint32_t collective; /* enum contest_collective */
  uint64_t block_bytes;
  uint64_t batch_ns;      /* what a batch of calls should take */
  uint32_t samples;       /* batches to time, at most CONTEST_MAX_SAMPLES */
  uint32_t check;         /* look at the received bytes before timing */
  uint32_t after_barrier; /* a barrier of the contender's, which is not timed, before each call */
  /* Barrier between the ranks. */
  uint32_t arrived __attribute__((aligned(CONTEST_LINE)));
  uint32_t released __attribute__((aligned(CONTEST_LINE)));
  /* Written by rank 0: calls in one batch, and whether that is still being found out. */
  uint64_t calls;
  uint32_t growing;
  /* How many ranks have finished the current order; the driver sleeps on it. */
  uint32_t finished __attribute__((aligned(CONTEST_LINE)));
  uint32_t failed; /* set once `error` is written */
  char error[240];
  /* Nanoseconds of one call in each batch, as each rank saw it. */
  double call_ns[CONTEST_MAX_RANKS][CONTEST_MAX_SAMPLES];
};

struct contest {
  int32_t driver; /* its process id: ranks end when it is gone; 0: they are ended with it */
  int32_t
      cpu[CONTEST_MAX_RANKS]; /* where each rank runs, the same for all contenders; -1: anywhere */
  int32_t ranks;
  uint64_t send_room, receive_room; /* bytes of each rank's buffers */
  struct contest_seat seat[CONTEST_SEATS];
};

struct contest_rank;

/* One call of that collective, from and to the contender's buffers. Non-zero: failed. */
typedef int (*contest_call)(const struct contest_rank* me, int collective);

struct contest_rank {
  struct contest* contest;
  struct contest_seat* seat;
  int rank;
  unsigned char* send;
  unsigned char* receive;
  uint64_t block_bytes; /* of the order that is carried out */
  struct contest_blocks blocks;
  contest_call call;
  void* user; /* the contender's own */
  /* Before the calls of an order, if set: for what `call` needs of `blocks` in another form. */
  void (*prepare)(const struct contest_rank* me);
  /* Instead of timing `call`: fills call_ns by itself. NULL for most. */
  int (*measure)(const struct contest_rank* me);
};

static inline uint64_t contest_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Sleeps for at most a second while *word is `value`. */
static inline void contest_sleep(uint32_t* word, uint32_t value) {
  const struct timespec second = {1, 0};
  syscall(SYS_futex, word, FUTEX_WAIT, value, &second, NULL, 0);
}

static inline void contest_wake(uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, CONTEST_MAX_RANKS, NULL, NULL, 0);
}

/* Binds the calling process to the processor its rank has in all contenders. Non-zero: failed. */
static inline int contest_bind(const struct contest* contest, int rank) {
  if (rank < 0 || rank >= contest->ranks) return -1;
  if (contest->cpu[rank] < 0) return 0;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(contest->cpu[rank], &one);
  return sched_setaffinity(0, sizeof one, &one);
}

/* Maps the contest at `path`; NULL with a message on stderr where that fails. */
static inline struct contest* contest_map(const char* path) {
  const int file = open(path, O_RDWR | O_CLOEXEC);
  void* memory =
      file < 0 ? MAP_FAILED
               : mmap(NULL, sizeof(struct contest), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  if (memory == MAP_FAILED) {
    fprintf(stderr, "compare_mpi: can't map %s: %s\n", path, strerror(errno));
    return NULL;
  }
  return (struct contest*)memory;
}

static inline void contest_fail(struct contest_seat* seat, const char* what) {
  uint32_t none = 0;
  if (__atomic_compare_exchange_n(&seat->failed, &none, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    snprintf(seat->error, sizeof seat->error, "%s", what);
    __atomic_store_n(&seat->failed, 2, __ATOMIC_RELEASE);
  }
}

static inline int contest_over(const struct contest_rank* me) {
  return __atomic_load_n(&me->seat->failed, __ATOMIC_ACQUIRE) != 0 ||
         (me->contest->driver != 0 && kill(me->contest->driver, 0) != 0 && errno == ESRCH);
}

/* All ranks of the contender. Non-zero: another rank has failed. */
static inline int contest_barrier(const struct contest_rank* me) {
  struct contest_seat* seat = me->seat;
  const uint32_t round = __atomic_load_n(&seat->released, __ATOMIC_ACQUIRE);
  const uint32_t ranks = (uint32_t)me->contest->ranks;
  if (__atomic_add_fetch(&seat->arrived, 1, __ATOMIC_ACQ_REL) == ranks) {
    __atomic_store_n(&seat->arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&seat->released, round + 1, __ATOMIC_RELEASE);
    return 0;
  }
  for (uint32_t spins = 1; __atomic_load_n(&seat->released, __ATOMIC_ACQUIRE) == round; ++spins) {
    if (spins % 64 == 0) sched_yield();
    if (spins % 65536 == 0 && contest_over(me)) return -1;
  }
  return 0;
}

/* One call whose result is looked at. A broadcast goes out from the buffer in which the others
 * receive it. */
static inline int contest_check(const struct contest_rank* me) {
  const int collective = (int)me->seat->collective;
  const int sends_there = collective == CONTEST_BCAST && me->rank == 0;
  memset(me->receive, 0, (size_t)me->blocks.receive_end);
  contest_fill(collective, me->rank, &me->blocks, sends_there ? me->receive : me->send);
  if (me->call(me, collective) != 0) return -1;
  char text[160];
  if (contest_compare(collective, me->contest->ranks, me->rank, &me->blocks, me->receive, text,
                      sizeof text))
    return 0;
  contest_fail(me->seat, text);
  return -1;
}

/* What a batch of calls took: in all, and the calls alone. */
struct contest_took {
  double batch_ns, calls_ns;
};

/* Times `calls` calls after a barrier, back to back or with one before each. Non-zero: failed. */
static inline int contest_batch(const struct contest_rank* me, uint64_t calls,
                                struct contest_took* took) {
  const int collective = (int)me->seat->collective;
  if (contest_barrier(me) != 0) return -1;
  const uint64_t begin = contest_now_ns();
  uint64_t in_calls = 0;
  for (uint64_t i = 0; i < calls; ++i) {
    if (!me->seat->after_barrier) {
      if (me->call(me, collective) != 0) return -1;
      continue;
    }
    if (me->call(me, CONTEST_BARRIER) != 0) return -1;
    const uint64_t call_begin = contest_now_ns();
    if (me->call(me, collective) != 0) return -1;
    in_calls += contest_now_ns() - call_begin;
  }
  took->batch_ns = (double)(contest_now_ns() - begin);
  took->calls_ns = me->seat->after_barrier ? (double)in_calls : took->batch_ns;
  return 0;
}

/* Carries out the order in the seat. Non-zero: failed. */
static inline int contest_measure(const struct contest_rank* me) {
  struct contest_seat* seat = me->seat;
  struct contest_took took = {0, 0};
  if (seat->check && contest_check(me) != 0) return -1;
  if (me->rank == 0) {
    seat->calls = 1;
    seat->growing = 1;
  }
  /* Warm up with batches that grow until they take as long as they should. */
  if (contest_barrier(me) != 0) return -1;
  while (seat->growing) {
    if (contest_batch(me, seat->calls, &took) != 0 || contest_barrier(me) != 0) return -1;
    if (me->rank == 0) {
      const double all = took.batch_ns < 1 ? 1 : took.batch_ns;
      const double fit = (double)seat->calls * (double)seat->batch_ns / all;
      seat->growing = all * 2 < (double)seat->batch_ns;
      const double most = (double)seat->calls * (seat->growing ? 16 : 2);
      const double next = fit < most ? fit : most;
      seat->calls = next < 1 ? 1 : (uint64_t)next;
    }
    if (contest_barrier(me) != 0) return -1;
  }
  for (uint32_t sample = 0; sample < seat->samples; ++sample) {
    if (contest_batch(me, seat->calls, &took) != 0) return -1;
    seat->call_ns[me->rank][sample] = took.calls_ns / (double)seat->calls;
  }
  return 0;
}

/* Serves the driver until it says quit or is gone: the main loop of every rank. Returns the rank's
 * exit status. */
static inline int contest_serve(struct contest_rank* me) {
  struct contest_seat* seat = me->seat;
  for (uint32_t done = 0;; ++done) {
    while (__atomic_load_n(&seat->order, __ATOMIC_ACQUIRE) == done) {
      contest_sleep(&seat->order, done);
      if (contest_over(me)) return 1;
    }
    if (seat->quit) return 0;
    me->block_bytes = seat->block_bytes;
    contest_describe((int)seat->collective, me->contest->ranks, me->rank,
                     (int64_t)seat->block_bytes, &me->blocks);
    if (me->prepare != NULL) me->prepare(me);
    if ((me->measure != NULL ? me->measure(me) : contest_measure(me)) != 0) {
      contest_fail(seat, "a call failed");
      __atomic_add_fetch(&seat->finished, 1, __ATOMIC_RELEASE);
      contest_wake(&seat->finished);
      return 1;
    }
    __atomic_add_fetch(&seat->finished, 1, __ATOMIC_RELEASE);
    contest_wake(&seat->finished);
  }
}

#endif
