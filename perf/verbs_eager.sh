#!/bin/bash
# What it brings that short messages carry their data at once (IBCOLL_EAGER): small all-to-alls over
# verbs with and without, rounds interleaved. Run it in the Soft-RoCE machine:
#   ./run softroce perf/verbs_eager.sh build/bin [ROUNDS]
set -euo pipefail
bin=${1:?usage: verbs_eager.sh BIN_DIR [ROUNDS]}
rounds=${2:-5}
one() { # one LAYOUT ALGORITHM EAGER: JSON lines
  IBCOLL_EAGER=$3 "$bin/ib_a2a_bench" --transport verbs --layout "$1" --algorithm "$2" --sizes 8,1K \
    --iterations 40 --no-bind --json - 2>/dev/null | sed "s/^{/{\"eager\":\"$3\",/"
}
for ((i = 0; i < rounds; ++i)); do
  for eager in 0 4K; do
    one 2x1 linear $eager
    one 4x1 linear $eager
    one 4x2 aggregate $eager
  done
done | python3 -c '
import json, statistics, sys
rows = {}
for line in sys.stdin:
    row = json.loads(line)
    key = row["layout"], row["algorithm"], row["bytes_per_pair"]
    both = rows.setdefault(key, {})
    both.setdefault(row["eager"], []).append(row)
print("layout  algorithm  bytes  us asked for  us at once  ratio  messages+tokens asked for, at once")
for (layout, algorithm, size), both in rows.items():
    us = {e: statistics.median(r["median_us"] for r in rs) for e, rs in both.items()}
    sent = {e: rs[0]["net_messages_per_rank"] + rs[0]["net_tokens_per_rank"] for e, rs in both.items()}
    print(layout.ljust(7), algorithm.ljust(10), str(size).rjust(5), "%13.0f %11.0f %6.2f %9g %g" % (
        us["0"], us["4K"], us["0"] / us["4K"], sent["0"], sent["4K"]))
'
