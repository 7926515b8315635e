#!/bin/bash
# mpich_suite.sh [--mpicc MPICC] [--tag TAG] [--preload LIBRARY] [--most RANKS] [--limit SECONDS]
#                [--keep DIR] [FOLDER...]
#
# MPICH's own tests, from IBCOLL_SOURCES/mpich, a git repository of its sources: each line of the
# folders' lists is run by an MPI library alone, and with libibcoll_mpi.so before it, which takes
# over all calls (IBCOLL_MPI_FUNCTIONS=all). Prints what passes. Exit status: 1 if a line that
# passes alone fails with ibcoll, 2 if the tests could not be built.
#   --mpicc    the compiler of the MPI library (mpicc.mpich); its launcher lies beside it
#   --tag      of the repository (v4.0.2)
#   --preload  the library (build/bin/libibcoll_mpi.so of this tree)
#   --most     leaves out lines with more ranks (none)
#   --limit    seconds that a line may take which does not say so itself (60)
#   --keep     where the programs are built; they are used again (a folder that goes at the end)
# A line passes if its program says "No Errors" and comes back with 0, as MPICH's own script has it.
set -u
shopt -s nullglob

here=$(cd "$(dirname "$0")/../.." && pwd)
mpicc=mpicc.mpich tag=v4.0.2 preload=$here/build/bin/libibcoll_mpi.so most=0 limit=60 keep=''
while [[ ${1:-} == --* ]]; do
  case $1 in
    --help)
      sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0"
      exit 0
      ;;
    --mpicc) mpicc=$2 ;;
    --tag) tag=$2 ;;
    --preload) preload=$2 ;;
    --most) most=$2 ;;
    --limit) limit=$2 ;;
    --keep) keep=$2 ;;
    *)
      echo "mpich_suite.sh: $1 is no option" >&2
      exit 2
      ;;
  esac
  shift 2
done
folders=("$@")
[ $# -gt 0 ] || folders=(coll comm topo threads/coll threads/comm errors/coll f77/coll f08/coll)

fail() {
  echo "mpich_suite.sh: $*" >&2
  exit 2
}

sources=${IBCOLL_SOURCES:-}/mpich
git -C "$sources" cat-file -e "$tag^{commit}" 2>/dev/null ||
  fail "IBCOLL_SOURCES=DIR must have MPICH's git repository, with $tag, as DIR/mpich"
command -v "$mpicc" >/dev/null || fail "$mpicc is not installed"
[ -f "$preload" ] || fail "$preload is not there"

# mpicc.mpich has mpiexec.mpich beside it, another mpicc mpiexec, and so has mpicc_abi.
compiler=$(command -v "$mpicc")
launcher=${compiler%/*}/mpiexec${compiler##*mpicc}
launcher=${launcher%_abi}
[ -x "$launcher" ] || fail "$launcher, the launcher of $mpicc, is not there"
launch=("$launcher")
if "$launcher" --version 2>&1 | grep -qi 'open\(rte\| mpi\|pmix\)'; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  launch+=(--oversubscribe)
fi

root=$keep
if [ -z "$root" ]; then
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
fi
mkdir -p "$root" || fail "$root can't be made"
root=$(cd "$root" && pwd)
git -C "$sources" archive "$tag" test/mpi | tar x -C "$root" || fail "the sources can't be unpacked"
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
  compile "$root/$unit.o" -c "$tests/util/$unit.c" || fail "$unit.c: $(tail -3 "$root/compiler")"
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
compile "$root/mtest.o" -c "$tests/util/mtest.c" || fail "mtest.c: $(tail -3 "$root/compiler")"
compile "$root/mtest_threads.o" -DMTEST_USE_THREAD -c "$tests/util/mtest.c" ||
  fail "mtest.c: $(tail -3 "$root/compiler")"
compile "$root/mtest_thread.o" -DMTEST_USE_THREAD -c "$tests/util/mtest_thread.c" ||
  fail "mtest_thread.c: $(tail -3 "$root/compiler")"

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

# passes RANKS SECONDS PROGRAM ARGUMENT..., with the settings in `with`.
passes() {
  local ranks=$1 seconds=$2
  shift 2
  (cd "$root" && timeout -k 5 "$seconds" "${launch[@]}" -n "$ranks" env -u IBCOLL_SOURCES "${with[@]}" "$@") \
    </dev/null >"$root/output" 2>&1 && grep -q 'No Errors' "$root/output"
}

lines=0 alone=0 both=0 unbuilt=() differ=()
for folder in "${folders[@]}"; do
  in_folder=0 in_alone=0 in_both=0
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
      program=("$root/bin/$folder/$name" "${arguments[@]}")
      in_folder=$((in_folder + 1))
      with=(IBCOLL_MPI=off)
      first=no
      passes "$ranks" "$seconds" "${program[@]}" && first=yes
      with=("LD_PRELOAD=$preload" IBCOLL_MPI_FUNCTIONS=all)
      second=no
      passes "$ranks" "$seconds" "${program[@]}" && second=yes
      [ $first = yes ] && in_alone=$((in_alone + 1))
      [ $second = yes ] && in_both=$((in_both + 1))
      if [ $first != $second ]; then
        line="$folder/$name $ranks ${arguments[*]} alone: $first, with ibcoll: $second"
        differ+=("$line")
        echo "$line"
        [ $first = yes ] && sed 's/^/    /' "$root/output" | tail -5
      fi
    done <"$list"
    break
  done
  printf '%-14s %4d lines, %4d pass alone, %4d with ibcoll\n' "$folder" $in_folder $in_alone $in_both
  lines=$((lines + in_folder)) alone=$((alone + in_alone)) both=$((both + in_both))
done
printf '%-14s %4d lines, %4d pass alone, %4d with ibcoll\n' all $lines $alone $both
[ ${#unbuilt[@]} -eq 0 ] || echo "not built: ${unbuilt[*]}"
worse=0
for line in "${differ[@]}"; do
  [[ $line == *'alone: yes'* ]] && worse=$((worse + 1))
done
echo "$worse fail with ibcoll that pass alone"
[ $worse -eq 0 ]
