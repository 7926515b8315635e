/* Transposes a distributed matrix: every rank holds ROWS rows, and gets ROWS columns.
 * cc transpose.c $(pkg-config --cflags --libs ibcoll) -o transpose && ./transpose 4 */
#include <ibcoll/ibcoll.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 64 };

#define CHECK(call)                                 \
  do {                                              \
    if ((call) != IBCOLL_OK) {                      \
      fprintf(stderr, "%s\n", ibcoll_last_error()); \
      return 1;                                     \
    }                                               \
  } while (0)

/* What every rank runs. */
static int transpose(ibcoll_context* context, void* argument) {
  (void)argument;
  ibcoll_group* world = ibcoll_world(context);
  const int me = ibcoll_rank(context), ranks = ibcoll_size(context);
  const size_t block = ROWS * ROWS; /* numbers for each rank */
  double *send, *recv;
  CHECK(ibcoll_alloc(context, block * ranks * sizeof(double), (void**)&send));
  CHECK(ibcoll_alloc(context, block * ranks * sizeof(double), (void**)&recv));

  /* Element (row, column) is row * 1e6 + column; block `peer` holds the columns that rank will own,
   * transposed. */
  for (int peer = 0; peer < ranks; ++peer)
    for (int c = 0; c < ROWS; ++c)
      for (int r = 0; r < ROWS; ++r)
        send[peer * block + c * ROWS + r] = (me * ROWS + r) * 1e6 + (peer * ROWS + c);

  CHECK(ibcoll_alltoall(world, send, recv, block * sizeof(double), NULL));

  int wrong = 0;
  for (int peer = 0; peer < ranks; ++peer)
    for (int c = 0; c < ROWS; ++c)
      for (int r = 0; r < ROWS; ++r)
        wrong += recv[peer * block + c * ROWS + r] != (peer * ROWS + r) * 1e6 + (me * ROWS + c);

  CHECK(ibcoll_barrier(world, NULL));
  if (me == 0)
    printf("%d ranks on %d servers: %s\n", ranks, ibcoll_servers(context),
           wrong ? "wrong" : "transposed");
  CHECK(ibcoll_free(context, send));
  CHECK(ibcoll_free(context, recv));
  return wrong != 0;
}

int main(int argc, char** argv) {
  ibcoll_launch_options options = IBCOLL_LAUNCH_OPTIONS_INIT;
  options.ranks = argc > 1 ? atoi(argv[1]) : 4;
  options.layout = argc > 2 ? argv[2] : NULL; /* "2,2": two emulated servers of two ranks */
  options.bind = 1;
  int status = 1;
  CHECK(ibcoll_launch(&options, transpose, NULL, &status));
  return status;
}
