#!/bin/bash
# test.sh BUILD-DIRECTORY: installs the build to an empty place, moves it, and builds and runs the
# documentation's examples from there, as a user would: with CMake and with pkg-config.
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

cmake --install "$build" --prefix "$dir/first" >"$dir/log" 2>&1 || fail "$(tail -n 5 "$dir/log")"
mv "$dir/first" "$dir/moved"
library=$(find "$dir/moved" -name 'libibcoll.so' | head -n 1)
[ -n "$library" ] || fail "no libibcoll.so was installed"

# Only the C interface is visible, and versioned.
foreign=$(nm -D --defined-only "$library" | awk '{print $3}' | grep -vE '^(ibcoll_.*@@IBCOLL_|IBCOLL_[0-9.]+(@|$))' || true)
[ -z "$foreign" ] || fail "libibcoll.so exports $(head -n 3 <<<"$foreign" | paste -sd' ')"
# Every function that the header declares is there.
grep -ohE '\bibcoll_[a-z_]+\(' "$dir/moved/include/ibcoll/ibcoll.h" | tr -d '(' | sort -u >"$dir/declared"
nm -D --defined-only "$library" | sed -n 's/.* \(ibcoll_[a-z_]*\)@@.*/\1/p' | sort -u >"$dir/defined"
missing=$(comm -23 "$dir/declared" "$dir/defined")
[ -z "$missing" ] || fail "declared, but not in libibcoll.so: $(paste -sd' ' <<<"$missing")"

# With CMake: every example.
cmake -S "$root/tests/install" -B "$dir/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$dir/moved" \
  -DEXAMPLES="$root/docs/examples" >"$dir/log" 2>&1 || fail "$(tail -n 20 "$dir/log")"
cmake --build "$dir/cmake" >"$dir/log" 2>&1 || fail "$(tail -n 20 "$dir/log")"
ran=0
for example in "$root"/docs/examples/*.c "$root"/docs/examples/*.cc; do
  name=$(basename "${example%.*}")
  timeout 60 "$dir/cmake/$name" >"$dir/log" 2>&1 || fail "example $name: $(tail -n 5 "$dir/log")"
  [ -s "$dir/log" ] || fail "example $name printed nothing"
  ran=$((ran + 1))
done

# With pkg-config, without a word on where the library is: the same for one of each language.
unset LD_LIBRARY_PATH
export PKG_CONFIG_PATH=${library%/*}/pkgconfig
read -ra flags < <(pkg-config --cflags --libs ibcoll)
for example in "$root"/docs/examples/*.c; do
  cc -Wall -Wextra -Werror -std=c11 "$example" "${flags[@]}" -o "$dir/with-pkg-config" || fail "pkg-config, C"
  timeout 60 "$dir/with-pkg-config" >/dev/null || fail "pkg-config: $example"
done
for example in "$root"/docs/examples/*.cc; do
  c++ -Wall -Wextra -Werror -std=c++20 "$example" "${flags[@]}" -o "$dir/with-pkg-config" || fail "pkg-config, C++"
  timeout 60 "$dir/with-pkg-config" >/dev/null || fail "pkg-config: $example"
done

# Tools run from where they were installed.
for tool in "$dir"/moved/bin/*; do
  "$tool" --help >/dev/null || fail "$(basename "$tool") --help"
done
echo "install test: $ran examples built and run from an installed tree"
