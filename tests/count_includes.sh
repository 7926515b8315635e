#!/bin/bash
# count_includes.sh [ROOT]: how many includes go from which part and folder to which; see --help.
set -euo pipefail
usage() {
  cat <<'END'
Usage: tests/count_includes.sh [ROOT]

Counts the includes in all sources of a tree (by default the one of this script): how many go from
each part of folders.txt to each other, and from each folder to each other, how many go against
folders.txt, and how many cycles there are of folders and of files that include each other. It names
what goes against folders.txt and what is in a cycle.

Includes count that are in quotes and name a header of the tree. Those of libraries do not, nor do
headers in angle brackets, which are ibcoll's as they are installed.

The exit status is 1 if an include goes against folders.txt, or if there is a cycle of others than
the public headers in include/ibcoll/, each of which can be included first.

Examples:
  tests/count_includes.sh
  tests/count_includes.sh | sed -n '/^includes from folder/,/^$/p'
END
}
case ${1:-} in
  -h | --help)
    usage
    exit 0
    ;;
esac
[ $# -le 1 ] || {
  usage >&2
  exit 2
}
export LC_ALL=C
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"
[ -e folders.txt ] || {
  echo "count_includes.sh: there is no folders.txt in $PWD" >&2
  exit 2
}
# What the tree is made of: not what builds, or git, keep at its top.
sources() {
  find . \( -path './.*' -o -path './build*' \) -prune -o -type f \
    \( -name '*.h' -o -name '*.hpp' -o -name '*.c' -o -name '*.cc' \) -print | sed 's|^\./||' | sort
}
{
  sed 's/^/row /' folders.txt | grep '^row [a-z]'
  for header in */network_kind.h; do [ ! -e "$header" ] || echo "transport ${header%/*}"; done
  sources | sed 's/^/source /'
  sources | tr '\n' '\0' | xargs -0 grep -HE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' /dev/null |
    sed -E 's/^([^:]*):[^"]*"([^"]*)".*/include \1 \2/' || true
} | awk '
  function add_folder(name, part, allowed) {
    folders[++folder_count] = name
    part_of[name] = part
    may[name] = allowed
  }
  function folder_of(path) {
    while (sub(/\/[^\/]*$/, "", path)) if (path in part_of) return path
    return ""
  }
  # The header of the tree that a source means; "": none.
  function header_of(file, header, beside) {
    if (header in is_source) return header
    if ("include/" header in is_source) return "include/" header
    beside = file
    sub(/[^\/]*$/, header, beside)
    return beside in is_source ? beside : ""
  }
  function goes_against(from, to, header) {
    return from == "" || to == "" ||
      from != to && index(may[from], " all ") == 0 && index(may[from], " " to " ") == 0 && index(may[from], " " header " ") == 0
  }
  # Tarjan: whoever reaches each other is in one cycle. Edges: a list of names, by line.
  function visit(node, edges, cycles, list, count, i, next_node, members, size) {
    number[node] = lowest[node] = ++visits
    stack[++depth] = node
    waits[node] = 1
    count = split(edges[node], list, "\n")
    for (i = 1; i < count; ++i) {
      next_node = list[i]
      if (!(next_node in number)) {
        visit(next_node, edges, cycles)
        if (lowest[next_node] < lowest[node]) lowest[node] = lowest[next_node]
      } else if (waits[next_node] && number[next_node] < lowest[node]) {
        lowest[node] = number[next_node]
      }
    }
    if (lowest[node] != number[node]) return
    do {
      next_node = stack[depth--]
      waits[next_node] = 0
      members = members " " next_node
      ++size
    } while (next_node != node)
    if (size > 1) cycles[++cycles["count"]] = members
  }
  function find_cycles(nodes, count, edges, cycles, i) {
    split("", number)
    split("", lowest)
    cycles["count"] = depth = visits = 0
    for (i = 1; i <= count; ++i) if (!(nodes[i] in number)) visit(nodes[i], edges, cycles)
  }
  function print_counts(what, names, count, pairs, i, j) {
    printf "\nincludes from %s to %s:\n", what, what
    for (i = 1; i <= count; ++i)
      for (j = 1; j <= count; ++j)
        if ((names[i], names[j]) in pairs) printf "%-22s %-22s %6d\n", names[i], names[j], pairs[names[i], names[j]]
  }
  function print_cycles(what, cycles, i) {
    printf "cycles of %s: %d\n", what, cycles["count"]
    for (i = 1; i <= cycles["count"]; ++i) {
      print " " cycles[i]
      # Files of include/ibcoll/ alone.
      if (cycles[i] !~ /^( include\/ibcoll\/[^ ]*)+$/) failed = 1
    }
  }

  $1 == "row" {
    allowed = " "
    for (i = 4; i <= NF; ++i) allowed = allowed $i " "
    if ($2 == "transports") {
      transport_part = $3
      of_transports = allowed
    } else {
      add_folder($2, $3, allowed)
    }
  }
  $1 == "transport" { add_folder($2, transport_part, of_transports) }
  $1 == "source" {
    files[++file_count] = $2
    is_source[$2] = 1
  }
  $1 == "include" {
    header = header_of($2, $3)
    if (header == "") next
    from = folder_of($2)
    to = folder_of(header)
    ++total
    if (goes_against(from, to, header)) against[++against_count] = $2 " includes " header
    ++parts[part_of[from], part_of[to]]
    if (from == to) ++within
    else if (from != "" && to != "" && !((from, to) in by_folder)) folder_edges[from] = folder_edges[from] to "\n"
    ++by_folder[from, to]
    file_edges[$2] = file_edges[$2] header "\n"
  }

  END {
    for (i = 1; i <= folder_count; ++i) {
      part = part_of[folders[i]]
      if (!(part in seen)) part_names[++part_count] = part
      seen[part] = 1
    }
    printf "%d sources in %d folders include headers of the tree %d times, %d times of their own folder and %d of others\n",
      file_count, folder_count, total, within, total - within
    print_counts("part", part_names, part_count, parts)
    print_counts("folder", folders, folder_count, by_folder)
    printf "\nincludes against folders.txt: %d\n", against_count
    for (i = 1; i <= against_count; ++i) print "  " against[i]
    if (against_count > 0) failed = 1
    find_cycles(folders, folder_count, folder_edges, folder_cycles)
    print_cycles("folders", folder_cycles)
    find_cycles(files, file_count, file_edges, file_cycles)
    print_cycles("files", file_cycles)
    exit failed
  }'
