#!/bin/bash
# sppc_page.sh BIN_DIR [SECTION ...]: makes the tables of docs/results/sppc.md again, in Markdown.
# Sections: reading_a reading_b lu plus cost large usage unpackaged optima workflows two three runs verbs
# (default: all but optima and verbs). `optima` reads the public repository thelonesailor/MSP in the folder MSP;
# `verbs` boots the Soft-RoCE machine. Measure `cost`, `runs` and `verbs` on a machine that does nothing else.
set -euo pipefail
# shellcheck source=perf/page.sh
. "$(dirname "$0")/page.sh"
bin=${1:?usage: sppc_page.sh BIN_DIR [SECTION ...]}
shift
cd "$(dirname "$0")/.."
graphs=("A gauss-jordan:128" "B gauss-jordan-b:128" "LU lu:128")
processors=2,4,8,12,16

taskgraph() { "$bin/ib_taskgraph" "$1" --json - "${@:2}"; }
schedule() { taskgraph schedule --graph "$@"; }
# rows FORMAT WHAT: a row of each line
rows() { awk "$field { printf \"| $1 |\\n\", $2 }"; }
# by_processors: a row of speed-ups for each number of processors
by_processors() {
  awk "$field { p = f(\"processors\"); if (p != last) printf \"%s| %s |\", last == \"\" ? \"\" : \"\\n\", p
    printf \" %.3f |\", f(\"speedup\"); last = p } END { print \"\" }"
}

speedup() { # GRAPH
  header "| P | sppc | bcsh-grouped | sppc-balanced | bcsh-balanced | bcsh |"
  schedule "$1" --processors $processors --scheduler sppc,bcsh-grouped,sppc-balanced,bcsh-balanced,bcsh | by_processors
}
section_reading_a() { speedup gauss-jordan:128; }
section_reading_b() { speedup gauss-jordan-b:128; }
section_lu() { speedup lu:128; }

section_plus() {
  header "| sppc+, P | A | B | LU | A, CPU s | B, CPU s | LU, CPU s |"
  local p graph
  for p in ${processors//,/ }; do
    row "$p"
    for graph in "${graphs[@]}"; do schedule "${graph#* }" --processors "$p" --scheduler sppc+; done |
      awk "$field { up = up sprintf(\" %.3f |\", f(\"speedup\")); time = time sprintf(\" %.1f |\", f(\"seconds\")) }
        END { print up time }"
  done
}

section_cost() {
  header "| graph, scheduler | P = 2 | 4 | 8 | 12 | 16 |"
  local graph scheduler
  for graph in "${graphs[@]}"; do
    for scheduler in sppc sppc-balanced bcsh; do
      row "${graph% *}, $scheduler"
      schedule "${graph#* }" --processors $processors --scheduler $scheduler | cells %.2f 'f("seconds")'
    done
  done
}

section_large() {
  header "| graph | scheduler | Sm | CPU s / peak MiB |"
  local graph
  for graph in gauss-jordan:256 lu:256; do
    schedule $graph --scheduler sppc,sppc-balanced |
      rows '%s | %s | %.3f | %.1f / %.0f' \
        'f("graph"), f("scheduler"), f("speedup"), f("seconds"), f("peak_bytes") / 1048576'
  done
}

section_usage() {
  header "| LU 128 | usage sppc | bcsh-grouped | overhead sppc | bcsh-grouped | overlap sppc | bcsh-grouped |"
  schedule lu:128 --processors $processors --scheduler sppc,bcsh-grouped |
    awk "$field
      NR % 2 { usage = f(\"usage\"); overhead = f(\"overhead\"); overlap = f(\"overlap\"); next }
      { printf \"| P = %s | %.3f | %.3f | %d | %d | %d | %d |\\n\", f(\"processors\"), usage, f(\"usage\"),
          overhead, f(\"overhead\"), overlap, f(\"overlap\") }"
}

section_unpackaged() {
  local schedulers=sppc,sppc+,bcsh,dsh,ecpfd,heft,peft,cpop graph
  header "| Gauss-Jordan 64, P | ${schedulers//,/ | } |"
  schedule gauss-jordan:64 --processors $processors --scheduler $schedulers | by_processors
  for graph in gauss-jordan:32 lu:32; do
    row "$graph, 16"
    schedule $graph --scheduler $schedulers | cells %.3f 'f("speedup")'
  done
}

section_optima() {
  header "| scheduler | tasks | P | cases | proved | best known | mean | worst | mean CPU s | worst CPU s |"
  local scheduler optima
  optima=$(printf '%s,' "${MSP:?set MSP to a clone of github.com/thelonesailor/MSP}"/Optimal_values/*.csv)
  for scheduler in sppc+ ecpfd heft etf; do
    taskgraph optima "$MSP" --optima "${optima%,}" --scheduler $scheduler |
      rows '%s | %s | %s | %s | %s | %s | %.4f | %.3f | %.3f | %.3f' \
        'f("scheduler"), f("graphs"), f("processors"), f("cases"), f("optimal"), f("best_known"), f("mean_ratio"),
          f("worst_ratio"), f("mean_seconds"), f("worst_seconds")' |
      sort -t '|' -k 3n -k 4n | { case $scheduler in heft | etf) grep '| 4 | 180 |' ;; *) cat ;; esac; }
  done
}

section_workflows() {
  local schedulers=sppc+,heft,etf,dsh,ecpfd,peft,cpop graph logp
  header "| graph | os,or,L | ${schedulers//,/ | } | sppc+, CPU s |"
  for graph in montage:100 montage:300 epigenomics:4x20 ligo:8x12 cybershake:4x20; do
    for logp in 0,0,0 5,5,20; do
      row "$graph | $logp"
      schedule $graph --logp $logp --scheduler $schedulers |
        awk "$field { printf \" %s |\", f(\"makespan\"); if (NR == 1) time = f(\"seconds\") }
          END { printf \" %.2f |\\n\", time }"
    done
  done
}

distance() { # PROCESSORS GRAPHS
  header "| scheduler | P | graphs | optimal | median | 90 % | worst |"
  taskgraph distance --scheduler sppc,sppc-balanced,sppc+ --processors "$1" --logp 20,10,40 --tasks 8 --rounds "$2" |
    rows '%s | %s | %s | %s | %.3f | %.3f | %.3f' \
      'f("scheduler"), f("processors"), f("graphs"), f("optimal"), f("median"), f("p90"), f("worst")'
}
section_two() { distance 2 60; }
section_three() { distance 3 40; }

methods="gauss-jordan gauss-jordan-b lu"
section_runs() {
  header "| method | scheduler | task ns | os / or / L ns | predicted us | measured us | measured / predicted | Sm \
| Se | messages | error |"
  local method
  for method in $methods; do
    taskgraph run --method "$method" --size 128 --processors 2 --scheduler sppc,sppc-balanced --repeat 21 |
      rows '%s | %s | %.2f | %.0f / %.0f / %.0f | %.0f | %.0f | %.3f | %.3f | %.3f | %s | %.0e' \
        'f("method"), f("scheduler"), f("task_ns"), f("send_overhead_ns"), f("receive_overhead_ns"), f("latency_ns"),
          f("predicted_ns") / 1000, f("measured_ns") / 1000, f("measured_ns") / f("predicted_ns"),
          f("speedup_model"), f("speedup_measured"), f("messages"), f("worst_error")'
  done
}

section_verbs() {
  header "| method, size 96 | scheduler | os / or / L us | predicted us | measured us | messages | error |"
  local method
  for method in $methods; do
    PATH=$(realpath "$bin"):$PATH tests/softroce/machine.sh --servers 2 ib_taskgraph run --method "$method" --size 96 \
      --processors 2 --transport verbs --repeat 5 --scheduler sppc,sppc-balanced --json - | grep '^{' |
      rows '%s | %s | %.0f / %.0f / %.0f | %.0f | %.0f | %s | %.0e' \
        'f("method"), f("scheduler"), f("send_overhead_ns") / 1000, f("receive_overhead_ns") / 1000,
          f("latency_ns") / 1000, f("predicted_ns") / 1000, f("measured_ns") / 1000, f("messages"), f("worst_error")'
  done
}

[ $# -gt 0 ] || set -- reading_a reading_b lu plus cost large usage unpackaged workflows two three runs
make_sections "$@"
