#!/bin/bash
# test.sh BIN_DIR [PROGRAM...]: real MPI programs, as Debian has them, with libibcoll_mpi.so before Open MPI. Each gives
# the results that it gives without, and the library's report says that the engine has carried its calls out.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly ALL_PROGRAMS="hpcc fftw mpi4py lammps espresso"
if [ $# -lt 1 ] || [ ! -f "$1/libibcoll_mpi.so" ]; then
  echo "Usage: test.sh BIN_DIR [PROGRAM...]: of $ALL_PROGRAMS; BIN_DIR holds libibcoll_mpi.so" >&2
  exit 2
fi
LIBRARY=$(cd "$1" && pwd)/libibcoll_mpi.so
export LIBRARY
shift
[ $# -gt 0 ] || read -ra programs <<<"$ALL_PROGRAMS"
[ $# -eq 0 ] || programs=("$@")
failed=0
for program in "${programs[@]}"; do
  if [ ! -f "$here/$program.sh" ]; then
    echo "test.sh: unknown program \"$program\": there are $ALL_PROGRAMS" >&2
    exit 2
  fi
  WORK=$(mktemp -d "${TMPDIR:-/tmp}/ibcoll-$program-XXXXXX")
  export WORK
  begin=$SECONDS
  if (cd "$WORK" && bash "$here/$program.sh"); then
    echo "test.sh: $program: passed ($((SECONDS - begin)) s)"
    rm -rf "$WORK"
  else
    echo "test.sh: $program: FAILED; what it wrote is in $WORK" >&2
    failed=1
  fi
done
exit $failed
