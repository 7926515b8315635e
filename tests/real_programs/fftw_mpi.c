/* Transforms by FFTW over MPI, forth and back, in one to three dimensions, with complex and with
 * real input: what comes forth is what the serial FFTW computes, what comes back is what was there.
 */
#include <complex.h>
#include <fftw3-mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double kMost = 1e-10; /* of values up to some thousands */
static int me, failed;

/* The input at a place of the whole array. */
static fftw_complex value_at(ptrdiff_t place) {
  return sin(0.37 * (double)place) + 0.25 * (double)(place % 7) +
         I * (cos(0.11 * (double)place) - 0.5 * (double)(place % 5));
}

static void expect(double difference, double largest, const char* what, int rank,
                   const ptrdiff_t* n) {
  double all[2] = {difference, largest}, worst[2];
  MPI_Allreduce(all, worst, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (worst[0] <= kMost * worst[1]) return;
  failed = 1;
  if (me == 0)
    fprintf(stderr, "%s of %d dimensions, the first %td long: differs by %g of %g\n", what, rank,
            n[0], worst[0], worst[1]);
}

static ptrdiff_t product(int rank, const ptrdiff_t* n) {
  ptrdiff_t all = 1;
  for (int i = 0; i < rank; ++i) all *= n[i];
  return all;
}

/* The whole transform, by the serial FFTW. */
static fftw_complex* serial(int rank, const ptrdiff_t* n) {
  const ptrdiff_t all = product(rank, n);
  int lengths[3];
  for (int i = 0; i < rank; ++i) lengths[i] = (int)n[i];
  fftw_complex* data = fftw_alloc_complex((size_t)all);
  fftw_plan plan = fftw_plan_dft(rank, lengths, data, data, FFTW_FORWARD, FFTW_ESTIMATE);
  for (ptrdiff_t i = 0; i < all; ++i) data[i] = value_at(i);
  fftw_execute(plan);
  fftw_destroy_plan(plan);
  return data;
}

/* Two dimensions and more lie in slabs of the first one. From one array to another and back: only
 * then FFTW may move data by MPI_Alltoall(v). */
static void transform_slabs(int rank, const ptrdiff_t* n, unsigned flags) {
  ptrdiff_t mine = 0, begin = 0;
  const ptrdiff_t room = fftw_mpi_local_size(rank, n, MPI_COMM_WORLD, &mine, &begin);
  const ptrdiff_t slab = product(rank - 1, n + 1);
  fftw_complex *in = fftw_alloc_complex((size_t)room), *out = fftw_alloc_complex((size_t)room);
  flags |= FFTW_DESTROY_INPUT;
  fftw_plan forth = fftw_mpi_plan_dft(rank, n, in, out, MPI_COMM_WORLD, FFTW_FORWARD, flags);
  fftw_plan back = fftw_mpi_plan_dft(rank, n, out, in, MPI_COMM_WORLD, FFTW_BACKWARD, flags);
  fftw_complex* whole = serial(rank, n);
  double difference = 0, largest = 0;
  for (ptrdiff_t i = 0; i < mine * slab; ++i) in[i] = value_at(begin * slab + i);
  fftw_execute(forth);
  for (ptrdiff_t i = 0; i < mine * slab; ++i) {
    difference = fmax(difference, cabs(out[i] - whole[begin * slab + i]));
    largest = fmax(largest, cabs(whole[begin * slab + i]));
  }
  expect(difference, largest, "transform", rank, n);
  fftw_execute(back);
  difference = 0;
  for (ptrdiff_t i = 0; i < mine * slab; ++i) {
    const fftw_complex again = in[i] / (double)product(rank, n);
    difference = fmax(difference, cabs(again - value_at(begin * slab + i)));
  }
  expect(difference, 1, "transform back", rank, n);
  fftw_destroy_plan(forth);
  fftw_destroy_plan(back);
  fftw_free(in);
  fftw_free(out);
  fftw_free(whole);
}

/* One dimension: input and output are divided in their own ways. */
static void transform_line(ptrdiff_t n, unsigned flags) {
  ptrdiff_t in = 0, in_begin = 0, out = 0, out_begin = 0;
  const ptrdiff_t room = fftw_mpi_local_size_1d(n, MPI_COMM_WORLD, FFTW_FORWARD, flags, &in,
                                                &in_begin, &out, &out_begin);
  fftw_complex* data = fftw_alloc_complex((size_t)room);
  fftw_plan forth = fftw_mpi_plan_dft_1d(n, data, data, MPI_COMM_WORLD, FFTW_FORWARD, flags);
  fftw_complex* whole = serial(1, &n);
  double difference = 0, largest = 0;
  for (ptrdiff_t i = 0; i < in; ++i) data[i] = value_at(in_begin + i);
  fftw_execute(forth);
  for (ptrdiff_t i = 0; i < out; ++i) {
    difference = fmax(difference, cabs(data[i] - whole[out_begin + i]));
    largest = fmax(largest, cabs(whole[out_begin + i]));
  }
  expect(difference, largest, "transform", 1, &n);
  fftw_destroy_plan(forth);
  fftw_free(data);
  /* Back from where it was: the other way's division must begin with this one's end. */
  ptrdiff_t back_in = 0, back_in_begin = 0, back_out = 0, back_out_begin = 0;
  const ptrdiff_t back_room =
      fftw_mpi_local_size_1d(n, MPI_COMM_WORLD, FFTW_BACKWARD, flags, &back_in, &back_in_begin,
                             &back_out, &back_out_begin);
  data = fftw_alloc_complex((size_t)back_room);
  fftw_plan back = fftw_mpi_plan_dft_1d(n, data, data, MPI_COMM_WORLD, FFTW_BACKWARD, flags);
  for (ptrdiff_t i = 0; i < back_in; ++i) data[i] = whole[back_in_begin + i];
  fftw_execute(back);
  difference = 0;
  for (ptrdiff_t i = 0; i < back_out; ++i)
    difference = fmax(difference, cabs(data[i] / (double)n - value_at(back_out_begin + i)));
  expect(difference, 1, "transform back", 1, &n);
  fftw_destroy_plan(back);
  fftw_free(data);
  fftw_free(whole);
}

/* Real input, whose transform is half as long and one, in rows with room for it. */
static void transform_reals(ptrdiff_t n0, ptrdiff_t n1, unsigned flags) {
  const ptrdiff_t half = n1 / 2 + 1, lengths[2] = {n0, n1};
  ptrdiff_t mine = 0, begin = 0;
  const ptrdiff_t room = fftw_mpi_local_size_2d(n0, half, MPI_COMM_WORLD, &mine, &begin);
  double* data = fftw_alloc_real((size_t)(2 * room));
  fftw_complex* out = (fftw_complex*)data;
  fftw_plan forth = fftw_mpi_plan_dft_r2c_2d(n0, n1, data, out, MPI_COMM_WORLD, flags);
  fftw_plan back = fftw_mpi_plan_dft_c2r_2d(n0, n1, out, data, MPI_COMM_WORLD, flags);
  fftw_complex* whole = fftw_alloc_complex((size_t)(n0 * half));
  double* input = fftw_alloc_real((size_t)(n0 * n1));
  fftw_plan plain = fftw_plan_dft_r2c_2d((int)n0, (int)n1, input, whole, FFTW_ESTIMATE);
  for (ptrdiff_t i = 0; i < n0 * n1; ++i) input[i] = creal(value_at(i));
  fftw_execute(plain);
  for (ptrdiff_t row = 0; row < mine; ++row)
    for (ptrdiff_t i = 0; i < n1; ++i)
      data[row * 2 * half + i] = creal(value_at((begin + row) * n1 + i));
  fftw_execute(forth);
  double difference = 0, largest = 0;
  for (ptrdiff_t i = 0; i < mine * half; ++i) {
    difference = fmax(difference, cabs(out[i] - whole[begin * half + i]));
    largest = fmax(largest, cabs(whole[begin * half + i]));
  }
  expect(difference, largest, "real transform", 2, lengths);
  fftw_execute(back);
  difference = 0;
  for (ptrdiff_t row = 0; row < mine; ++row)
    for (ptrdiff_t i = 0; i < n1; ++i)
      difference = fmax(difference, fabs(data[row * 2 * half + i] / (double)(n0 * n1) -
                                         creal(value_at((begin + row) * n1 + i))));
  expect(difference, 1, "real transform back", 2, lengths);
  fftw_destroy_plan(forth);
  fftw_destroy_plan(back);
  fftw_destroy_plan(plain);
  fftw_free(data);
  fftw_free(whole);
  fftw_free(input);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  fftw_mpi_init();
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  /* Patient plans try every way there is to move the data, also those by MPI_Alltoall(v), and take
   * the fastest. */
  const unsigned ways[] = {FFTW_ESTIMATE, FFTW_PATIENT};
  for (int i = 0; i < 2; ++i) {
    const ptrdiff_t lines[] = {36, 4096, 46656};
    const ptrdiff_t planes[][2] = {{16, 16}, {60, 35}, {256, 128}};
    const ptrdiff_t cubes[][3] = {{8, 8, 8}, {15, 9, 14}, {48, 32, 40}};
    for (int k = 0; k < (ways[i] == FFTW_ESTIMATE ? 3 : 2); ++k) {
      transform_line(lines[k], ways[i]);
      transform_slabs(2, planes[k], ways[i]);
      transform_slabs(3, cubes[k], ways[i]);
      transform_reals(planes[k][0], planes[k][1], ways[i]);
    }
  }
  fftw_mpi_cleanup();
  MPI_Finalize();
  if (me == 0 && !failed) puts("well done");
  return failed;
}
