#!/bin/bash
# mpich_suite.sh [--mpicc MPICC] [--tag TAG] [--preload LIBRARY] [--beneath LIBRARY] [--most RANKS]
#                [--limit SECONDS] [--keep DIR] [FOLDER...]
#
# MPICH's own tests, from IBCOLL_SOURCES/mpich, a git repository of its sources: each line of the
# folders' lists is run by an MPI library alone, and with libibcoll_mpi.so before it, which takes
# over all calls (IBCOLL_MPI_FUNCTIONS=all). Prints what passes. Exit status: 1 if a line that
# passes alone fails with ibcoll, 2 if the tests could not be built.
#   --mpicc    the compiler of the MPI library (mpicc.mpich); its launcher lies beside it
#   --tag      of the repository (v4.0.2)
#   --preload  the library (build/bin/libibcoll_mpi.so of this tree)
#   --beneath  a library that is preloaded either way: with libcompare_mpi_yield.so, ranks of MPICH yield
#              while they wait, without which more ranks than cores take minutes
#   --most     leaves out lines with more ranks (none)
#   --limit    seconds that a line may take which does not say so itself (60)
#   --keep     where the programs are built; they are used again (a folder that goes at the end)
# A line passes if its program says "No Errors" and comes back with 0, as MPICH's own script has it.
set -u
shopt -s nullglob

here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/mpi/two_ways.sh"
mpicc=mpicc.mpich tag=v4.0.2 preload=$here/build/bin/libibcoll_mpi.so most=0 limit=60 keep='' beneath=''
take_options 'mpicc tag preload beneath most limit keep' "$@"
folders=("${arguments[@]}")
[ ${#folders[@]} -gt 0 ] || folders=(coll comm topo threads/coll threads/comm errors/coll f77/coll f08/coll)

sources=${IBCOLL_SOURCES:-}/mpich
git -C "$sources" cat-file -e "$tag^{commit}" 2>/dev/null ||
  die_unbuilt "IBCOLL_SOURCES=DIR must have MPICH's git repository, with $tag, as DIR/mpich"
find_libraries
find_launcher "$mpicc"
make_root "$keep" "$compiler $tag"
git -C "$sources" archive "$tag" test/mpi | tar x -C "$root" || die_unbuilt "the sources can't be unpacked"
tests=$root/test/mpi

# What MPICH's configure would find here.
make_configuration() {
  local header
  for header in STDARG STRING STDLIB STDINT UNISTD PTHREAD INTTYPES; do
    echo "#define HAVE_${header}_H 1"
  done
  cat <<'CONFIGURATION'
#define STDC_HEADERS 1
#define HAVE_SYS_TIME_H 1
#define HAVE_SYS_RESOURCE_H 1
#define HAVE_GETRUSAGE 1
#define HAVE_STRDUP 1
#define HAVE_USLEEP 1
#define HAVE_MPI_WIN_CREATE 1
#define HAVE_MPI_SPAWN 1
#define HAVE_MPI_IO 1
#define HAVE_LONG_LONG 1
#define HAVE_LONG_LONG_INT 1
#define HAVE_LONG_DOUBLE 1
#define HAVE__BOOL 1
#define HAVE_FLOAT__COMPLEX 1
#define HAVE_DOUBLE__COMPLEX 1
#define HAVE_LONG_DOUBLE__COMPLEX 1
#define SIZEOF_VOID_P __SIZEOF_POINTER__
#define POINTERINT_t long
#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX
CONFIGURATION
}
make_configuration >"$tests/include/mpitestconf.h"
cp "$tests/include/mpitestconf.h" "$tests/dtpools/dtpoolsconf.h"
: >"$tests/include/mtest_mpix.h"

includes=(-I"$tests/include" -I"$tests/dtpools/include")
# compile OUTPUT ARGUMENT...
compile() {
  local output=$1
  shift
  [ -e "$output" ] && [ -n "$keep" ] && return 0
  "$mpicc" -w -O1 "${includes[@]}" "$@" -o "$output" 2>>"$root/compiler"
}
for unit in mtest_common dtypes mtest_single; do
  compile "$root/$unit.o" -c "$tests/util/$unit.c" || die_unbuilt "$unit.c: $(tail -3 "$root/compiler")"
done
pools=()
for unit in "$tests"/dtpools/src/*.c; do
  unit=${unit##*/}
  # What MPI 3 has removed is missing in some MPIs: then programs with pools of datatypes can't be built.
  compile "$root/${unit%.c}.o" -c "$tests/dtpools/src/$unit" || {
    pools=()
    break
  }
  pools+=("$root/${unit%.c}.o")
done
compile "$root/mtest.o" -c "$tests/util/mtest.c" || die_unbuilt "mtest.c: $(tail -3 "$root/compiler")"
compile "$root/mtest_threads.o" -DMTEST_USE_THREAD -c "$tests/util/mtest.c" ||
  die_unbuilt "mtest.c: $(tail -3 "$root/compiler")"
compile "$root/mtest_thread.o" -DMTEST_USE_THREAD -c "$tests/util/mtest_thread.c" ||
  die_unbuilt "mtest_thread.c: $(tail -3 "$root/compiler")"

# of FOLDER NAME VARIABLE: what the folder's Makefile.am says of a program.
of() {
  sed -n "s/^$2_$3 *= *//p" "$tests/$1/Makefile.am" | head -1
}

# build_fortran FOLDER NAME f|f90 UNIT: a program in Fortran, by the compiler that lies beside mpicc.
build_fortran() {
  local folder=$1 name=$2 suffix=$3 unit=$4 fortran=${compiler%/*}/mpif90${compiler##*mpicc}
  (cd "$root/bin/$folder" && "$fortran" -w -O1 -fallow-argument-mismatch "$tests/$folder/$name.$suffix" \
    "$tests/util/$unit" -o "$name") 2>>"$root/compiler"
}

# build FOLDER NAME: the program, once; false: it can't be built.
build() {
  local folder=$1 name=$2 program=$root/bin/$1/$2 source flag
  local flags=() files=() units=("$root/mtest.o" "$root/mtest_single.o")
  [ -x "$program" ] && return 0
  [ -e "$program.failed" ] && return 1
  mkdir -p "${program%/*}"
  case $folder in
    f77/*) build_fortran "$folder" "$name" f mtest_f77.f && return 0 ;;
    f08/*) build_fortran "$folder" "$name" f90 mtest_f08.f90 && return 0 ;;
  esac
  for source in $(of "$folder" "$name" SOURCES); do
    files+=("$tests/$folder/$source")
  done
  [ ${#files[@]} -gt 0 ] || files=("$tests/$folder/$name.c")
  for flag in $(of "$folder" "$name" CPPFLAGS); do
    [[ $flag == -D* ]] && flags+=("$flag")
  done
  if [[ $folder == threads/* ]]; then
    units=("$root/mtest_threads.o" "$root/mtest_thread.o")
    flags+=(-DMTEST_USE_THREAD)
  fi
  compile "$program" "${flags[@]}" -I"$tests/$folder" "${files[@]}" "${units[@]}" \
    "$root/mtest_common.o" "$root/dtypes.o" "${pools[@]}" -lpthread -lm && return 0
  : >"$program.failed"
  return 1
}

says_no_errors() { grep -q 'No Errors' "$1"; }

unbuilt=()
for folder in "${folders[@]}"; do
  [ -f "$tests/$folder/testlist" ] || [ -f "$tests/$folder/testlist.in" ] || die_unbuilt "$folder has no list of tests"
  for list in "$tests/$folder/testlist" "$tests/$folder/testlist.in"; do
    [ -f "$list" ] || continue
    while read -r name ranks options; do
      # Settings of configure stand before some lines: this one is on, others (@ftest@) are not.
      [ "$name" = @comm_overlap@ ] && read -r name ranks options <<<"$ranks $options"
      [[ $name == @* ]] && continue
      [[ -z $name || $name == \#* ]] && continue
      [ -n "$ranks" ] || ranks=2
      [ "$most" -gt 0 ] && [ "$ranks" -gt "$most" ] && continue
      arguments=() seconds=$limit
      for option in $options; do
        case $option in
          arg=*) arguments+=("${option#arg=}") ;;
          timeLimit=*) seconds=${option#timeLimit=} ;;
        esac
      done
      if ! build "$folder" "$name"; then
        unbuilt+=("$folder/$name")
        continue
      fi
      run_two_ways "$folder/$name" says_no_errors "$ranks" "$seconds" "$root/bin/$folder/$name" "${arguments[@]}"
    done <"$list"
    break
  done
  end_group "$folder"
done
[ ${#unbuilt[@]} -eq 0 ] || echo "not built: ${unbuilt[*]}"
if [[ ${folders[*]} == *coll* ]]; then end_all calls; else end_all; fi
