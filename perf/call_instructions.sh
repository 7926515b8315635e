#!/bin/bash
# How many instructions a blocking call of 8 bytes takes on each of two ranks (valgrind's callgrind), for
# collectives in which the root waits for nobody: on rank 0 the count is the same each time, on rank 1 it
# includes what it does while it waits.
#   perf/call_instructions.sh [BIN_DIR]
set -euo pipefail
bin=${1:-build/bin}
readonly CALLS=2000
for tool in valgrind mpiexec.mpich; do
  command -v "$tool" >/dev/null || {
    echo "call_instructions: $tool is not installed" >&2
    exit 1
  }
done
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
printf '%-10s %16s %16s\n' collective "rank 0" "rank 1"
for collective in bcast scatter; do
  # Of two runs the difference: what is done once does not count.
  for calls in $CALLS $((2 * CALLS)); do
    # shellcheck disable=SC2016 # the launched shells are to see PMI_RANK
    OUT=$out LOG=$calls mpiexec.mpich -n 2 sh -c 'exec valgrind --tool=callgrind \
      --toggle-collect=ibcoll_group_call --callgrind-out-file=/dev/null --log-file="$OUT/$PMI_RANK.$LOG" "$@"' sh \
      "$bin/short_call_bench" --joined --collective "$collective" --calls "$calls" --rounds 1 >/dev/null
  done
  row=()
  for rank in 0 1; do
    for calls in $CALLS $((2 * CALLS)); do
      count[calls]=$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$out/$rank.$calls")
    done
    # Each run has two rounds: one for caches.
    row+=($(((count[2 * CALLS] - count[CALLS]) / (2 * CALLS))))
  done
  printf '%-10s %16s %16s\n' "$collective" "${row[@]}"
done
