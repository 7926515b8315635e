#!/bin/bash
# synthesis_page.sh BIN_DIR PICTURES [SECTION ...]: makes the tables of docs/results/synthesis.md again, in Markdown, and its pictures
# in the folder PICTURES.
# Sections: alltoall allgather grids pictures (default: all).
# Measure planning times on a machine that does nothing else.
set -euo pipefail
# shellcheck source=perf/page.sh
. "$(dirname "$0")/page.sh"
bin=${1:?usage: synthesis_page.sh BIN_DIR PICTURES [SECTION ...]}
pictures=$(realpath "${2:?where do the pictures go?}")
shift 2
cd "$(dirname "$0")/.."
data=docs/results/data # what perf/synthesis_fabrics.py writes

# The fields of a plan's JSON that the tables show: planned and simulated us, planning ms.
planned() {
  "$bin/ib_plan" --json - --check --simulate "$@" | awk "$field"'
    { printf "%s | %s | %s |\n", shown(f("planned_us")), shown(f("simulated_us")), shown(f("plan_ms")) }
    # Three digits or more.
    function shown(text, x) { x = text + 0; return x >= 100 ? sprintf("%.0f", x) : sprintf("%.3g", x) }'
}


# What TE-CCL and TACCL take and reach, from the repository microsoft/TE-CCL at c128bf24: seconds of TE-CCL's paper
# (teccl/examples/generate_figures.py), a slash, and of the runs kept there (experiments/output_provided); finish in us of the
# better of the two; seconds and finish of TACCL as run by TE-CCL's authors. `-`: none. A buffer is what a GPU has afterwards.
published() { # published COLLECTIVE CHUNKS, lines from standard input: instance, buffer bytes, buffer, figures
  header "| network | buffer | TE-CCL solve s | TE-CCL finish us | TACCL solve s | TACCL finish us | planned us | simulated us | plan ms |"
  while read -r instance gpus buffer name solve finish taccl_solve taccl_finish; do
    printf '| %s | %s | %s | %s | %s | %s | ' "${instance%x*} x ${instance##*x}" "$name" "$solve" "$finish" "$taccl_solve" "$taccl_finish"
    planned --collective "$1" --network "$data/$instance.json" --size $((buffer / gpus))
  done
}

section_alltoall() {
  published alltoall <<'END'
dgx2x2 32 16000 16KB 3133/1307 4.70 2120 126
dgx2x2 32 1000000 1MB 902/1204 84.25 2127 220
dgx2x2 32 16000000 16MB 1690/1465 1288 185 -
dgx2x2 32 1000000000 1GB 1656/1590 80250 3324 89853
ndv2x2 16 16000 16KB - - 86 35.8
ndv2x2 16 1000000 1MB - - 1214 359
ndv2x2 16 16000000 16MB - - 1214 5164
ndv2x2 16 1000000000 1GB - - 1215 320049
ndv2x4 32 16000 16KB 2084 12.2 980 210
ndv2x4 32 1000000 1MB 377 491 - -
ndv2x4 32 16000000 16MB 413 7718 1392 8127
ndv2x4 32 1000000000 1GB 393 483281 1401 480452
END
}

section_allgather() {
  published allgather <<'END'
dgx2x2 32 1000000 1MB 7206/8181 10.75 95 31.4
dgx2x2 32 16000000 16MB 7205/1262 124 52 160
dgx2x2 32 1000000000 1GB 7204/2700 7750 9 9267
ndv2x2 16 1000000 1MB - - 63 62.2
ndv2x2 16 1000000000 1GB - - 7 53767
ndv2x4 32 1000000 1MB 7215/9510 69.4 36 120
ndv2x4 32 16000000 16MB 7214/237 1040 49 1069
ndv2x4 32 1000000000 1GB 7216/221 65000 - -
END
}

# TACOS's own tests (astra-sim/tacos at 1811f1fb, tests/): as many chunks per server, links in GiB/s, output in GiB.
section_grids() {
  header "| network | output | chunks per server | TACOS finish us | planned us | simulated us | plan ms |"
  while read -r net links rate gib chunks servers latency finish; do
    # shellcheck disable=SC2016  # a name in backticks
    printf '| `%s` | %s GiB | %s | %s | ' "$net" "$gib" "$chunks" "$finish"
    local bytes=$((rate << 30))
    planned --collective allgather --parts "$chunks" --size $((gib * (1 << 30) / servers)) \
      --network "$net,bandwidth=$((links * bytes))B/s,trunk-bandwidth=${bytes}B/s,latency=$latency"
  done <<'END'
mesh:5x5 4 50 1 1 25 500ns 9606
mesh:10x10 4 100 1 2 100 1us 5049
mesh:7x12 4 100 4 3 84 1us 19966
torus:3x3x3 6 50 1 1 27 500ns 3706
torus:3x4x5 6 50 2 2 60 500ns 6677
mesh:3x3x3 6 50 1 1 27 500ns 6671
mesh:3x4x5 6 50 2 2 60 500ns 13353
END
}

section_pictures() {
  for kind in alltoall allgather; do
    "$bin/ib_plan" --collective $kind --network "$data/dgx2x2.json" --size 31250 \
      --plot "$pictures/synthesis_$kind.svg" >"$pictures/log" || { cat "$pictures/log"; exit 1; }
  done
  rm "$pictures/log"
}

[ $# -gt 0 ] || set -- alltoall allgather grids pictures
make_sections "$@"
