#!/bin/bash
# mapping_page.sh [--budget TIME] [--data FOLDER] BIN_DIR [SECTION ...]: makes the tables of docs/results/mapping.md
# again, in Markdown.
# Sections: bruck cg sp stencils hops links folds (default), and with a folder that has the graphs of KaHIP and the
# instances of QAPLIB hierarchies qaplib.
# Sections with Scotch beside refine need libscotch.
# --budget: what each search gets instead of what the page says; for a test, which does not compare what they find.
set -euo pipefail
# shellcheck source=perf/page.sh
. "$(dirname "$0")/page.sh"
budget='' data=''
while [[ ${1:-} == --* ]]; do
  case $1 in
    --budget) budget=$2 ;;
    --data) data=$2 ;;
    *) echo "mapping_page.sh: unknown option $1" >&2 && exit 2 ;;
  esac
  shift 2
done
bin=${1:?usage: mapping_page.sh [--budget TIME] [--data FOLDER] BIN_DIR [SECTION ...]}
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

map() { "$bin/ib_map" --json - "$@"; }
search() { map --clock cpu --budget "${budget:-$1}" "${@:2}"; } # TIME [ARGS]
# Of awk, beside f(): four(X): in four digits; least(X, Y): Y, bold if it is less than X.
# shellcheck disable=SC2016
functions=$field'
  function four(x,  digits, y) {
    digits = 3
    for (y = x; y >= 10 && digits > 0; y /= 10) --digits
    for (y = x; y < 1 && y > 0; y *= 10) ++digits
    return sprintf("%.*f", digits, x)
  }
  function least(x, y) { return y + 0 < x + 0 ? "**" y "**" : y }'

# figures HOPS_UNIT HOPS_DIGITS LINK_UNIT LINK_DIGITS: of each line hop-bytes as on a mesh, the largest link, the
# simulated us and the seconds, with | between. What a search looked for ($goal: hops, link) is bold; one for the link
# has hop-bytes of the torus, too.
figures() {
  awk -v unit="$1" -v digits="$2" -v link_unit="$3" -v link_digits="$4" -v goal="$goal" "$functions"'
    {
      hops = sprintf("%.*f", digits, f("hop_bytes_mesh") / unit)
      link = sprintf("%.*f", link_digits, f("max_link_bytes") / link_unit)
      if (goal == "hops") hops = "**" hops "**"
      if (goal == "link") {
        hops = hops sprintf(" (torus %.*f)", digits, f("hop_bytes_torus") / unit)
        link = "**" link "**"
      }
      us = f("simulated_us"); seconds = sprintf("%.2f", f("cpu_seconds"))
      print hops "|" link "|" (us == "null" ? "-" : sprintf("%.0f", us)) "|" (seconds == "0.00" ? "-" : seconds)
    }'
}
# beside_paper: lines of NAME|HOPS|LINK[|SECONDS] of the paper and of figures behind it, as rows
beside_paper() {
  awk -F'|' '{ n = NF - 4
    printf "| %s | %s | %s | %s | %s | %s |", $1, $2, $(n + 1), $3, $(n + 2), $(n + 3)
    if (n == 4) printf " %s | %s |", $4, $(n + 4)
    print "" }'
}
mopt() { map --method mopt-none,mopt-mincost,mopt-minlink "$@"; }

section_bruck() {
  local units=(1e9 3 1e6 3) goal='' time
  header "| placement | hop x GB, paper | ours | largest link MB, paper | ours | simulated us \
| seconds, paper | seconds, ours |"
  paste -d'|' - <(mopt --network torus:16x16x16 --pattern bruck:4096 | figures "${units[@]}") <<'END' | beside_paper
XYZ order|223.3|45.10|-
MOPT none|52.4|8.68|0.7
MOPT mincost|51.1|8.64|55
MOPT minlink|51.3|6.90|541
END
  goal="link"
  for time in 1s 10s 30s; do
    search $time --network torus:16x16x16 --pattern bruck:4096 --objective link --no-simulation | tail -n 1 |
      figures "${units[@]}" | awk -v time=${time%s} -F'|' -v OFS='|' \
        '{ print "refine, largest link", "-", "-", "-", $1, $2, $3, time }' | beside_paper
  done
}

# on_cube PATTERN UNITS...: MOPT beside the paper's lines on standard input, and refine for 30 s
on_cube() {
  local goal='' name options network=(--network torus:8x8x8 --pattern "$1")
  shift
  paste -d'|' - <(mopt "${network[@]}" | figures "$@") | beside_paper
  for name in "hop-bytes:hops:--distance mesh" "largest link:link:"; do
    IFS=: read -r name goal options <<<"$name"
    # shellcheck disable=SC2086
    search 30s "${network[@]}" --objective "$goal" $options | tail -n 1 | figures "$@" |
      sed "s/^/refine, $name|-|-|/" | beside_paper
  done
}

section_cg() {
  header "| placement | hop x GB, paper | ours | largest link MB, paper | ours | simulated us |"
  on_cube cg:512 1e9 3 1e6 3 <<'END'
XYZ order|4.43|3.90
MOPT none|3.64|4.84
MOPT mincost|3.36|2.44
MOPT minlink|3.38|2.93
END
}

section_sp() {
  header "| placement | hop x MB, paper | ours | largest link KB, paper | ours | simulated us |"
  on_cube sp:484 1e6 1 1e3 0 <<'END'
XYZ order|1504|1066
MOPT none|968|1117
MOPT mincost|726|1384
MOPT minlink|886|968
END
}

# scotch NETWORK PATTERN OBJECTIVE: lines of Scotch and of refine
scotch() {
  search 5s --network "$1" --pattern "$2" --scramble --method scotch,refine --objective "$3" --no-simulation | tail -n 2
}

section_stencils() {
  header "| pattern | network | hop x MB: Scotch | refine | optimum | largest link MB: Scotch | refine | optimum |"
  local sides
  for sides in 8x8x8 16x16x16 64x64; do
    scotch torus:$sides periodic:$sides hops | awk -v sides=$sides "$functions"'
      { hops[NR] = four(f("hop_bytes_torus") / 1e6); link[NR] = four(f("max_link_bytes") / 1e6) }
      END {
        bound = four(f("hop_bytes_bound") / 1e6); link_bound = four(f("max_link_bound") / 1e6)
        printf "| periodic:%s | torus:%s | %s | %s | %s | %s | %s | %s |\n", sides, sides, hops[1],
          least(hops[1], hops[2]), bound, link[1], least(link[1], link[2]), link_bound
      }'
  done
}

# beside_scotch OBJECTIVE FIELD BOUND: rows of both, in MB
beside_scotch() {
  header "| pattern | network | Scotch | refine | bound | refine / bound |"
  local pattern network
  while read -r pattern network; do
    scotch "$network" "$pattern" "$1" | awk -v row="$pattern | $network" -v value="$2" -v bound="$3" "$functions"'
      { found[NR] = f(value); shown[NR] = four(f(value) / 1e6) }
      END {
        printf "| %s | %s | %s | %s | %.2f |\n", row, shown[1], least(shown[1], shown[2]), four(f(bound) / 1e6),
          found[2] / f(bound)
      }'
  done <<'END'
cliques:4096 torus:16x16x16
cliques:512 torus:8x8x8
fft:32x32 torus:32x32
geometric:4096 torus:16x16x16
geometric:512 torus:8x8x8
geometric:64 torus:8x8
powerlaw:4096 torus:16x16x16
powerlaw:512 torus:8x8x8
END
}
section_hops() { beside_scotch hops hop_bytes_torus hop_bytes_bound; }
section_links() { beside_scotch link max_link_bytes max_link_bound; }

# two_meshes: of 16x16, whose tasks are numbered alternately, a byte a message
two_meshes() {
  awk 'BEGIN {
    for (i = 0; i < 256; ++i) for (mesh = 0; mesh < 2; ++mesh) {
      if (i % 16 < 15) { print 2 * i + mesh, 2 * i + 2 + mesh, 1; print 2 * i + 2 + mesh, 2 * i + mesh, 1 }
      if (i < 240) { print 2 * i + mesh, 2 * i + 32 + mesh, 1; print 2 * i + 32 + mesh, 2 * i + mesh, 1 }
    }
  }'
}
# with_others: a periodic 8x8x8, a byte a message, and 20 messages between random tasks
with_others() {
  awk 'function random() { state = (state * 16807) % 2147483647; return state % 512 }
    BEGIN {
      for (i = 0; i < 512; ++i) for (side = 1; side < 512; side *= 8) {
        place = int(i / side) % 8
        print i, i + ((place + 1) % 8 - place) * side, 1
        print i, i + ((place + 7) % 8 - place) * side, 1
      }
      state = 1
      for (i = 0; i < 20; ++i) { from = random(); print from, random(), 1 }
    }'
}

section_folds() {
  header "| traffic, scrambled | refine | best known |"
  two_meshes >"$scratch/meshes"
  with_others >"$scratch/others"
  hops() { awk -v messages="$1" "$functions"' END { printf "%.3f", f("hop_bytes_torus") / messages }'; }
  # fold NAME MESSAGES KNOWN TRAFFIC...
  fold() {
    printf '| %s | %s | %s |\n' "$1" \
      "$(search 5s --network torus:8x8x8 --scramble --no-simulation "${@:4}" | hops "$2")" "$3"
  }
  # shellcheck disable=SC2016  # names in backticks
  fold 'hypercube of 512 (`butterfly:512`)' $((9 * 512 * 65536)) 1.667 --pattern butterfly:512
  fold "two meshes of 16x16, whose tasks are numbered alternately" 1920 "1.033, by hand" --matrix "$scratch/meshes"
  fold "periodic 8x8x8 and 20 messages between random tasks" 3092 \
    "$(map --network torus:8x8x8 --method xyz --matrix "$scratch/others" | hops 3092), by hand" \
    --matrix "$scratch/others"
  fold "periodic 12x12x3" $((6 * 432 * 65536)) - --pattern periodic:12x12x3
  fold "periodic 20x20" $((4 * 400 * 65536)) - --pattern periodic:20x20
}

# instance NAME: a file of the folder with data
instance() {
  [ -f "${data:?with --data FOLDER, which has graphs and instances}/$1" ] || { echo "$data lacks $1" >&2 && return 1; }
  echo "$data/$1"
}

section_hierarchies() {
  header "| graph | tasks in order | Scotch | refine |"
  local graph
  for graph in delaunay_n15 rgg_n_2_15_s0; do
    search 5s --hierarchy 4:16:16 --distances 1:10:100 --matrix "$(instance $graph.graph)" --imbalance 3 \
      --method scotch,refine | awk -v graph=$graph "$functions"'
        function spaced(x,  s) {
          s = sprintf("%d", x)
          while (match(s, /[0-9][0-9][0-9][0-9]( |$)/)) s = substr(s, 1, RSTART) " " substr(s, RSTART + 1)
          return s
        }
        { found[NR] = f("hop_bytes_torus") }
        END { printf "| %s | %s | %s | **%s** |\n", graph, spaced(found[1]), spaced(found[2]), spaced(found[3]) }'
  done
}

section_qaplib() {
  header "| instance | mesh | best known | seconds | refine, median of seeds 1 to 5 | worst |"
  local name mesh known time seed
  while read -r name mesh known time; do
    awk '{ sub(/\r$/, ""); for (i = 1; i <= NF; ++i) v[k++] = $i }
      END { n = v[0]; for (r = 0; r < n; ++r) for (c = 0; c < n; ++c)
        printf "%s%s", v[1 + n * n + r * n + c], c < n - 1 ? "," : "\n" }' \
      "$(instance "$name.dat")" >"$scratch/flows.csv"
    for seed in 1 2 3 4 5; do
      search "$time" --network "mesh:$mesh" --matrix "$scratch/flows.csv" --seed $seed --no-simulation |
        awk "$functions"' END { print f("hop_bytes_mesh") }'
    done | sort -n | awk -v row="$name | $mesh | $known | ${time%s}" '{ value[NR] = $1 }
      END { printf "| %s | %d | %d |\n", row, value[3], value[5] }'
  done <<'END'
nug30 6x5 6124 1s
tho40 8x5 240516 5s
sko64 8x8 48498 5s
sko72 9x8 66256 20s
sko81 9x9 90998 20s
sko90 10x9 115534 20s
sko100a 10x10 152002 20s
sko100b 10x10 153890 20s
sko100c 10x10 147862 20s
sko100d 10x10 149576 20s
sko100e 10x10 149150 20s
sko100f 10x10 149036 20s
wil100 10x10 273038 20s
tho150 15x10 8133398 60s
END
}

[ $# -gt 0 ] || set -- bruck cg sp stencils hops links folds ${data:+hierarchies qaplib}
make_sections "$@"
