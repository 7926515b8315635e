# shellcheck shell=bash
# Sourced by scripts that run programs under an MPI library alone, and with libibcoll_mpi.so before
# it, which takes over all calls. They set `root`, a folder for their files, `preload`, and `beneath`:
# what is preloaded either way, or nothing.
# shellcheck disable=SC2154  # root and beneath

# die_unbuilt TEXT: ends a script that can't build what it is to run.
die_unbuilt() {
  echo "${0##*/}: $*" >&2
  exit 2
}

# take_options 'NAME...' ARGUMENT...: sets the variables of those names to what options like --NAME VALUE say, and
# `arguments` to what follows them. --help prints the comment at the top of the script.
take_options() {
  local names=" $1 "
  shift
  while [[ ${1:-} == --* ]]; do
    if [ "$1" = --help ]; then
      sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0"
      exit 0
    fi
    [[ $names == *" ${1#--} "* ]] || die_unbuilt "$1 is no option"
    [ $# -gt 1 ] || die_unbuilt "$1 needs a value"
    printf -v "${1#--}" %s "$2"
    shift 2
  done
  # shellcheck disable=SC2034  # for the script
  arguments=("$@")
}

# find_launcher MPICC: sets `compiler`, its path, and `launch`, the command that starts ranks. mpicc.mpich
# has mpiexec.mpich beside it, another mpicc mpiexec, and so has mpicc_abi.
find_launcher() {
  command -v "$1" >/dev/null || die_unbuilt "$1 is not installed"
  compiler=$(command -v "$1")
  compiler=$(cd "${compiler%/*}" && pwd)/${compiler##*/} # its name says which launcher is its
  local launcher=${compiler%/*}/mpiexec${compiler##*mpicc}
  launcher=${launcher%_abi}
  [ -x "$launcher" ] || die_unbuilt "$launcher, the launcher of $1, is not there"
  launch=("$launcher")
  if "$launcher" --version 2>&1 | grep -qi 'open\(rte\| mpi\|pmix\)'; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    launch+=(--oversubscribe)
  fi
}

# find_libraries: makes the paths of what is preloaded absolute: programs run elsewhere.
find_libraries() {
  [ -f "$preload" ] || die_unbuilt "$preload is not there"
  preload=$(realpath "$preload")
  if [ -n "$beneath" ]; then
    [ -f "$beneath" ] || die_unbuilt "$beneath is not there"
    beneath=$(realpath "$beneath")
  fi
  [[ $preload$beneath != *[[:blank:]:]* ]] || die_unbuilt "$preload $beneath: LD_PRELOAD takes no blanks nor colons"
}

# make_root KEEP OF: sets `root` to that folder, or to one that goes at the end. OF: what its programs are made of;
# those of a kept folder are not used again for anything else.
make_root() {
  root=$1
  if [ -z "$root" ]; then
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
  fi
  mkdir -p "$root" || die_unbuilt "$root can't be made"
  root=$(cd "$root" && pwd)
  [ ! -f "$root/made-of" ] || [ "$(cat "$root/made-of")" = "$2" ] ||
    die_unbuilt "$root holds programs of $(cat "$root/made-of"), not of $2"
  echo "$2" >"$root/made-of"
}

group_runs=0 group_alone=0 group_both=0 group_calls=0 all_runs=0 all_alone=0 all_both=0 all_calls=0 worse=0

# passes CHECK RANKS SECONDS SETTINGS PROGRAM ARGUMENT...: whether the program comes back with 0, and
# CHECK accepts the file that has its output. SETTINGS: words for env.
passes() {
  local check=$1 ranks=$2 seconds=$3 settings
  read -ra settings <<<"$4"
  shift 4
  (cd "$root" && timeout -k 5 "$seconds" "${launch[@]}" -n "$ranks" env -u IBCOLL_SOURCES "${settings[@]}" "$@") \
    </dev/null >"$root/output" 2>&1
  local status=$?
  # MVAPICH's launcher leaves ranks behind that go on waiting.
  pkill -KILL -f "^$root/"
  [ $status -eq 0 ] && "$check" "$root/output"
}

# count_engine_calls: adds the calls that ibcoll has carried out, by the library's report. Programs that end with an
# error, or without collectives, leave none.
count_engine_calls() {
  [ -f "$root/report" ] || return 0
  group_calls=$((group_calls + $(sed -n 's/.*"engine_calls":\([0-9]*\).*/\1/p' "$root/report" | paste -sd+) + 0))
}

# run_two_ways NAME CHECK RANKS SECONDS PROGRAM ARGUMENT...: runs and counts; says where the two differ.
run_two_ways() {
  local name=$1 check=$2 ranks=$3 seconds=$4 alone=no both=no
  shift 4
  passes "$check" "$ranks" "$seconds" "${beneath:+LD_PRELOAD=$beneath} IBCOLL_MPI=off" "$@" && alone=yes
  rm -f "$root/report"
  passes "$check" "$ranks" "$seconds" \
    "LD_PRELOAD=$preload${beneath:+:$beneath} IBCOLL_MPI_FUNCTIONS=all IBCOLL_MPI_REPORT=report" "$@" && both=yes
  count_engine_calls
  group_runs=$((group_runs + 1))
  [ $alone = yes ] && group_alone=$((group_alone + 1))
  [ $both = yes ] && group_both=$((group_both + 1))
  [ $alone = $both ] && return
  echo "$name $ranks ${*:2} alone: $alone, with ibcoll: $both"
  if [ $alone = yes ]; then
    worse=$((worse + 1))
    tail -5 "$root/output" | sed 's/^/    /'
  fi
}

say_counts() {
  printf '%-14s %4d runs, %4d pass alone, %4d with ibcoll, which carried out %d calls of theirs\n' "$@"
}

# end_group NAME: says what passed since the last one.
end_group() {
  say_counts "$1" $group_runs $group_alone $group_both $group_calls
  all_runs=$((all_runs + group_runs)) all_alone=$((all_alone + group_alone)) all_both=$((all_both + group_both))
  all_calls=$((all_calls + group_calls))
  group_runs=0 group_alone=0 group_both=0 group_calls=0
}

# end_all [calls]: says what passed in all; fails if something passes alone only, or nothing does; with "calls", also if
# ibcoll has carried out none.
end_all() {
  say_counts all $all_runs $all_alone $all_both $all_calls
  echo "$worse fail with ibcoll that pass alone"
  [ $all_alone -gt 0 ] || die_unbuilt "nothing passes with the MPI library alone"
  [ "${1:-}" != calls ] || [ $all_calls -gt 0 ] || die_unbuilt "no call was ibcoll's: $preload does not work with this MPI library"
  [ $worse -eq 0 ]
}
