#!/bin/bash
# test.sh BUILD-DIRECTORY: installs the build to an empty place, moves it, and builds and runs the
# documentation's examples from there, as a user would.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
[ $# -eq 1 ] && [ -e "$1/CMakeCache.txt" ] || {
  echo "usage: tests/install/test.sh BUILD-DIRECTORY" >&2
  exit 2
}
build=$(cd "$1" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
  echo "install test: $1" >&2
  exit 1
}
# shellcheck source=tests/install/examples.sh
source "$root/tests/install/examples.sh"
version=$(sed -n 's/^## \[\(.*\)\].*/\1/p' "$root/CHANGELOG.md" | head -n 1)

cmake --install "$build" --prefix "$dir/first" >"$dir/log" 2>&1 || fail "$(tail -n 5 "$dir/log")"
mv "$dir/first" "$dir/moved"
library=$(find "$dir/moved" -name 'libibcoll.so' | head -n 1)
[ -n "$library" ] || fail "no libibcoll.so was installed"

# Only the C interface is visible, and versioned: by this version, or by the next one what has come since. The name says which
# programs can do with the library.
next=${version%.*}
next=${next%.*}.$((${next#*.} + 1))
foreign=$(nm -D --defined-only "$library" | awk '{print $3}' |
  grep -vE "^(ibcoll_.*@@IBCOLL_(${version%.*}|$next)|IBCOLL_(${version%.*}|$next)(@.*)?)\$" || true)
[ -z "$foreign" ] || fail "libibcoll.so exports $(head -n 3 <<<"$foreign" | paste -sd' ')"
readelf -d "$library" | grep -qF "soname: [libibcoll.so.${version%.*}]" || fail "the soname is not of version $version"
# Every function that the headers declare is there.
grep -hE '^IBCOLL_API ' "$dir"/moved/include/ibcoll/*.h | grep -oE 'ibcoll_[a-z_]+\(' | tr -d '(' | sort -u >"$dir/declared"
nm -D --defined-only "$library" | sed -n 's/.* \(ibcoll_[a-z_]*\)@@.*/\1/p' | sort -u >"$dir/defined"
missing=$(comm -23 "$dir/declared" "$dir/defined")
[ -z "$missing" ] || fail "declared, but not in libibcoll.so: $(paste -sd' ' <<<"$missing")"

use_it "$dir/moved"

# As a part of another project it brings neither tests nor tools, nor errors for warnings.
cmake -S "$root/tests/install/subproject" -B "$dir/subproject" -G Ninja -DIBCOLL="$root" \
  >"$dir/log" 2>&1 || fail "as a part of a project: $(tail -n 20 "$dir/log")"
echo "install test: $ran examples built and run from an installed tree"
