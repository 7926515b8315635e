#!/bin/bash
# programs.sh NAME MPICC FOLDER: builds the C programs that the tests of libibcoll_mpi.so run, with the compiler of an MPI that
# is not Debian's, as FOLDER/mpi_sweep_NAME and so on. CMake builds those of Debian's MPIs.
set -euo pipefail
[ $# -eq 3 ] || {
  echo "usage: programs.sh NAME MPICC FOLDER" >&2
  exit 2
}
name=$1 mpicc=$2 folder=$3
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
sources=$root/tests/mpi/programs
compile() { "$mpicc" -std=gnu11 -O1 -Wall -Wextra -Wno-stringop-overflow -Wno-deprecated-declarations "$@"; }
# Without MPI-IO, MPICH 4 does not declare its functions either.
io=()
echo '#include <mpi.h>
int (*close_file)(MPI_File *) = MPI_File_close;' | compile -fsyntax-only -x c - 2>/dev/null || io=(-DNO_MPI_IO)
compile "${io[@]}" "$sources"/sweep/*.c -o "$folder/mpi_sweep_$name" -lpthread
compile "$sources/traffic.c" -o "$folder/mpi_traffic_$name"
compile "$sources/sessions.c" -o "$folder/mpi_sessions_$name"
