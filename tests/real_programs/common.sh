# shellcheck shell=bash
# How the tests of real programs start them, and what they expect; sourced by each, which runs in $WORK.
set -euo pipefail
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1

fail() {
  echo "$(basename "$0"): $1" >&2
  exit 1
}

# alone RANKS COMMAND...: under Open MPI as it is.
alone() {
  local ranks=$1
  shift
  timeout 300 mpirun.openmpi --oversubscribe -n "$ranks" "$@"
}

# preloaded RANKS COMMAND...: with the library, whose report goes to ./report.
preloaded() {
  local ranks=$1
  shift
  rm -f report
  alone "$ranks" env LD_PRELOAD="$LIBRARY" IBCOLL_MPI_FUNCTIONS=all IBCOLL_MPI_REPORT="$PWD/report" "$@"
}

# expect_engine FUNCTION...: that the engine has carried calls of each out.
expect_engine() {
  local function
  for function; do
    grep "\"function\":\"$function\"" report | grep -q '"engine_calls":[1-9]' ||
      fail "no call of $function on the engine: $(cat report)"
  done
}

# expect_line FILE PATTERN...: that each stands in the file.
expect_line() {
  local file=$1 pattern
  shift
  for pattern; do
    grep -Eq -- "$pattern" "$file" || fail "$file lacks \"$pattern\""
  done
}

# other_algorithms RANKS OUTPUT COMMAND...: runs a program alone with each of Open MPI's own algorithms of MPI_Allreduce,
# which add in other orders; standard output goes to OUTPUT.NUMBER.
readonly ALLREDUCE_ALGORITHMS="1 2 3 4"
other_algorithms() {
  local ranks=$1 output=$2 algorithm
  shift 2
  for algorithm in $ALLREDUCE_ALGORITHMS; do
    OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll_tuned_allreduce_algorithm=$algorithm \
      alone "$ranks" "$@" >"$output.$algorithm"
  done
}

# expect_figures FILE: the numbers in FILE.ours are those of all of Open MPI's own algorithms (FILE.1, FILE.2 ...), in
# the digits in which these agree.
expect_figures() {
  local file=$1 algorithm others=()
  for algorithm in $ALLREDUCE_ALGORITHMS; do others+=("$file.$algorithm"); done
  python3 "$(dirname "$0")/same_figures.py" "$file.ours" "${others[@]}" || fail "the figures differ"
}
