#!/bin/bash
# verbs_compare.sh BIN_DIR [ROUNDS [BYTES...]]: streams of puts beside the best ib_write_bw over a grid of its
# -t (depth), -l (list) and -Q (completions), in one boot of the Soft-RoCE machine, rounds
# interleaved, medians. Run it inside: ./run softroce perf/verbs_compare.sh build/bin
set -euo pipefail
bin=${1:?usage: verbs_compare.sh BIN_DIR [ROUNDS [BYTES...]]}
rounds=${2:-7}
sizes=("${@:3}")
[ ${#sizes[@]} -gt 0 ] || sizes=(4096 65536 1048576)

# perftest SIZE PUTS "OPTIONS": decimal MB/s
perftest() {
  local log
  log=$(mktemp)
  # shellcheck disable=SC2086
  ib_write_bw -d rxe1 -s "$1" -n "$2" $3 >/dev/null 2>&1 &
  for _ in $(seq 50); do
    sleep 0.1
    # shellcheck disable=SC2086
    ib_write_bw -d rxe2 -s "$1" -n "$2" $3 10.77.0.1 >"$log" 2>/dev/null && break
  done
  wait
  awk -v size="$1" '$1 == size { printf "%.1f\n", $4 * 1.048576 }' "$log"
  rm -f "$log"
}
own() { # own SIZE PUTS
  "$bin/verbs_point_to_point" --sizes "$1" --stream-puts "$2" --round-trips 1 --rounds 1 --json - |
    sed -n 's/.*"mb_per_s":\([0-9.]*\).*/\1/p'
}
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

printf '%8s  %12s  %-22s  %10s  %6s\n' bytes ib_write_bw options put share
for size in "${sizes[@]}"; do
  puts=$((size < 8192 ? 16000 : 67108864 / size)) # a good tenth of a second
  best=0 options=
  for depth in 16 128 256; do
    for list in 1 8 16; do
      for completions in 1 16; do
        now=$(perftest "$size" $puts "-t $depth -l $list -Q $completions")
        if [ -n "$now" ] && awk "BEGIN { exit !($now > $best) }"; then
          best=$now options="-t $depth -l $list -Q $completions"
        fi
      done
    done
  done
  theirs=() ours=()
  for _ in $(seq "$rounds"); do
    theirs+=("$(perftest "$size" $puts "$options")")
    ours+=("$(own "$size" $puts)")
  done
  a=$(printf '%s\n' "${theirs[@]}" | median) b=$(printf '%s\n' "${ours[@]}" | median)
  printf '%8d  %7.1f MB/s  %-22s  %5.1f MB/s  %5.1f%%\n' "$size" "$a" "$options" "$b" \
    "$(awk "BEGIN { print 100 * $b / $a }")"
done
