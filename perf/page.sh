# shellcheck shell=bash
# What the scripts that make tables of pages have in common.

# shellcheck disable=SC2016,SC2034
# f(NAME) of awk: a field of a line of JSON
field='function f(name,  s) {
  if (!match($0, "\"" name "\":[^,}]*")) return ""
  s = substr($0, RSTART, RLENGTH); sub(/^[^:]*:/, "", s); gsub(/"/, "", s); return s ~ /^[0-9.e+-]+$/ ? s + 0 : s }'

# header COLUMNS: a table's first two lines
header() { echo "$1" && sed -E 's/[^|]+/---/g' <<<"$1"; }
# row NAME: the first cell of a row
row() { printf '| %s |' "$1"; }
# cells FORMAT WHAT: of each line WHAT of awk, as cells of one row
cells() { awk "$field { printf \" $1 |\", $2 } END { print \"\" }"; }
# times [FORMAT]: the time of each line, in cells
times() { awk "$field { printf \" ${1:-%.0f} |\", f(\"time_us\") }"; }

# make_sections NAME...: all of them, or none if there is one that the script lacks
make_sections() {
  local section
  for section; do
    declare -F "section_$section" >/dev/null || { echo "${0##*/}: there is no section $section" >&2; exit 2; }
  done
  for section; do
    echo "## $section"
    "section_$section"
  done
}
