/* collapse_bench: what it is worth that libibcoll_mpi.so collapses private buffers to huge pages.
 * Alltoall in two kinds of arrays that the program has filled, in turn, in one run: the kernel may
 * collapse the pages of the one, not those of the other (MADV_NOHUGEPAGE).
 *
 *   mpirun -n 2 -x LD_PRELOAD=/FULL/PATH/libibcoll_mpi.so -x IBCOLL_MPI_FUNCTIONS=all \
 *     build/bin/collapse_bench_openmpi
 *
 * Prints the median time of a call on the slowest rank, and the ratio. With --json one object a
 * line. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ROUNDS = 41, MOST_BYTES = 4 << 20, WARM_UP = 8 };

static void die(const char* what) {
  fprintf(stderr, "collapse_bench: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* An array in use, as a program has it: bytes from some place on, not at the beginning of a page.
 */
static char* array(size_t bytes, int small_pages) {
  const size_t around = 4 << 20;
  char* const memory =
      mmap(NULL, bytes + 2 * around, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) die("no memory");
  if (small_pages && madvise(memory, bytes + 2 * around, MADV_NOHUGEPAGE) != 0)
    die("the kernel knows no huge pages");
  memset(memory, 1, bytes + 2 * around);
  return memory + around + 64;
}

/* Microseconds of a call on the slowest rank. */
static double time_calls(const char* send, char* recv, int bytes, int calls) {
  double slowest = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  double took = MPI_Wtime();
  for (int i = 0; i < calls; ++i)
    MPI_Alltoall(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, MPI_COMM_WORLD);
  took = (MPI_Wtime() - took) / calls * 1e6;
  MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

static int compare(const void* a, const void* b) {
  const double first = *(const double*)a, second = *(const double*)b;
  return (first > second) - (first < second);
}

int main(int argc, char** argv) {
  int rank = 0, size = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int json = argc > 1 && strcmp(argv[1], "--json") == 0;
  char *send[2], *recv[2];
  for (int small = 0; small < 2; ++small) {
    send[small] = array((size_t)MOST_BYTES * (size_t)size, small);
    recv[small] = array((size_t)MOST_BYTES * (size_t)size, small);
  }
  if (rank == 0 && !json) printf("bytes/pair  small pages us  collapsed us  ratio\n");
  for (int bytes = 16 << 10; bytes <= MOST_BYTES; bytes *= 4) {
    double times[2][ROUNDS];
    const int calls = bytes >= 1 << 20 ? 10 : 40;
    for (int small = 0; small < 2; ++small) time_calls(send[small], recv[small], bytes, WARM_UP);
    for (int round = 0; round < ROUNDS; ++round)
      for (int small = 0; small < 2; ++small)
        times[small][round] = time_calls(send[small], recv[small], bytes, calls);
    for (int small = 0; small < 2; ++small) qsort(times[small], ROUNDS, sizeof(double), compare);
    const double collapsed = times[0][ROUNDS / 2], plain = times[1][ROUNDS / 2];
    if (rank != 0) continue;
    if (json)
      printf(
          "{\"ranks\":%d,\"bytes\":%d,\"small_pages_us\":%.3f,\"collapsed_us\":%.3f,"
          "\"ratio\":%.3f}\n",
          size, bytes, plain, collapsed, plain / collapsed);
    else
      printf("%10d  %14.2f  %12.2f  %5.2f\n", bytes, plain, collapsed, plain / collapsed);
  }
  MPI_Finalize();
  return 0;
}
