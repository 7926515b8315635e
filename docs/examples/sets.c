/* Ranks that meet by chance: in every step each rank belongs to some set of ranks that only this
 * step has, and the members add up what they know. No group is made for that: the set says who, and
 * the step's number, as the tag, which call is meant.
 * cc sets.c $(pkg-config --cflags --libs ibcoll) -o sets && ./sets 8 */
#include <ibcoll/ibcoll.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 1000, MOST_WORDS = 16 };

#define CHECK(call)                                 \
  do {                                              \
    if ((call) != IBCOLL_OK) {                      \
      fprintf(stderr, "%s\n", ibcoll_last_error()); \
      return 1;                                     \
    }                                               \
  } while (0)

/* Whether a rank is in the step's first set, or else in its second one. All ranks find the same. */
static int in_first(int rank, int step) {
  const unsigned mixed = ((unsigned)rank * 2654435761u) ^ ((unsigned)step * 40503u);
  return (mixed >> 7 ^ mixed >> 13) & 1;
}

/* What every rank runs. */
static int run(ibcoll_context* context, void* argument) {
  (void)argument;
  const int me = ibcoll_rank(context), ranks = ibcoll_size(context);
  const size_t words = ibcoll_set_words(ranks);
  uint64_t set[MOST_WORDS];
  int64_t wrong = 0, calls = 0;
  for (int step = 0; step < STEPS; ++step) {
    ibcoll_set_clear(set, words);
    int64_t expected = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      if (in_first(rank, step) != in_first(me, step)) continue;
      ibcoll_set_add(set, rank);
      expected += rank * (int64_t)step;
    }
    /* The sum comes to the set's highest rank, which is its last member. */
    const int root = ibcoll_set_size(set, words) - 1;
    const int64_t mine = me * (int64_t)step;
    int64_t sum = -1;
    const ibcoll_call call =
        ibcoll_call_reduce(&mine, &sum, 1, IBCOLL_INT64, IBCOLL_SUM, root, NULL);
    CHECK(ibcoll_set_call(context, set, words, (uint64_t)step, &call));
    if (ibcoll_set_id(set, words, me) != root) continue;
    wrong += sum != expected;
    ++calls;
  }
  int64_t all[2] = {0, 0};
  const int64_t own[2] = {wrong, calls};
  CHECK(ibcoll_reduce(ibcoll_world(context), own, all, 2, IBCOLL_INT64, IBCOLL_SUM, 0, NULL));
  if (me == 0)
    printf("%d ranks, %lld calls on sets: %s\n", ranks, (long long)all[1],
           all[0] != 0 ? "wrong" : "added up");
  return me == 0 && all[0] != 0;
}

int main(int argc, char** argv) {
  ibcoll_launch_options options = IBCOLL_LAUNCH_OPTIONS_INIT;
  options.ranks = argc > 1 ? atoi(argv[1]) : 4;
  options.layout = argc > 2 ? argv[2] : NULL; /* "2,2": two emulated servers of two ranks */
  options.bind = 1;
  if (options.ranks > 64 * MOST_WORDS) {
    fprintf(stderr, "sets: %d ranks: at most %d\n", options.ranks, 64 * MOST_WORDS);
    return 2;
  }
  int status = 1;
  CHECK(ibcoll_launch(&options, run, NULL, &status));
  return status;
}
