#!/bin/bash
# algorithms_page.sh BIN_DIR [SECTION ...]: makes the tables of simulated times in docs/algorithms.md again, in
# Markdown.
# Sections: neighbours allreduce (default: both).
set -euo pipefail
# shellcheck source=perf/page.sh
. "$(dirname "$0")/page.sh"
bin=${1:?usage: algorithms_page.sh BIN_DIR [SECTION ...]}
shift


section_neighbours() {
  header "| collective, neighbours per rank | block | \`aggregated\`, us | \`direct\`, us |"
  local name collective graph size
  while IFS=: read -r name collective graph size; do
    printf '| %s | %s |' "$name" "$size"
    "$bin/ib_sim" "neighbor_$collective" --network single-switch:64,bandwidth=12500MB/s,latency=200ns --layout 64x8 \
      --graph "${graph/ /:}" --sizes "$size" --algorithm aggregated,direct --level flow \
      --send-overhead 300ns --recv-overhead 300ns --copy-rate 10GB/s --json - | times %.3g
    echo
  done <<'END'
alltoall, 26 (periodic grid):alltoall:grid 8x8x8:8
alltoall, 26 (periodic grid):alltoall:grid 8x8x8:512
alltoall, 26 (periodic grid):alltoall:grid 8x8x8:8K
alltoall, 8 (ring):alltoall:ring 4:512
alltoall, 8 (ring):alltoall:ring 4:2K
allgather, 26 (periodic grid):allgather:grid 8x8x8:8K
END
}

section_allreduce() {
  local algorithms=ring,two_level,contention_free layout network
  header "| allreduce of 16 MB, us | \`${algorithms//,/\` | \`}\` |"
  while read -r layout network; do
    # shellcheck disable=SC2016  # names in backticks
    printf '| `--layout %s --network %s` |' "$layout" "$network"
    "$bin/ib_sim" allreduce --sizes 16M --layout "$layout" --network "$network" --algorithm $algorithms \
      --json - | times %.0f
    echo
  done <<'END'
16x1 fat-tree:4,2
20x1 tree:8x3,hosts=20
20x1 dragonfly:2,4,2
END
}

[ $# -gt 0 ] || set -- neighbours allreduce
make_sections "$@"
