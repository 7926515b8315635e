#!/bin/bash
# tidy.sh BUILD-DIRECTORY CACHE-DIRECTORY HEADERS FILE: runs clang-tidy on one source and what it
# includes of HEADERS, a regular expression of their paths, unless the same text with the same
# settings passed before. Says so of a source that this build does not compile.
set -euo pipefail
build=$1 cache=$2 headers=$3 file=$4
# What the compiler sees, from the command that builds it.
command=$(awk -v file="/$file\"" '/"command":/ {c = $0} /"file":/ && index($0, file) {print c; exit}' \
  "$build/compile_commands.json" | sed -e 's/^ *"command": "//' -e 's/",$//' -e 's/\\\(["\\]\)/\1/g')
flags=()
if [ -z "$command" ] && grep -q '#include <mpi.h>' "$file" && command -v mpicc.mpich >/dev/null; then
  # An MPI's own wrapper compiles it.
  language="-std=gnu11 -D_GNU_SOURCE"
  [[ $file == *.c ]] || language="-std=c++20 -DMPICH_SKIP_MPICXX"
  read -ra flags <<<"$(mpicc.mpich -show -E | grep -o -e '-I[^ ]*' | tr '\n' ' ') $language -I$PWD -I$PWD/include"
  command="clang ${flags[*]} -c $PWD/$file"
fi
if [ -z "$command" ]; then
  echo "tidy: not part of this build: $file" >&2
  exit 0
fi
key=$({
  clang-tidy --version
  echo "$headers"
  cat .clang-tidy
  cd "$build" && eval "${command/ -c / -E -c }" -o -
} | sha256sum | cut -d' ' -f1)
[ ! -e "$cache/$key" ] || exit 0
# Of a source that several targets compile, this one command: clang-tidy would take each, also those
# that need precompiled headers, which nobody has made.
[ ${#flags[@]} -gt 0 ] || eval "flags=(${command#* })"
clang-tidy --quiet --header-filter="$headers" "$file" -- "${flags[@]}" 2> >(grep -vE '^[0-9]+ warnings? generated' >&2) || exit 1
touch "$cache/$key"
