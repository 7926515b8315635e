#!/bin/bash
# contention_free_page.sh BIN_DIR PICTURES [SECTION ...]: makes the tables of
# docs/results/contention_free.md again, in Markdown, and its pictures in the folder PICTURES.
# Sections: bound narrow clusters many direct ports cycles planning large closed policies relay wrong_gather
# wrong_alltoall paper pictures
# (default: all).
# Measure `planning` on a machine that does nothing else.
set -euo pipefail
# shellcheck source=perf/page.sh
. "$(dirname "$0")/page.sh"
bin=${1:?usage: contention_free_page.sh BIN_DIR PICTURES [SECTION ...]}
pictures=${2:?where do the pictures go?}
shift 2
cd "$(dirname "$0")/.."
lan=bandwidth=1Gbit/s,latency=10us
ten=trunk-bandwidth=10Gbit/s
names=("one switch" "14-host switches, 1G trunks" "14-host switches, 10G trunks" "fat tree"
  "two clusters, 1G between" "two clusters, 10G between" "random tree, 1G and 10G trunks")
networks=("single-switch:64,$lan" "tree:14x5,hosts=64,$lan" "tree:14x5,hosts=64,$ten,$lan"
  "fat-tree:4,3,$lan" "wan:32,32,long-latency=5ms,$lan" "wan:32,32,long-latency=5ms,$ten,$lan"
  "random-tree:64,16,seed=1,trunk-bandwidth=1Gbit/s:10Gbit/s,$lan")
ours=docs/results/data/ten_hosts.json
thesis=random,max-sync,min-sync

plan() { "$bin/ib_plan" --json - "$@"; }
both() { cells '%.3f / %.3f' 'f("planned_us") / f("lower_bound_us"), f("over_bound")'; }

section_bound() {
  header "| network | gather 20K | gather 100K | gather 1M | alltoall 100K | alltoall 1M |"
  for i in "${!networks[@]}"; do
    row "${names[i]}"
    { plan --collective gather --network "${networks[i]}" --sizes 20K,100K,1M --check
      plan --collective alltoall --network "${networks[i]}" --sizes 100K,1M --check; } | both
  done
}

section_clusters() {
  header "| clusters | gather | alltoall |"
  for n in $(seq 12); do
    row "$n"
    for kind in gather alltoall; do
      plan --collective $kind --network "twelve-clusters:$n" --size 100K --simulate
    done | both
  done
}

section_narrow() {
  header "| hosts | 5K | 10K | 100K |"
  for switches in 2 3 4 6; do
    row $((14 * switches))
    plan --network "tree:14x$switches,$ten,$lan" --size 5K,10K,100K |
      cells '%.3f' 'f("planned_us") / f("lower_bound_us")'
  done
}

section_ports() {
  local net links
  header "| network | 1 | 2 | 3 | 4 | 6 |"
  for net in torus:3x3x3 torus:4x4 mesh:5x5 torus:4x4x4 torus:5x7; do
    row "\`$net\`"
    for links in 1 2 3 4 6; do
      plan --collective bcast --size 256M \
        --network "$net,bandwidth=$((50 * links))GB/s,trunk-bandwidth=50GB/s,latency=500ns"
    done | cells '%.2f' 'f("planned_us") / f("lower_bound_us")'
  done
}

section_direct() {
  header "| network | collective | TACOS us | planned us | simulated us | bound us | plan ms |"
  while read -r net links gib bytes tacos; do
    local rate=$((gib << 30))
    local wide="$net,bandwidth=$((links * rate))B/s,trunk-bandwidth=${rate}B/s,latency=500ns"
    for kind in allgather reduce_scatter bcast allreduce; do
      local size=$bytes to='-'
      case $kind in allgather) to=$tacos ;; bcast | allreduce) size=1G ;; esac
      row "\`$net\` | $kind | $to"
      plan --collective $kind --network "$wide" --size "$size" --check |
        cells '%.0f | %s | %.0f | %.0f' \
          'f("planned_us"), f("simulated_us") == "null" ? "-" : sprintf("%.0f", f("simulated_us")), f("lower_bound_us"), f("plan_ms")'
    done
  done << 'END'
torus:3x3x3 6 50 39768216 3706
mesh:5x5 4 50 42949673 9606
mesh:10x10 4 100 10737419 5049
torus:8x8x8 6 50 2097152 3402
END
}

section_cycles() {
  header "| network | servers | bound us | planned over bound | plan ms |"
  local net servers
  for net in torus:4x4 torus:5x7 torus:4x4x4 torus:8x8 mesh:4x5 mesh:5x5 mesh:8x8 \
    dragonfly:2,4,2 torus:8x8x8 torus:10x10x10 dragonfly:4,8,4 dragonfly:4,8,4:1024; do
    servers=()
    case $net in *:1024) servers=(--servers 1024) ;; esac
    net=${net%:1024}
    row "\`$net\`"
    plan --network "$net" "${servers[@]}" --size 100K |
      cells '%.0f | %.0f | %.3f | %.0f' \
        'f("servers"), f("lower_bound_us"), f("planned_us") / f("lower_bound_us"), f("plan_ms")'
  done
}

section_many() {
  header "| collective | network | 1K | 1M |"
  for kind in bcast reduce allgather; do
    for i in 0 1 4; do
      row "$kind | ${names[i]}"
      plan --collective $kind --network "${networks[i]}" --sizes 1K,1M --check --simulate | both
    done
  done
}

section_planning() {  # medians of 9 processes, networks in turn
  local rounds=9 file
  file=$(mktemp)
  for _ in $(seq $rounds); do
    for i in "${!networks[@]}"; do
      plan --network "${networks[i]}" --sizes 100K,100K |
        awk -v name="${names[i]}" "$field { printf \"%s%s\", NR == 1 ? name \";\" : \";\", f(\"plan_ms\") }
          END { print \";\" f(\"groups\") \";\" f(\"tasks\") }" >>"$file"
    done
  done
  header "| network | groups | transfers | first / second plan, ms |"
  for name in "${names[@]}"; do
    median() { grep "^$name;" "$file" | cut -d';' -f"$1" | sort -g | sed -n $((rounds / 2 + 1))p; }
    row "$name"
    printf ' %s | %s | %.1f / %.1f |\n' "$(median 4)" "$(median 5)" "$(median 2)" "$(median 3)"
  done
  rm -f "$file"
}

section_large() {
  header "| hosts | network | planned over bound | groups | transfers | plan ms |"
  local n name net
  local -A fat_trees=([512]="8,3" [1024]="32,2 4,5")
  for n in 512 1024; do
    while IFS=';' read -r name net; do
      row "$n | $name"
      plan --network "$net,$lan" --size 100K |
        cells '%.3f | %s | %s | %.0f' 'f("planned_us") / f("lower_bound_us"), f("groups"), f("tasks"), f("plan_ms")'
    done <<END
one switch;single-switch:$n
14-host switches, 1G trunks;tree:14x74,hosts=$n
14-host switches, 10G trunks;tree:14x74,hosts=$n,$ten
$(for tree in ${fat_trees[$n]}; do echo "fat tree $tree;fat-tree:$tree"; done)
two clusters, 1G between;wan:$((n / 2)),$((n / 2)),long-latency=5ms
two clusters, 10G between;wan:$((n / 2)),$((n / 2)),long-latency=5ms,$ten
random tree of $((n / 8)) switches;random-tree:$n,$((n / 8)),seed=1,trunk-bandwidth=1Gbit/s:10Gbit/s
END
  done
}

section_closed() {  # time lost at the root, formula / simulated; L = 20 us, N = 31
  header "| size | bound us | one at a time | binomial tree | relayed | tokens ahead |"
  for size in 256 1K 4K 16K 64K; do
    {
      plan --collective gather --network single-switch:32,$lan --size $size \
        --planner thesis,list --relay off,on
      "$bin/ib_sim" gather --algorithm binomial --mode free --network single-switch:32,$lan \
        --layout 32x1 --sizes $size --json -
    } | awk -v size=$size -v bytes="$(numfmt --from=iec $size)" "$field { if (NR == 1) b = f(\"lower_bound_us\")
        t[NR] = (NR == 4 ? f(\"time_us\") : f(\"simulated_us\")) - b }
      END { L = 20; N = 31; gap = L - bytes * 0.008; if (gap < 0) gap = 0
        printf \"| %s | %.0f | %.0f / %.0f | %.0f / %.0f | %.0f / %.0f | 0 / %.0f |\n\", size, b,
          2 * L * N, t[1], 2 * L * log(N + 1) / log(2), t[4], gap * N, t[2], t[3] }"
  done
}

section_policies() {
  header "| size | random | max-cost | min-cost | max-sync |"
  plan --network $ours --sizes 128-1M:2 --planner thesis --policy all --relay off |
    awk "$field { t[f(\"size\"), f(\"policy\")] = f(\"simulated_us\"); s[f(\"size\")] = 1 }
      END { for (i = 128; i <= 1048576; i *= 2) { m = t[i, \"min-sync\"]
        size = i < 1024 ? i : i < 1048576 ? i / 1024 \"K\" : i / 1048576 \"M\"
        printf \"| %s | %.2f | %.2f | %.2f | %.2f |\n\", size, t[i, \"random\"] / m,
          t[i, \"max-cost\"] / m, t[i, \"min-cost\"] / m, t[i, \"max-sync\"] / m
        l += log(m / t[i, \"random\"]); n++ }
        printf \"min-sync over random, geometric mean: %.3f\n\", exp(l / n) }"
}

section_relay() {
  header "| | 1K | 4K | 16K | 64K | 256K | 1M |"
  for kind in gather alltoall; do
    row $kind
    plan --collective $kind --network $ours --sizes 1K-1M:4 --planner thesis --relay off,on |
      awk "$field { if (NR % 2) off = f(\"simulated_us\")
        else printf \" %.2f |\", f(\"simulated_us\") / off } END { print \"\" }"
  done
  for planner in thesis fixed; do
    echo "gather of 300 KB over two clusters, $planner:"
    plan --collective gather --network "${networks[4]}" --size 300K --planner $planner \
      --relay off,on | cells '%.1f ms' 'f("simulated_us") / 1000'
  done
}

# wrong COLLECTIVE: time over the right plan's, in brackets the longest wait and what was stated for it, us
wrong() {
  local right how
  header "| $1 | 0.1 | 0.3 | 0.3, taken as given |"
  for i in "${!networks[@]}"; do
    row "${names[i]}"
    right=$(plan --collective "$1" --network "${networks[i]}" --size 100K |
      awk "$field { print f(\"simulated_us\") }")
    for how in "0.1 auto" "0.3 auto" "0.3 0"; do
      plan --collective "$1" --network "${networks[i]}" --size 100K --wrong "${how% *}" \
        --error "${how#* }" --draws 5 | awk -v right="$right" "$field
        { t = f(\"simulated_us\") / right; if (t > time) time = t
          if (f(\"waited_us\") > wait) wait = f(\"waited_us\")
          if (f(\"jitter_us\") > most) most = f(\"jitter_us\")
          if (f(\"waited_us\") > f(\"jitter_us\") + 0.001) beyond++ }
        END { printf \" %.2f (%.0f, %.0f)%s |\", time, wait, most, beyond ? \" BEYOND\" : \"\" }"
    done
    echo
  done
}
section_wrong_gather() { wrong gather; }
section_wrong_alltoall() { wrong alltoall; }

# What the thesis measured, and what comes out here.
section_paper() {
  echo "gather in one cluster of 96 hosts, 14 a switch, relay over none:"
  for size in 20K 100K 1M; do
    plan --collective gather --network "tree:14x7,hosts=96,$lan" --size $size --planner thesis \
      --relay off,on | awk "$field { t[NR] = f(\"simulated_us\") }
        END { printf \"%s: %.3f\n\", \"$size\", t[2] / t[1] }"
  done
  echo "alltoall of 100 KB, policies over min-sync, and list over min-sync, 1 to 12 clusters:"
  for n in $(seq 12); do
    row "$n"
    { plan --network "twelve-clusters:$n" --size 100K --planner thesis --policy $thesis \
      --relay off --simulate
      plan --network "twelve-clusters:$n" --size 100K --planner list --simulate; } |
      awk "$field { t[NR] = f(\"simulated_us\") }
        END { printf \" %.2f | %.2f | %.2f |\n\", t[1] / t[3], t[2] / t[3], t[4] / t[3] }"
  done
}

section_pictures() {
  local clusters=() hosts=() n
  for n in $(seq 2 12); do clusters+=("twelve-clusters:$n"); done
  for n in 14 28 56 112 224 448 896; do hosts+=("tree:14x$((n / 14)),$ten,$lan"); done
  draw() { "$bin/ib_plan" --plot "$pictures/contention_$1.svg" "${@:2}" >"$pictures/log" ||
    { cat "$pictures/log"; exit 1; }; }
  draw links --network "tree:4x3,trunk-bandwidth=2Gbit/s,$lan" --size 100K
  draw policies --network $ours --sizes 128-1M:2 --planner thesis --policy all --relay off
  for kind in gather alltoall; do
    draw relay_$kind --collective $kind --network $ours --sizes 1K-1M:4 --planner thesis --relay on,off
    draw clusters_$kind --collective $kind --network "${clusters[@]}" --size 100K \
      --planner thesis,list --policy $thesis --relay off --simulate
    draw wrong_$kind --collective $kind --network "${networks[@]:0:6}" --size 100K \
      --planner list --wrong 0 0.1 0.2 0.3 0.4 --draws 3
  done
  draw groups --network "${hosts[@]}" --planner list --show groups
  draw planning --network "${hosts[@]}" --planner list --show plan_ms
  rm "$pictures/log"
}

[ $# -gt 0 ] || set -- bound narrow clusters many direct ports cycles planning large closed policies relay wrong_gather \
  wrong_alltoall paper pictures
make_sections "$@"
