#!/bin/bash
# FFTW's transforms over MPI against the serial ones.
source "$(dirname "$0")/common.sh"
mpicc.openmpi -std=gnu11 -O1 -Wall -Wextra "$(dirname "$0")/fftw_mpi.c" -o fftw_mpi -lfftw3_mpi -lfftw3 -lm
for ranks in 2 3; do
  preloaded $ranks ./fftw_mpi >out
  expect_line out '^well done$'
  expect_engine alltoall alltoallv allreduce bcast
done
