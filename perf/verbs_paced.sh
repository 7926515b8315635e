#!/bin/bash
# verbs_paced.sh BIN_DIR [ROUNDS [BYTES]]: the 2-Level Ring with each of its pacings, and other
# all-to-all algorithms, between four servers of two ranks, every server's link shaped to 400 Mbit/s
# with a switch queue that holds what the two ranks of one server have in flight (260 KB each) but
# not what three servers have. Rounds
# interleaved in one boot; medians. Run it inside: ./run softroce perf/verbs_paced.sh build/bin
set -euo pipefail
bin=${1:?usage: verbs_paced.sh BIN_DIR [ROUNDS [BYTES]]}
rounds=${2:-3} bytes=${3:-256K}
for i in 1 2 3 4; do
  tc -n sw qdisc add dev "v$i" root tbf rate 400mbit burst 16kb limit 700kb
done
dropped() {
  tc -n sw -s qdisc show | sed -n 's/.*dropped \([0-9]*\).*/\1/p' |
    awk '{ sum += $1 } END { print sum }'
}
export IBCOLL_TRANSPORT=verbs IBCOLL_LOG_LEVEL=error
results=$(mktemp)
contenders="two_level_ring:gate_token two_level_ring:token two_level_ring:gate two_level_ring:free
  ring:auto linear:auto aggregate:auto"
for _ in $(seq "$rounds"); do
  for contender in $contenders; do
    before=$(dropped)
    row=$("$bin/ib_a2a_bench" --ranks 8 --servers 4 --algorithm "${contender%:*}" \
      --pacing "${contender#*:}" --sizes "$bytes" --iterations 3 --warmup 1 --json -)
    us=$(sed -n 's/.*"median_us":\([0-9.]*\).*/\1/p' <<<"$row")
    rate=$(sed -n 's/.*"a2a_bandwidth_MBps":\([0-9.]*\).*/\1/p' <<<"$row")
    echo "$contender ${us:-nan} ${rate:-nan} $(($(dropped) - before))" >>"$results"
  done
done
printf '%-26s  %10s  %9s  %s\n' "algorithm:pacing" ms "MB/s" "packets dropped"
for contender in $contenders; do
  grep "^$contender " "$results" | sort -g -k 2 |
    awk '{ us[NR] = $2; rate[NR] = $3; dropped[NR] = $4 }
      END { i = int((NR + 1) / 2)
        printf "%-26s  %10.1f  %9.1f  %d\n", $1, us[i] / 1000, rate[i], dropped[i] }'
done
