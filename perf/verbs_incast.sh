#!/bin/bash
# verbs_incast.sh BIN_DIR [ROUNDS [BYTES [MBIT]]]: gather from 1 to 11 ranks to one, each a server of
# its own, over real verbs, the link to the root shaped to MBIT (100) Mbit/s with a switch queue of
# 360 KB: one sender has 260 KB in flight and fits, several at once lose packets. linear (all at once)
# against contention_free and one_at_a_time, with the same queue pairs. contention_free is told the
# network: the link, and a LATENCY (250us) of each, so that a token and what it lets go take 1 ms,
# which is what they take in this machine.
# Rounds interleaved in one boot; medians. IBCOLL_ACK_TIMEOUT tunes the queue pairs; without it a few
# are tried and the best for linear is taken. Writes a line of numbers for each: ranks, algorithm, ms,
# packets dropped.
# Run it inside: ./run softroce --servers 12 perf/verbs_incast.sh build/bin
set -euo pipefail
bin=${1:?usage: verbs_incast.sh BIN_DIR [ROUNDS [BYTES [MBIT]]]}
rounds=${2:-3} bytes=${3:-256K} mbit=${4:-100}
latency=${LATENCY:-250us}
tc -n sw qdisc add dev v1 root tbf rate "${mbit}mbit" burst 16kb limit 360kb
export IBCOLL_TRANSPORT=verbs IBCOLL_LOG_LEVEL=error
export IBCOLL_FABRIC=single-switch:12,bandwidth=${mbit}Mbit/s,latency=$latency
senders_tried="${SENDERS:-1 3 5 7 9 11}"
algorithms="linear contention_free one_at_a_time"
dropped() { tc -n sw -s qdisc show dev v1 | sed -n 's/.*dropped \([0-9]*\).*/\1/p'; }
# gather RANKS ALGORITHM: "ms dropped" of one measurement, the senders being RANKS; "failed" for ms
# where a queue pair gave up
gather() {
  local before after us
  before=$(dropped)
  us=$("$bin/ib_a2a_bench" --collective gather --layout "$(($1 + 1))x1" --algorithm "$2" \
    --sizes "$bytes" --iterations 3 --warmup 1 --batch 1us --json - 2>/dev/null |
    sed -n 's/.*"median_us":\([0-9.]*\).*/\1/p') || true
  after=$(dropped)
  if [ -n "$us" ]; then us=$(awk -v us="$us" 'BEGIN { printf "%.1f", us / 1000 }'); fi
  echo "${us:-failed} $((after - before))"
}
if [ -z "${IBCOLL_ACK_TIMEOUT:-}" ]; then
  best=
  for timeout in 12 14 15 16 18; do
    ms=$(IBCOLL_ACK_TIMEOUT=$timeout gather 7 linear | cut -d' ' -f1)
    echo "# IBCOLL_ACK_TIMEOUT=$timeout: linear from 7 ranks takes $ms ms"
    [ "$ms" != failed ] || continue
    if [ -z "$best" ] || awk "BEGIN { exit !($ms < $best) }"; then
      best=$ms
      export IBCOLL_ACK_TIMEOUT=$timeout
    fi
  done
fi
echo "# $bytes a rank, $mbit Mbit/s, medians of $rounds rounds, IBCOLL_ACK_TIMEOUT=$IBCOLL_ACK_TIMEOUT"
results=$(mktemp)
for _ in $(seq "$rounds"); do
  for senders in $senders_tried; do
    for algorithm in $algorithms; do
      echo "$senders $algorithm $(gather "$senders" "$algorithm")" >>"$results"
    done
  done
  algorithms="${algorithms#* } ${algorithms%% *}" # nobody is always the first
done
printf '%7s  %-16s  %9s  %s\n' senders algorithm ms dropped
for senders in $senders_tried; do
  for algorithm in $algorithms; do
    grep "^$senders $algorithm " "$results" | sed 's/ failed / inf /' | sort -g -k 3 |
      awk '{ row[NR] = sprintf("%7d  %-16s  %9s  %d", $1, $2, $3, $4) }
        END { print row[int((NR + 1) / 2)] }'
  done
done
