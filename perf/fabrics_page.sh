#!/bin/bash
# fabrics_page.sh BIN_DIR [SECTION ...]: makes the tables of docs/results/fabrics.md again, in Markdown.
# Sections: switches steps servers modes sizes aggregation pacing unequal arbiters trees levels causes, which take up to
# a minute each, and large compared speed, which take minutes (default: all).
# Measure `speed` on a machine that does nothing else.
set -euo pipefail
# shellcheck source=perf/page.sh
. "$(dirname "$0")/page.sh"
bin=${1:?usage: fabrics_page.sh BIN_DIR [SECTION ...]}
shift

simulate() { "$bin/ib_sim" alltoall --json - "$@"; }
# values FIELD: of each line
values() { sed -E "s/.*\"$1\":([0-9.e+-]+).*/\1/"; }
# fractions: of the link, a line each; a fourth digit tells what is nearly 1 from 1
fractions() {
  values link_fraction |
    awk '{ text = sprintf($1 < 0.9995 ? "%.3f" : "%.4f", $1); sub(/^0/, "", text); print text }'
}
# bandwidths: in MB/s, a line each
bandwidths() { values a2a_bandwidth_MBps | awk '{ printf "%.0f\n", $1 }'; }
# ratios: of two numbers a line, with two digits
ratios() { awk '{ text = sprintf("%.2f", $1 / $2); sub(/^0/, "", text); print text }'; }
# as_row NAME: lines as the cells of a row
as_row() { awk -v name="$1" '{ cells = cells " " $0 " |" } END { print "| " name " |" cells }'; }
# joined: lines as one cell
joined() { paste -sd/ | sed 's:/: / :g'; }

section_switches() {
  local results name traffic parameters known
  results=$("$bin/simulate_bench" --benchmark_filter='uniform|two_destinations' --benchmark_min_time=0.001 \
    --benchmark_format=json)
  throughput() { # TRAFFIC PARAMETERS: one each
    local each
    for each in "${@:2}"; do
      awk -F'[":,]+ *' -v name="$1:$each" '$0 ~ "\"name\": \"" name "\"" { found = 1 }
        found && $2 == "throughput" { printf "%.3f\n", $3; exit }' <<<"$results"
    done | joined
  }
  header "| traffic and queues | simulated | known |"
  while IFS='|' read -r name traffic parameters known; do
    # shellcheck disable=SC2086
    printf '%s\n' "$(throughput $traffic $parameters)" "$known" | as_row "$name"
  done <<'END'
uniform traffic, FIFO inputs, 8 / 16 / 32 / 64 ports|uniform/fifo/ports|8 16 32 64|0.586 for many ports (Karol et al. 1987)
uniform traffic, virtual output queues, 8 / 16 / 32 / 64 ports|uniform/voq/ports|8 16 32 64|1
uniform traffic, ideal output queues, 64 ports|uniform/output/ports|64|1
two destinations, FIFO inputs, alpha 1/8, 1/4, 3/8, 1/2|two_destinations/fifo/alpha|0.125 0.25 0.375 0.5|1 - alpha (1 - alpha): 0.891 / 0.813 / 0.766 / 0.750
END
}

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

# by_ranks RUN [KNOWN ...]: a row each for 1, 2, 4 and 8 ranks a server; RUN gets an algorithm and the ranks. KNOWN are
# what the paper says: a row's last cell.
by_ranks() {
  local run=$1 algorithm ranks
  shift
  { paste -d' ' <("$run" ring 1 | bandwidths) <("$run" two_level_ring 1 | bandwidths) |
    awk '{ print $1 == $2 ? $1 : $1 " / " $2 }'; printf '%s' "${1+$1$'\n'}"; } | as_row "1 rank per server, both"
  for algorithm in "Ring ring" "2-Level Ring two_level_ring"; do
    for ranks in 2 4 8; do
      [ $# = 0 ] || shift
      { "$run" "${algorithm##* }" $ranks | bandwidths; printf '%s' "${1+$1$'\n'}"; } |
        as_row "${algorithm% *}, $ranks ranks"
    done
  done
}

section_servers() {
  header "| servers | 4 | 8 | 12 | 16 | 20 | 24 | paper |"
  over_servers() { simulate --layout {4,8,12,16,20,24}"x$2" --algorithm "$1" --mode sendrecv; }
  by_ranks over_servers "1600-1700 (host effects)" 1500-1600 1500-1600 "1500-1600; 1534 at 24" \
    "above 1 rank" "above 1 rank" "above 1 rank; 1904 at 24"
}

section_modes() {
  header "| mode | Ring MB/s | of link | 2-Level Ring MB/s | of link | ratio |"
  echo "| paper, measured | 1534 | .767 | 1904 | .952 | 1.24 |"
  local name mode lines
  while IFS=: read -r name mode; do
    lines=$(simulate --layout 24x8 --algorithm ring,two_level_ring --mode "$mode")
    { paste -d'\n' <(bandwidths <<<"$lines") <(fractions <<<"$lines")
      values a2a_bandwidth_MBps <<<"$lines" | paste -d' ' - - | awk '{ printf "%.3f\n", $2 / $1 }'; } | as_row "$name"
  done <<'END'
barrier between steps:barrier
send and receive a step:sendrecv
free:free
the engine's programs (paced):paced
END
}

section_sizes() {
  header "| bytes per pair | 10K | 30K | 100K | 300K | 1M |"
  over_sizes() { simulate --layout "24x$2" --sizes 10K,30K,100K,300K,1M --algorithm "$1" --mode sendrecv; }
  by_ranks over_sizes
}

section_aggregation() {
  local sizes=256,512,1K,2K,4K,10K,30K,100K,300K,1M algorithm
  header "| bytes per pair | ${sizes//,/ | } |"
  for algorithm in "Ring ring" "2-Level Ring two_level_ring" "aggregation (SA) aggregate"; do
    simulate --layout 24x8 --sizes $sizes --algorithm "${algorithm##* }" --mode sendrecv \
      --send-overhead 2us --recv-overhead 2us --copy-rate 2GB/s | bandwidths | as_row "${algorithm% *}"
  done
}

unequal=8,3,5,1,8,2,7,4,6,8,1,3,5,2,8,7

section_pacing() {
  header "| pacing | 24 x 8 | unequal servers (16, of 1 to 8 ranks) |"
  local name pacing layout
  while IFS=: read -r name pacing; do
    for layout in 24x8 $unequal; do
      # shellcheck disable=SC2086
      simulate --layout $layout --sizes 16K,128K,1M --algorithm two_level_ring --jitter 0.2 --skew 20us $pacing |
        fractions | joined
    done | as_row "$name"
  done <<'END'
free running (`--mode free`):--mode free
a message at a time (`--pacing free --window 1`):--pacing free --window 1
gate:--pacing gate
token:--pacing token
**gate and token** (the default):--pacing gate_token
END
}

section_unequal() {
  header "| unequal servers, 1 MB | Ring | 2-Level Ring | SA |"
  local mode
  for mode in paced sendrecv; do
    simulate --layout $unequal --algorithm ring,two_level_ring,aggregate --mode $mode | fractions |
      as_row "\`--mode $mode\`"
  done
}

section_arbiters() {
  header "| NIC takes its ranks' packets | FIFO inputs | virtual output queues | ideal output queues |"
  local algorithm name order queues
  while IFS=: read -r name order; do
    for algorithm in "Ring ring" "2-Level Ring two_level_ring"; do
      for queues in fifo voq output; do
        # shellcheck disable=SC2086
        simulate --layout 8x8 --sizes 256K --algorithm "${algorithm##* }" --mode barrier --queues $queues --nic $order
      done | fractions | as_row "$name: ${algorithm% *}"
    done
  done <<'END'
at random, round-robin arbiter:random --arbiter round-robin
at random, random arbiter:random --arbiter random
in round robin:round-robin
one message at a time:one-at-a-time
END
}

# tree_rows FULL TAPERED [ARGS]: a row for each network and algorithm, with a cell for each order of servers
tree_rows() {
  local network algorithm order
  for network in "full $1" "tapered $2"; do
    for algorithm in "Ring ring" "2-Level Ring two_level_ring" "SA aggregate"; do
      for order in natural random "random --renumber"; do
        # shellcheck disable=SC2086
        simulate --network "${network#* }" "${@:3}" --algorithm "${algorithm##* }" --server-order $order
      done | fractions | as_row "${network%% *}, ${algorithm% *}"
    done
  done
}

section_trees() {
  header "| 64 servers x 4, 64 KB, packets | tree order | random | random, renumbered |"
  tree_rows fat-tree:4,3 fat-tree:4,3,taper=2 --layout 64x4 --sizes 64K
}

section_large() {
  header "| 512 servers x 2, 1 MB, flows | tree order | random | random, renumbered |"
  tree_rows fat-tree:8,3 fat-tree:8,3,taper=2 --layout 512x2 --level flow
}

section_levels() {
  header "| | linear | Ring | 2-Level Ring | SA | Bruck |"
  local network algorithm level
  for network in "full tree fat-tree:4,3" "2:1 tapered tree fat-tree:4,3,taper=2"; do
    for algorithm in linear ring two_level_ring aggregate bruck; do
      for level in flow packet; do
        simulate --network "${network##* }" --layout 64x4 --sizes 64K --algorithm $algorithm --level $level
      done | values time_us | paste -d' ' - - | ratios
    done | as_row "${network% *}"
  done
}

section_compared() {
  header "| order of servers | packets | flows | time, flows over packets |"
  local name algorithm ranks size order lines
  while IFS=: read -r name algorithm ranks size; do
    for order in "tree order:natural" "random:random" "random, renumbered:random --renumber"; do
      lines=$(for level in packet flow; do
        # shellcheck disable=SC2086
        simulate --network fat-tree:8,3,taper=2 --layout "512x$ranks" --sizes "$size" --algorithm "$algorithm" \
          --server-order ${order#*:} --level $level
      done)
      { fractions <<<"$lines"; values time_us <<<"$lines" | tac | paste -d' ' - - | ratios; } |
        as_row "$name, ${order%%:*}"
    done
  done <<'END'
2-Level Ring, 1 rank per server, 64 KB:two_level_ring:1:64K
Ring, 1 rank per server, 64 KB:ring:1:64K
SA, 2 ranks per server, 16 KB:aggregate:2:16K
END
}

section_causes() {
  header "| | packets, paced | flows, paced | packets, barriers | flows, barriers |"
  local name algorithm queues mode level
  while IFS=: read -r name algorithm queues; do
    for mode in paced barrier; do
      for level in packet flow; do
        # shellcheck disable=SC2086
        simulate --network fat-tree:4,3,taper=2 --layout 64x4 --sizes 64K --algorithm "$algorithm" \
          --mode $mode --level $level --queues $queues
      done
    done | values time_us | awk '{ printf "%.0f\n", $1 }' | as_row "$name"
  done <<'END'
2-Level Ring, ideal output queues:two_level_ring:output
2-Level Ring, FIFO inputs:two_level_ring:fifo
the same, random arbiter:two_level_ring:fifo --arbiter random
SA, ideal output queues:aggregate:output
SA, FIFO inputs:aggregate:fifo
Ring, ideal output queues:ring:output
Ring, FIFO inputs:ring:fifo
END
}

section_speed() {
  header "| 512 x 8, 64 KB, one switch, flows | processor time | memory |"
  local algorithm
  for algorithm in "Ring ring" "2-Level Ring two_level_ring" "SA aggregate"; do
    { /usr/bin/time -f "%U %M" "$bin/ib_sim" alltoall --level flow --layout 512x8 --sizes 64K \
      --algorithm "${algorithm##* }" >/dev/null; } 2>&1 |
      awk '{ printf "%.1f s\n%.0f MB\n", $1, $2 * 1024 / 1e6 }' | as_row "${algorithm% *}"
  done
}

[ $# -gt 0 ] || set -- switches steps servers modes sizes aggregation pacing unequal arbiters trees levels causes \
  large compared speed
make_sections "$@"
