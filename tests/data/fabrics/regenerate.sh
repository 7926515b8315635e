#!/bin/bash
# Makes the fabrics of this folder again: ibsim plays the network, opensm routes it.
# Usage: regenerate.sh FOLDER_WITH_IB_TOPO   (Debian: ibsim-utils opensm infiniband-diags)
set -euo pipefail
ib_topo=$(realpath "${1:?the folder of ib_topo, like build/bin}")/ib_topo
cd "$(dirname "${BASH_SOURCE[0]}")"
umad2sim=$(echo /usr/lib/*/umad2sim/libumad2sim.so)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# route SPEC NAME ENGINE [OPENSM_OPTION]...: writes NAME.topo and NAME.ENGINE.fts.
route() {
  local spec=$1 name=$2 engine=$3
  shift 3
  rm -rf "${work:?}"/*
  "$ib_topo" convert "$spec" --to ibsim --output "$work/net"
  export IBSIM_SOCKNAME="ibcoll$$" OSM_TMP_DIR="$work" OSM_CACHE_DIR="$work"
  # ibsim reads commands; it lives until its input ends.
  mkfifo "$work/commands"
  timeout 30 ibsim -s "$work/net" <"$work/commands" >"$work/ibsim.log" 2>&1 &
  local simulator=$!
  exec 9>"$work/commands"
  sleep 1
  LD_PRELOAD=$umad2sim timeout 20 opensm -o -R "$engine,no_fallback" -f "$work/osm.log" \
    --dump_files_dir "$work" -D 0x43 "$@" >"$work/opensm.out" 2>&1 || true
  LD_PRELOAD=$umad2sim ibnetdiscover 2>"$work/log" | sed '/^#/d' >"$name.topo"
  LD_PRELOAD=$umad2sim dump_fts -n 2>"$work/log" >"$name.$engine.fts"
  
  exec 9>&-
  kill "$simulator" 2>/dev/null || true
  wait "$simulator" 2>/dev/null || true
  echo "$name $engine: $(grep -c ' 0' "$name.$engine.fts") entries"
}

for engine in ftree updn minhop; do route fat-tree:4,2 fat_tree "$engine"; done
for engine in dfsssp nue lash; do route torus:4x4 torus "$engine"; done
route random-tree:12,5 tree minhop -l 2
route fat-tree:2,3 small ftree
cp "$work/opensm-lfts.dump" small.lfts
