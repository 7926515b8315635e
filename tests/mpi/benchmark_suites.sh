#!/bin/bash
# benchmark_suites.sh [--mpicc MPICC] [--preload LIBRARY] [--beneath LIBRARY] [--ranks N,N...]
#                     [--limit SECONDS] [--keep DIR] [SUITE...]
#
# Benchmarks that check what they receive, from git repositories of their sources in the folder that
# IBCOLL_SOURCES names: each is run by an MPI library alone, and with libibcoll_mpi.so before it,
# which takes over all calls (IBCOLL_MPI_FUNCTIONS=all). Prints what passes. Exit status: 1 if a run
# that passes alone fails with ibcoll, 2 if a suite could not be built.
#   osu  OSU micro-benchmarks 7 (DIR/osu): collectives, blocking, nonblocking, persistent, of
#        neighbours; with -c, which compares what arrives, in the types int, char and float
#   imb  Intel MPI Benchmarks (DIR/imb): IMB-MPI1 and IMB-NBC, built with CHECK
#   npb  NAS Parallel Benchmarks 3 (DIR/npb, in NPB3.3-MPI): IS, CG, MG, FT and LU of classes S and W;
#        where the MPI library has no Fortran, IS alone
#   --mpicc    the compiler of the MPI library (mpicc.mpich); its launcher lies beside it
#   --preload  the library (build/bin/libibcoll_mpi.so of this tree)
#   --beneath  a library that is preloaded either way: with libcompare_mpi_yield.so, ranks of MPICH yield
#              while they wait, without which more ranks than cores take minutes
#   --ranks    numbers of ranks (2,3,4); NPB takes powers of two
#   --limit    seconds that a run may take (120)
#   --keep     where the programs are built; they are used again (a folder that goes at the end)
# Examples:
#   IBCOLL_SOURCES=$HOME/sources tests/mpi/benchmark_suites.sh
#   IBCOLL_SOURCES=$HOME/sources tests/mpi/benchmark_suites.sh --mpicc mpicc.openmpi --ranks 4 osu
set -u

here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/mpi/two_ways.sh"
mpicc=mpicc.mpich preload=$here/build/bin/libibcoll_mpi.so ranks=2,3,4 limit=120 keep='' beneath=''
take_options 'mpicc preload beneath ranks limit keep' "$@"
[[ $ranks =~ ^[1-9][0-9]*(,[1-9][0-9]*)*$ ]] || die_unbuilt "--ranks $ranks: must be numbers with commas"
suites=("${arguments[@]}")
[ ${#suites[@]} -gt 0 ] || suites=(osu imb npb)
for suite in "${suites[@]}"; do
  [[ $suite == osu || $suite == imb || $suite == npb ]] || die_unbuilt "there is no suite $suite: one of osu, imb, npb"
  git -C "${IBCOLL_SOURCES:-}/$suite" cat-file -e HEAD 2>/dev/null ||
    die_unbuilt "IBCOLL_SOURCES=DIR must have a git repository of the suite's sources as DIR/$suite"
done
find_libraries
find_launcher "$mpicc"
make_root "$keep" "$compiler"

# beside NAME: the MPI library's compiler of that name.
beside() { echo "${compiler%/*}/$1${compiler##*mpicc}"; }

# unpack SUITE: its sources, once, under `root`; false: they are there.
unpack() {
  [ -e "$root/$1/unpacked" ] && return 1
  rm -rf "${root:?}/$1"
  mkdir "$root/$1"
  git -C "$IBCOLL_SOURCES/$1" archive HEAD | tar x -C "$root/$1" || die_unbuilt "the sources of $1 can't be unpacked"
}

# built SUITE COMMAND...: builds, and says why not.
built() {
  local suite=$1
  shift
  "$@" >"$root/$suite.log" 2>&1 || die_unbuilt "$suite: $* failed: $(tail -3 "$root/$suite.log")"
}

build_osu() {
  unpack osu || return
  # What configure is made from may look newer than it.
  find "$root/osu" -name '*.in' -exec touch {} + -o -name configure -exec touch {} +
  built osu env -C "$root/osu" ./configure CC="$compiler" CXX="$(beside mpicxx)" \
    ACLOCAL=: AUTOCONF=: AUTOHEADER=: AUTOMAKE=:
  built osu make -C "$root/osu/c/mpi/collective" -j"$(nproc)"
  : >"$root/osu/unpacked"
}

build_imb() {
  unpack imb || return
  local target
  # Warnings of other compilers than the authors' are not errors.
  find "$root/imb" -name 'Makefile*' -exec sed -i 's/-Werror//g' {} +
  for target in MPI1 NBC; do
    built imb make -C "$root/imb/src_cpp" -j"$(nproc)" TARGET=$target CC="$compiler" CXX="$(beside mpicxx)" CPPFLAGS=-DCHECK
  done
  : >"$root/imb/unpacked"
}

# build_npb BENCHMARK CLASS RANKS
build_npb() {
  local fortran
  unpack npb && : >"$root/npb/unpacked"
  [ -x "$root/npb/NPB3.3-MPI/bin/$1.$2.$3" ] && return
  fortran="$(beside mpif77) -fallow-argument-mismatch -std=legacy -w"
  mkdir -p "$root/npb/NPB3.3-MPI/bin"
  cat >"$root/npb/NPB3.3-MPI/config/make.def" <<DEFINITIONS
MPIF77 = $fortran
FLINK = $fortran
FFLAGS = -O2
FLINKFLAGS = -O2
MPICC = $compiler
CLINK = $compiler
CFLAGS = -O2 -w
CLINKFLAGS = -O2
CC = cc
BINDIR = ../bin
RAND = randi8
DEFINITIONS
  built npb make -C "$root/npb/NPB3.3-MPI" clean
  built npb make -C "$root/npb/NPB3.3-MPI" "$1" CLASS="$2" NPROCS="$3"
}

osu_passes() { grep -q '^[0-9]' "$1" && ! grep -qi 'fail' "$1"; }
# Of each line of figures the last column counts wrong data.
imb_passes() {
  ! grep -qi 'error' "$1" && awk '/^ +[0-9]+ +[0-9]+ / { ++lines; if ($NF != "0.00") ++bad } END { exit lines == 0 || bad > 0 }' "$1"
}
npb_passes() { grep -qi 'verification *= *successful' "$1"; }

run_osu() {
  local program type count
  for program in "$root"/osu/c/mpi/collective/{blocking,non_blocking,persistent,neighborhood}/osu_*; do
    # Barriers carry nothing that could be compared.
    [[ -x $program && $program != *.* && $program != *barrier* ]] || continue
    for type in mpi_int mpi_char mpi_float; do
      for count in ${ranks//,/ }; do
        # Their neighbourhoods need three ranks.
        [[ $program == */neighborhood/* && $count -lt 3 ]] && continue
        run_two_ways "osu/${program##*/}" osu_passes "$count" "$limit" "$program" -c -T $type -i 10 -x 2 -m 4:262144
      done
    done
  done
}

run_imb() {
  local name count program
  for name in Allgather Allgatherv Allreduce Alltoall Alltoallv Bcast Gather Gatherv Reduce Reduce_scatter Scatter Scatterv; do
    for count in ${ranks//,/ }; do
      for program in "IMB-MPI1 $name" "IMB-NBC I${name,}_pure"; do
        # shellcheck disable=SC2086  # a program and its argument
        run_two_ways imb imb_passes "$count" "$limit" "$root/imb/src_cpp/"$program -iter 10 -msglog 2:18
      done
    done
  done
}

run_npb() {
  local name class count names="is"
  [ -x "$(beside mpif77)" ] && names="is cg mg ft lu"
  for name in $names; do
    for class in S W; do
      for count in ${ranks//,/ }; do
        ((count & (count - 1))) && continue
        build_npb $name $class "$count"
        run_two_ways npb npb_passes "$count" "$limit" "$root/npb/NPB3.3-MPI/bin/$name.$class.$count"
      done
    done
  done
}

for suite in "${suites[@]}"; do
  [ "$suite" = npb ] || "build_$suite"
  "run_$suite"
  end_group "$suite"
done
end_all calls
