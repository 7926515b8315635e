/* A job that goes on after deaths: ranks add up what each of them has worked out, step by step.
 * Some are killed on the way. Those that are left form a new group, share the work anew, and go on
 * from the first step that one of them has not completed. cc survivors.c $(pkg-config --cflags
 * --libs ibcoll) -o survivors && ./survivors 6 */
#include <ibcoll/ibcoll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 1000, UNITS = 840 };

#define CHECK(call)                                 \
  do {                                              \
    if ((call) != IBCOLL_OK) {                      \
      fprintf(stderr, "%s\n", ibcoll_last_error()); \
      return 1;                                     \
    }                                               \
  } while (0)

/* A rank's share of a step. */
static int64_t work(int step, int rank, int ranks) {
  int64_t sum = 0;
  for (int unit = rank; unit < UNITS; unit += ranks) sum += (int64_t)unit * (step % 7);
  return sum;
}

/* Whether a call failed because a member of its group has died; the job goes on then. */
static int has_lost_members(ibcoll_status status) {
  return status == IBCOLL_ERR_PEER_FAILED && ibcoll_last_error_scope() == IBCOLL_SCOPE_GROUP;
}

/* What every rank runs. */
static int run(ibcoll_context* context, void* argument) {
  (void)argument;
  const int me = ibcoll_rank(context), ranks = ibcoll_size(context);
  ibcoll_group *const world = ibcoll_world(context), *group = world;
  int64_t sums[STEPS], step = 0;
  for (int complete = 0; !complete;) {
    /* Some may have completed the call in which others have failed. */
    int64_t first = 0;
    ibcoll_status status =
        ibcoll_allreduce(group, &step, &first, 1, IBCOLL_INT64, IBCOLL_MIN, NULL);
    if (status == IBCOLL_OK) step = first;
    while (status == IBCOLL_OK && step < STEPS) {
      /* Each second rank is killed, one after the other. */
      if (me % 2 == 1 && step == STEPS / 2 * me / ranks) raise(SIGKILL);
      const int64_t mine = work((int)step, ibcoll_group_rank(group), ibcoll_group_size(group));
      status = ibcoll_allreduce(group, &mine, &sums[step], 1, IBCOLL_INT64, IBCOLL_SUM, NULL);
      if (status == IBCOLL_OK) ++step;
    }
    if (!has_lost_members(status)) CHECK(status);
    /* Also ranks that have reached the end do this. If nobody is left out, no call has failed
     * anywhere, and all may leave; else all go on together. */
    ibcoll_group* left = NULL;
    CHECK(ibcoll_group_shrink(group, NULL, &left));
    complete = ibcoll_group_size(left) == ibcoll_group_size(group);
    if (group != world) CHECK(ibcoll_group_free(group));
    group = left;
  }
  int wrong = 0;
  for (int i = 0; i < STEPS; ++i) wrong += sums[i] != work(i, 0, 1);
  if (ibcoll_group_rank(group) == 0)
    printf("%d of %d ranks are left: %s\n", ibcoll_group_size(group), ranks,
           wrong != 0 ? "wrong" : "all steps added up");
  CHECK(ibcoll_group_free(group));
  return wrong != 0;
}

int main(int argc, char** argv) {
  ibcoll_launch_options options = IBCOLL_LAUNCH_OPTIONS_INIT;
  options.ranks = argc > 1 ? atoi(argv[1]) : 4;
  options.bind = 1;
  options.keep_survivors = 1;
  int status = 1;
  CHECK(ibcoll_launch(&options, run, NULL, &status));
  return status; /* of those that were not killed */
}
