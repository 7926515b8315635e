#!/bin/bash
# test.sh [VERSION...]: builds these versions of UCC (all of build_ucc.sh) and the team layer for each, and runs the layer's own
# tests, and UCC's ucc_test_mpi with the layer and without it, and prints the counts of both. IBCOLL_SOURCES: as for build_ucc.sh; if
# a repository "ompi" is there, Open MPI's coll/ucc is built and tested, too. Exit status 0: all went well, but for tests of UCC's that
# fail without the layer, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly BUILD=build # of the preset "release"
versions=("$@")
[ $# -gt 0 ] || read -ra versions <<<"1.2.0 1.3.0 1.4.4 1.5.1 1.6.0 1.7.0 1.8.0 1.9.0-rc1"
failed=0
say() { echo "ucc: $*" >&2; }
fail() {
  say "FAILED: $*"
  failed=1
}

trees=""
for version in "${versions[@]}"; do
  if tree=$(tests/ucc/build_ucc.sh "$version"); then trees+="${trees:+;}$tree"; else fail "build of UCC $version"; fi
done
[ -n "$trees" ] || exit 1

work=$(mktemp -d "${TMPDIR:-/tmp}/ibcoll-ucc-XXXXXX")
# Later builds in this folder are without the layer again.
trap 'rm -rf "$work"; cmake -DIBCOLL_UCC_SOURCE_DIR= "$BUILD" >/dev/null' EXIT
if ! { cmake --preset release "-DIBCOLL_UCC_SOURCE_DIR=$trees" && cmake --build "$BUILD" --target ucc_layers; } >"$work/log" 2>&1; then
  grep -vE '^\[[0-9]+/[0-9]+\]|^-- ' "$work/log" | tail -n 30 >&2
  fail "build of the team layer"
  exit 1
fi
# Open MPI's own use of UCC, if its sources are there.
sources=${IBCOLL_SOURCES:-}
if [ -e "$sources/ompi" ]; then cmake --build "$BUILD" --target mpi_sweep_openmpi >"$work/log" 2>&1 || fail "build of the sweep for Open MPI"; fi
gcc -O2 -shared -fPIC -o "$work/yield.so" tests/ucc/yield.c -ldl

say "the layer's own tests"
ctest --test-dir "$BUILD" --label-regex '^ucc$' --output-on-failure >"$work/log" 2>&1 || {
  tail -n 60 "$work/log" >&2
  fail "the layer's own tests"
}
sed -n 's/^\([0-9]*% tests passed.*\)/layer'"'"'s own tests: \1/p' "$work/log"

# mpirun_with TREE RANKS LAYERS ARGUMENTS...: starts MPI processes that find the tree's UCC, with some layers of it.
mpirun_with() {
  local tree=$1 ranks=$2 layers=$3 minor
  shift 3
  minor=$(basename "$tree" | sed 's/^ucc-\([0-9]*\.[0-9]*\).*/\1/')
  env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_mpi_yield_when_idle=1 \
    LD_LIBRARY_PATH="$PWD/$BUILD/bin/ucc-$minor/installed" UCX_TLS=self,sm UCC_TLS="$layers" \
    timeout 1800 mpirun.openmpi --oversubscribe --bind-to none -n "$ranks" "$@"
}

# run_open_mpi TREE: the sweep of calls with Open MPI's component coll/ucc; of its parts, those that this component carries out at
# all, and that pass with TL/UCP alone.
run_open_mpi() {
  local tree=$1 folder part ranks count=0
  folder=$(tests/ucc/build_ompi_ucc.sh "$tree") || {
    fail "build of coll/ucc for ${tree##*/}"
    return
  }
  for part in sizes communicators; do
    for ranks in 2 4; do
      mpirun_with "$tree" "$ranks" ibcoll,self,ucp -x UCC_COLL_TRACE=info --mca coll_ucc_enable 1 --mca coll_ucc_priority 100 \
        --mca mca_base_component_path "$folder:/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3" \
        "$BUILD/bin/mpi_sweep_openmpi" "$part" </dev/null >"$work/log" 2>&1 ||
        fail "Open MPI with ${tree##*/}: $part, $ranks ranks ($(tail -n 1 "$work/log"))"
      count=$((count + $(grep -c TL_IBCOLL "$work/log" || true)))
    done
  done
  echo "Open MPI's coll/ucc with ${tree##*/}: $count collectives by the layer"
  [ "$count" -gt 0 ] || fail "Open MPI with ${tree##*/} does not use the layer"
}

# run NAME TREE RANKS LAYERS ARGUMENTS...: runs ucc_test_mpi with some layers of UCC. NAME.failed are the tests that failed.
run() {
  local name=$1 tree=$2 ranks=$3 layers=$4
  shift 4
  local status=0
  mpirun_with "$tree" "$ranks" "$layers" -x LD_PRELOAD="$work/yield.so" \
    "$tree/test/mpi/.libs/ucc_test_mpi" -M host -r all -s 1 "$@" >"$work/$name.log" 2>&1 || status=$?
  # Ranks write parts of lines at the same time: "FAILURE in: FAILURE in: tc=...", or names right behind each other.
  sed 's/FAILURE in: /\n/g; s/tc=/\n&/g' "$work/$name.log" | sed -n 's/^tc=//p' | sort -u >"$work/$name.failed"
  sed -n 's/^total tests: *//p; s/^passed: *//p; s/^skipped: *//p; s/^failed: *//p' "$work/$name.log" | tail -n 4 | paste -sd' ' >"$work/$name.counts"
  [ -s "$work/$name.counts" ] || {
    tail -n 20 "$work/$name.log" >&2
    echo "none (exit status $status)" >"$work/$name.counts"
  }
}

# Each set varies what the other ones do not. A persistent alltoallv hangs with TL/UCP alone.
readonly ALL_TYPES=int8,int16,int32,int64,uint8,uint16,uint32,uint64,float32,float64,float128,float32_complex,float64_complex,float128_complex
readonly INTEGERS=int16,int32,int64,uint16,uint32,uint64 OPERATORS=sum,prod,max,min,land,lor,lxor,band,bor,bxor
readonly REDUCTIONS=allreduce,reduce,reduce_scatter,reduce_scatterv
readonly OTHERS=barrier,bcast,allgather,allgatherv,alltoall,gather,gatherv,scatter,scatterv
sets_of() { # sets_of MINOR
  local types=$ALL_TYPES
  # The test program of 1.2 aborts when it makes MPI combine floats by a logical operator.
  [ "$1" != 1.2 ] || types=$INTEGERS
  echo "types -c $REDUCTIONS -t world -I 2 -m 1024:1024 -d $types -o $OPERATORS -O 0"
  echo "teams -t world,half,reverse,odd_even -I 2 -m 64:65536:32 -C 32,64 -D 32,64 -d int32,float64 -o sum,max -O 0"
  echo "persistent -c $REDUCTIONS,$OTHERS -t world,half,reverse,odd_even -I 2 -P 1 -m 64:65536:1024 -C 32,64 -D 32,64 -d int32 -o sum -O 0"
  echo "alltoallv -c alltoallv -t world,half,reverse,odd_even -I 2 -P 1 -m 64:65536:32 -C 32,64 -D 32,64 -d int32,float64 -O 0"
  [ "$1" = 1.2 ] || echo "onesided -c alltoall,alltoallv -t world,reverse -I 0 -m 64:4096:8 -C 32,64 -D 32,64 -d int32,float64 -O 1"
}

printf '%-10s %-10s %6s | %28s | %28s\n' UCC set ranks "with the layer" "TL/UCP alone"
printf '%-10s %-10s %6s | %28s | %28s\n' "" "" "" "tests passed skipped failed" "tests passed skipped failed"
for tree in ${trees//;/ }; do
  version=${tree##*/ucc-}
  while read -r name arguments; do
    for ranks in 2 4; do
      # shellcheck disable=SC2086  # a list of words
      run with "$tree" "$ranks" ibcoll,self,ucp $arguments </dev/null
      : >"$work/alone.failed"
      echo "not run" >"$work/alone.counts"
      # shellcheck disable=SC2086
      [ "$name" = alltoallv ] || run alone "$tree" "$ranks" self,ucp $arguments </dev/null
      printf '%-10s %-10s %6s | %28s | %28s\n' "$version" "$name" "$ranks" "$(cat "$work/with.counts")" "$(cat "$work/alone.counts")"
      grep -q none "$work/with.counts" && fail "ucc_test_mpi of UCC $version, $name, $ranks ranks: it did not end well"
      if ! comm -23 "$work/with.failed" "$work/alone.failed" | head -n 20 | tee "$work/new" | grep -q . ; then continue; fi
      cat "$work/new"
      fail "ucc_test_mpi of UCC $version, $name, $ranks ranks: tests that pass without the layer (some stand above)"
    done
  done < <(sets_of "$(cut -d. -f1-2 <<<"$version")")
  if [ -e "$sources/ompi" ]; then run_open_mpi "$tree"; fi
done
exit "$failed"
