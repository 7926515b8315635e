/* Computes while data moves: every rank smooths a part of a ring of numbers, and gets the numbers
 * next to its part from its two neighbours while it computes those inside. One persistent call does
 * that in every step; a nonblocking one adds up what comes out.
 * cc overlap.c $(pkg-config --cflags --libs ibcoll) -o overlap && ./overlap 4 */
#include <ibcoll/ibcoll.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUMBERS = 100000, STEPS = 20, PIECE = 5000 };

#define CHECK(call)                                 \
  do {                                              \
    if ((call) != IBCOLL_OK) {                      \
      fprintf(stderr, "%s\n", ibcoll_last_error()); \
      return 1;                                     \
    }                                               \
  } while (0)

/* Each number becomes the mean of itself and its neighbours; `from` has one more at both ends. */
static void smooth(const double* from, double* to, int begin, int end) {
  for (int i = begin; i < end; ++i) to[i] = (from[i] + from[i + 1] + from[i + 2]) / 3;
}

/* What every rank runs. */
static int run(ibcoll_context* context, void* argument) {
  (void)argument;
  ibcoll_group* world = ibcoll_world(context);
  const int me = ibcoll_rank(context), ranks = ibcoll_size(context);
  const int left = (me + ranks - 1) % ranks, right = (me + 1) % ranks;

  /* numbers[1] to numbers[NUMBERS] are this rank's, the two at the ends its neighbours'. */
  double *numbers, *next, sum = 0, total = 0;
  CHECK(ibcoll_alloc(context, (NUMBERS + 2) * sizeof(double), (void**)&numbers));
  CHECK(ibcoll_alloc(context, (NUMBERS + 2) * sizeof(double), (void**)&next));
  for (int i = 1; i <= NUMBERS; ++i) numbers[i] = me == 0 && i == 1 ? 1e6 : 0;

  /* An alltoallv in which a rank exchanges one number with each neighbour, and none with others. It
   * is made once and started in every step; its counts are copied, its buffers are not. */
  double edges[2], from_edges[2];
  int64_t* counts = calloc((size_t)ranks, sizeof(int64_t));
  int64_t* send_at = calloc((size_t)ranks, sizeof(int64_t));
  int64_t* recv_at = calloc((size_t)ranks, sizeof(int64_t));
  if (counts == NULL || send_at == NULL || recv_at == NULL) return 1;
  /* edges[0] goes left, edges[1] right. With two ranks both go to the same one, in one block. */
  counts[left] += sizeof(double);
  counts[right] += sizeof(double);
  send_at[right] = left == right ? 0 : sizeof(double);
  recv_at[left] = 0;
  recv_at[right] = left == right ? 0 : sizeof(double);
  ibcoll_call exchange =
      ibcoll_call_alltoallv(edges, counts, send_at, from_edges, counts, recv_at, NULL);
  exchange.flags = IBCOLL_PERSISTENT;
  ibcoll_request* neighbours;
  CHECK(ibcoll_call_init(world, &exchange, &neighbours));
  free(counts);
  free(send_at);
  free(recv_at);

  int tests = 0;
  for (int step = 0; step < STEPS; ++step) {
    edges[0] = numbers[1];
    edges[1] = numbers[NUMBERS];
    CHECK(ibcoll_start(neighbours));
    /* What needs no neighbour is computed meanwhile, in pieces: each test moves the call on. */
    int done = 0;
    for (int begin = 1; begin < NUMBERS - 1; begin += PIECE) {
      smooth(numbers, next + 1, begin, begin + PIECE < NUMBERS - 1 ? begin + PIECE : NUMBERS - 1);
      if (!done) {
        CHECK(ibcoll_test(neighbours, &done));
        ++tests;
      }
    }
    CHECK(ibcoll_wait(neighbours));
    /* From the left comes its right edge; two ranks, or one, get both of one rank in its order. */
    numbers[0] = left == right ? from_edges[1] : from_edges[0];
    numbers[NUMBERS + 1] = left == right ? from_edges[0] : from_edges[1];
    smooth(numbers, next + 1, 0, 1);
    smooth(numbers, next + 1, NUMBERS - 1, NUMBERS);
    double* swapped = numbers;
    numbers = next;
    next = swapped;
  }
  CHECK(ibcoll_call_free(neighbours));

  /* A nonblocking call: the same without the flag, started once. */
  for (int i = 1; i <= NUMBERS; ++i) sum += numbers[i];
  const ibcoll_call add = ibcoll_call_reduce(&sum, &total, 1, IBCOLL_DOUBLE, IBCOLL_SUM, 0, NULL);
  ibcoll_request* adding;
  CHECK(ibcoll_call_init(world, &add, &adding));
  CHECK(ibcoll_start(adding));
  double largest = 0; /* of this rank's, meanwhile */
  for (int i = 1; i <= NUMBERS; ++i) largest = numbers[i] > largest ? numbers[i] : largest;
  CHECK(ibcoll_wait(adding));
  CHECK(ibcoll_call_free(adding));

  /* Smoothing moves numbers, and keeps their sum. */
  const int wrong = me == 0 && (total < 1e6 - 1 || total > 1e6 + 1 || largest > 1e6 / 3);
  if (me == 0)
    printf("%d ranks, %d steps, %d tests in between: %s\n", ranks, STEPS, tests,
           wrong ? "wrong" : "smoothed");
  CHECK(ibcoll_free(context, numbers));
  CHECK(ibcoll_free(context, next));
  return wrong;
}

int main(int argc, char** argv) {
  ibcoll_launch_options options = IBCOLL_LAUNCH_OPTIONS_INIT;
  options.ranks = argc > 1 ? atoi(argv[1]) : 4;
  options.layout = argc > 2 ? argv[2] : NULL; /* "2,2": two emulated servers of two ranks */
  options.bind = 1;
  int status = 1;
  CHECK(ibcoll_launch(&options, run, NULL, &status));
  return status;
}
