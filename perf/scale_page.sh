#!/bin/bash
# scale_page.sh BIN_DIR [SECTION ...]: makes the tables of docs/scale.md that have figures of jobs again, in Markdown.
# Sections: measured large (default: both). `measured` starts jobs of up to 512 processes.
set -euo pipefail
# shellcheck source=perf/page.sh
. "$(dirname "$0")/page.sh"
bin=${1:?usage: scale_page.sh BIN_DIR [SECTION ...]}
shift

# job LAYOUT [ARGS]
job() { "$bin/ib_info" --job "$@" --json -; }

section_measured() {
  header "| layout | algorithm | calls | measured | \`ib_info --job\` | predicted / measured |"
  local layout calls algorithm
  while read -r layout algorithm calls; do
    { "$bin/memory_bench" --ranks $((${layout/x/ * })) --servers "${layout%x*}" --calls "$calls" --small-only \
        --algorithm $algorithm --json -
      job "$layout" --transport loopback --calls alltoall:64:$algorithm; } |
      awk "$field { bytes[NR] = f(NR == 1 ? \"mean_small_call_bytes\" : \"total_bytes\") }
        END { printf \"| \`$layout\` | \`$algorithm\` | $calls | %.0f KB | %.0f KB | %.2f |\\n\",
          bytes[1] / 1024, bytes[2] / 1024, bytes[2] / bytes[1] }"
  done <<'END'
4x17 two_level_ring 70
4x17 aggregate 70
16x8 two_level_ring 300
16x8 aggregate 300
32x8 two_level_ring 260
32x8 aggregate 260
64x8 two_level_ring 3
64x8 aggregate 40
END
}

section_large() {
  header "| layout | connections | queue pairs | mails | receives | tables | programs | calls | shared | total \
| at the start | rank 0 in addition |"
  local layout
  for layout in 24x8 100x32 800x128 12800x8; do
    job $layout | awk "$field
      function with_blank(n) { return n < 1000 ? n : int(n / 1000) sprintf(\" %03d\", n % 1000) }
      function mb(name,  x) {
        x = f(name) / 1048576
        return x < 100 ? sprintf(\"%.1f\", x) : with_blank(sprintf(\"%.0f\", x) + 0)
      }
      { printf \"| \`$layout\` | %s |\", with_blank(f(\"queue_pairs\"))
        n = split(\"queue_pair mail receive table program call shared total start start_root\", part, \" \")
        for (i = 1; i <= n; ++i) printf \" %s |\", mb(part[i] \"_bytes\")
        print \"\" }"
  done
}

[ $# -gt 0 ] || set -- measured large
make_sections "$@"
