#!/bin/bash
# fabrics_page.sh BIN_DIR [SECTION ...]: makes tables of docs/results/fabrics.md again, in Markdown: some that take
# less than a minute each. The commands of the others stand on the page.
# Sections: steps arbiters trees levels (default: all).
set -euo pipefail
bin=${1:?usage: fabrics_page.sh BIN_DIR [SECTION ...]}
shift

simulate() { "$bin/ib_sim" alltoall --json - "$@"; }
# values FIELD: of each line
values() { sed -E "s/.*\"$1\":([0-9.e+-]+).*/\1/"; }
# fractions: of the link, a line each
fractions() { values link_fraction | awk '{ text = sprintf("%.3f", $1); sub(/^0/, "", text); print text }'; }
# as_row NAME: lines as the cells of a row
as_row() { awk -v name="$1" '{ cells = cells " " $1 " |" } END { print "| " name " |" cells }'; }
# header COLUMNS: a table's first two lines
header() { echo "$1" && sed -E 's/[^|]+/---/g' <<<"$1"; }

section_steps() {
  header "| Ring, step mod 8 | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |"
  simulate --layout 8x8 --algorithm ring --mode barrier --step-times | sed 's/.*"step_us":\[\([^]]*\)\].*/\1/' | tr , '\n' |
    awk 'NR > 8 && NR <= 57 {  # blocks of eight ranks at 2000 MB/s
        time = $1 / (8 * 1048576 / 2000); at = (NR - 1) % 8
        if (!(at in least) || time < least[at]) least[at] = time
        if (time > most[at]) most[at] = time
      }
      END {
        for (at = 0; at < 8; ++at) {
          from = sprintf("%.3f", least[at]); to = sprintf("%.3f", most[at])
          print from == to ? from : from "-" to
        }
      }' | as_row "simulated, steps 8 to 56"
  printf '%s\n' 1 1.123 1.231 1.306 1.333 1.306 1.231 1.123 | as_row "the paper's model Ta"
}

section_arbiters() {
  header "| NIC takes its ranks' packets | FIFO inputs | virtual output queues | ideal output queues |"
  local name order queues
  while IFS=: read -r name order; do
    for queues in fifo voq output; do
      # shellcheck disable=SC2086
      simulate --layout 8x8 --sizes 256K --algorithm ring --mode barrier --queues $queues --nic $order
    done | fractions | as_row "$name"
  done <<'END'
at random, round-robin arbiter:random --arbiter round-robin
at random, random arbiter:random --arbiter random
in round robin:round-robin
one message at a time:one-at-a-time
END
}

tree() { # NETWORK [ARGS]: of 64 servers
  simulate --network "$1" --layout 64x4 --sizes 64K "${@:2}"
}

section_trees() {
  header "| 64 servers x 4, 64 KB, packets | tree order | random | random, renumbered |"
  local network algorithm order
  for network in "full fat-tree:4,3" "tapered fat-tree:4,3,taper=2"; do
    for algorithm in "Ring ring" "2-Level Ring two_level_ring" "SA aggregate"; do
      for order in natural random "random --renumber"; do
        # shellcheck disable=SC2086
        tree "${network#* }" --algorithm "${algorithm##* }" --server-order $order
      done | fractions | as_row "${network%% *}, ${algorithm% *}"
    done
  done
}

section_levels() {
  header "| | linear | Ring | 2-Level Ring | SA | Bruck |"
  local network algorithm
  for network in "full tree fat-tree:4,3" "2:1 tapered tree fat-tree:4,3,taper=2"; do
    for algorithm in linear ring two_level_ring aggregate bruck; do
      { tree "${network##* }" --algorithm $algorithm --level packet
        tree "${network##* }" --algorithm $algorithm --level flow; } | values time_us |
        awk '{ time[NR] = $1 } END { text = sprintf("%.2f", time[2] / time[1]); sub(/^0/, "", text); print text }'
    done | as_row "${network% *}"
  done
}

[ $# -gt 0 ] || set -- steps arbiters trees levels
for section; do
  echo "## $section"
  "section_$section"
done
