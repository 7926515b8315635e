/* Threads that each have a group: every one sums numbers over all ranks, as often as it likes, and
 * none waits for the others.
 * cc threads.c $(pkg-config --cflags --libs ibcoll) -pthread -o threads && ./threads 4 */
#include <ibcoll/ibcoll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 8 };

#define CHECK(call)                                 \
  do {                                              \
    if ((call) != IBCOLL_OK) {                      \
      fprintf(stderr, "%s\n", ibcoll_last_error()); \
      return 1;                                     \
    }                                               \
  } while (0)

struct work {
  ibcoll_group* group;
  int number; /* of the thread */
  int failed;
};

static int sum_up(struct work* work) {
  const int me = ibcoll_group_rank(work->group), ranks = ibcoll_group_size(work->group);
  for (int round = 0; round <= 10 * work->number; ++round) {
    const long mine = me + round;
    long sum = 0;
    CHECK(ibcoll_reduce(work->group, &mine, &sum, 1, IBCOLL_INT64, IBCOLL_SUM, 0, NULL));
    if (me == 0 && sum != ranks * (ranks - 1) / 2 + (long)ranks * round) return 1;
  }
  return 0;
}

static void* run(void* argument) {
  struct work* work = argument;
  work->failed = sum_up(work);
  return NULL;
}

/* What every rank runs. */
static int rank_main(ibcoll_context* context, void* argument) {
  (void)argument;
  CHECK(ibcoll_set_thread_level(context, IBCOLL_THREAD_MULTIPLE));
  const int ranks = ibcoll_size(context);
  int members[1024];
  for (int i = 0; i < ranks; ++i) members[i] = i;

  /* Groups of the same ranks are told apart by what their threads are called on all ranks. */
  struct work works[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    const ibcoll_group_options options = {.struct_size = sizeof options, .id = (uint64_t)i + 1};
    works[i] = (struct work){.number = i};
    CHECK(ibcoll_group_create_with(context, members, ranks, &options, &works[i].group));
  }
  for (int i = 0; i < THREADS; ++i)
    if (pthread_create(&threads[i], NULL, run, &works[i]) != 0) return 1;
  int failed = 0;
  for (int i = 0; i < THREADS; ++i) {
    pthread_join(threads[i], NULL);
    failed |= works[i].failed;
    CHECK(ibcoll_group_free(works[i].group));
  }
  if (ibcoll_rank(context) == 0)
    printf("%d threads on each of %d ranks: %s\n", THREADS, ranks, failed ? "wrong" : "right");
  return failed;
}

int main(int argc, char** argv) {
  ibcoll_launch_options options = IBCOLL_LAUNCH_OPTIONS_INIT;
  options.ranks = argc > 1 ? atoi(argv[1]) : 4;
  options.layout = argc > 2 ? argv[2] : NULL; /* "2,2": two emulated servers of two ranks */
  if (options.ranks < 1 || options.ranks > 1024) return 2;
  int status = 1;
  CHECK(ibcoll_launch(&options, rank_main, NULL, &status));
  return status;
}
