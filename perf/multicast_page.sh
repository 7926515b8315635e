#!/bin/bash
# multicast_page.sh BIN_DIR [PICTURES [SECTION ...]]: makes the tables of docs/results/multicast.md again, in
# Markdown: broadcasts to sets of servers drawn at random (with fixed seeds) on a dragonfly of 256
# hosts. With a folder its pictures, too.
# Sections: short opposite long pieces network acks picture (default: all; without a folder, all but the picture).
set -euo pipefail
# shellcheck source=perf/page.sh
. "$(dirname "$0")/page.sh"
bin=${1:?usage: multicast_page.sh BIN_DIR [PICTURES [SECTION ...]]}
pictures=${2:-}
shift $(($# < 2 ? $# : 2))
network=dragonfly:4,8,4,groups=8,bandwidth=10GB/s,latency=200ns
host=(--send-overhead 300ns --recv-overhead 300ns)
algorithms=linear,binomial,chain,scatter_ring,scatter_doubling,circulant
members="8 16 32 64 128 256"

# set_of MEMBERS: that many of the 256 hosts, ascending, with commas; the same each time.
set_of() { seq 0 255 | shuf -n "$1" --random-source=<(yes "multicast $1") | sort -n | paste -sd,; }
simulate() { # MEMBERS SIZE [ARGS]
  "$bin/ib_sim" bcast --network "$network" "${host[@]}" --layout "$1x1" --server-order "$(set_of "$1")" \
    --sizes "$2" --json - "${@:3}"
}
# model MEMBERS BYTES: what the paper's formulas give with M = 0.0001 us (10 GB/s) and S = 1.6 us
model() {
  awk -v p="$1" -v n="$2" 'BEGIN { M = 0.0001; S = 1.6; for (q = 0; 2 ^ q < p; ++q);
    printf " %.0f | %.0f | %.0f |\n", (n * M + S) * (p - 1), (n * M + S) * q,
      2 * (1 - 1 / p) * n * M + (q + p - 1) * S }'
}
table() { # SIZE BYTES
  echo "| members | ${algorithms//,/ | } | port bound | model: sequential | binomial | scatter, ring |"
  echo "|---|---|---|---|---|---|---|---|---|---|---|"
  for m in $members; do
    printf '| %s |' "$m"
    simulate "$m" "$1" --algorithm "$algorithms" | times
    awk -v n="$2" 'BEGIN { printf " %.0f |", n * 0.0001 }'
    model "$m" "$2"
  done
}

section_short() { echo "80 KB, us:" && table 80K 81920; }

section_opposite() {
  # Hosts whose bits are reversed: part u of scatter_doubling is then that of place u.
  local reversed bare
  reversed=$(for ((i = 0; i < 256; ++i)); do
    for ((r = 0, b = 0; b < 8; ++b)); do r=$((r << 1 | i >> b & 1)); done
    echo $r
  done | paste -sd,)
  echo "80 KB to 256 members, scatter_doubling in the opposite order, us (on the dragonfly; where hosts cost nothing):"
  for bare in "$network ${host[*]}" dragonfly:4,8,4,groups=8; do
    # shellcheck disable=SC2086
    "$bin/ib_sim" bcast --network $bare --layout 256x1 --server-order "$reversed" --sizes 80K \
      --algorithm scatter_doubling --json - | times
  done
  echo
}

section_long() { echo "8 MB, us:" && table 8M 8388608; }

section_pieces() {
  local pieces
  echo "8 MB to 256 members by pieces, us:"
  echo "| pieces | chain, dragonfly | chain, one switch | circulant, one switch |"
  echo "|---|---|---|---|"
  for pieces in 64 256 1024 4096; do
    printf '| %s |' $pieces
    simulate 256 8M --algorithm chain --pieces $pieces | times
    "$bin/ib_sim" bcast --network single-switch:256,bandwidth=10GB/s "${host[@]}" --layout 256x1 --sizes 8M \
      --algorithm chain,circulant --pieces $pieces --json - | times
    echo
  done
}

section_network() {
  local bare size bytes pieces
  echo "256 members, nothing but the network (2000 MB/s, hosts cost nothing), us:"
  echo "| network | bytes | chain | scatter_ring | scatter_doubling | circulant | port bound |"
  echo "|---|---|---|---|---|---|---|"
  for bare in dragonfly:4,8,4,groups=8 single-switch:256; do
    for size in "80K 16" "8M 4096"; do
      read -r bytes pieces <<<"$size"
      printf '| %s | %s |' $bare "$bytes"
      "$bin/ib_sim" bcast --network $bare --layout 256x1 --sizes "$bytes" --pieces "$pieces" \
        --algorithm chain,scatter_ring,scatter_doubling --json - | times
      "$bin/ib_sim" bcast --network $bare --layout 256x1 --sizes "$bytes" --pieces $((pieces > 256 ? 256 : pieces)) \
        --algorithm circulant --json - | times
      echo " $((($(numfmt --from=iec "$bytes") + 1000) / 2000)) |"  # 2000 bytes a us
    done
  done
}

section_acks() {
  local m
  echo "80 KB with acknowledgements to the root, us:"
  echo "| members | binomial | scatter_doubling |"
  echo "|---|---|---|"
  for m in $members; do
    printf '| %s |' "$m"
    simulate "$m" 80K --algorithm binomial,scatter_doubling --acks | times
    echo
  done
}

section_picture() {
  "$bin/ib_sim" bcast --network "$network" "${host[@]}" --layout 64x1 --server-order "$(set_of 64)" --sizes 1K-8M \
    --algorithm binomial,chain,scatter_ring,scatter_doubling,circulant --plot "$pictures/multicast_sizes.svg" >/dev/null
}

[ $# -gt 0 ] || set -- short opposite long pieces network acks ${pictures:+picture}
for section; do
  "section_$section"
  echo
done
