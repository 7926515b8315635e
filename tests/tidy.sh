#!/bin/bash
# tidy.sh BUILD-DIRECTORY CACHE-DIRECTORY FILE: runs clang-tidy on one source, unless the same text
# with the same settings passed before.
set -euo pipefail
build=$1 cache=$2 file=$3
# What the compiler sees, from the command that builds it.
command=$(awk -v file="/$file\"" '/"command":/ {c = $0} /"file":/ && index($0, file) {print c; exit}' \
  "$build/compile_commands.json" | sed -e 's/^ *"command": "//' -e 's/",$//' -e 's/\\\(["\\]\)/\1/g')
[ -n "$command" ] || exit 0 # not part of this build
key=$({
  clang-tidy --version
  cat .clang-tidy
  cd "$build" && eval "${command/ -c / -E -c }" -o -
} | sha256sum | cut -d' ' -f1)
[ ! -e "$cache/$key" ] || exit 0
clang-tidy --quiet -p "$build" "$file" 2> >(grep -vE '^[0-9]+ warnings? generated' >&2) || exit 1
touch "$cache/$key"
