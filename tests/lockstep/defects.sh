#!/bin/bash
# Whether lockstep finds defects that it is there to find: takes the mend of each out of a copy of the
# tree (tests/lockstep/defects/*.patch), and searches. Prints a line each: which seed fails first, after
# how many seconds of search, and how. Fails where a patch no longer applies or nothing is found.
#
#   tests/lockstep/defects.sh [SECONDS [NAME...]]     at most 300 s each, all of them, unless said otherwise
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit

readonly LONGEST=${1:-300}
shift $(($# > 0 ? 1 : 0))
readonly COPY=build-defects/source
names=("$@")
[ ${#names[@]} -gt 0 ] || for patch in tests/lockstep/defects/*.patch; do names+=("$(basename "$patch" .patch)"); done

say() { echo "defects: $*" >&2; }
for name in "${names[@]}"; do
  [ -f "tests/lockstep/defects/$name.patch" ] || {
    say "there is no defect $name"
    exit 2
  }
done
build() {
  cmake --build "$COPY/build" --target lockstep -j"$(nproc)" >build-defects/build.log 2>&1 || {
    grep -E 'error|FAILED' build-defects/build.log | head -n 10 >&2
    return 1
  }
}

mkdir -p "$COPY"
# What has not changed is not built again.
git ls-files -z | while IFS= read -r -d '' file; do
  cmp -s "$file" "$COPY/$file" || { mkdir -p "$COPY/$(dirname "$file")" && cp "$file" "$COPY/$file"; }
done || exit 1
# Each defect is in one source.
cmake --preset release -S "$COPY" -B "$COPY/build" -DIBCOLL_BUILD_PERF=OFF -DCMAKE_UNITY_BUILD=OFF >build-defects/build.log 2>&1 || exit 1
build || exit 1

failed=0
printf '%-14s %8s %9s  %s\n' mend seed seconds "what is found"
for name in "${names[@]}"; do
  patch=$PWD/tests/lockstep/defects/$name.patch
  if ! patch -d "$COPY" -p1 --dry-run -s <"$patch" >/dev/null; then
    say "$name.patch does not apply any more"
    failed=1
    continue
  fi
  patch -d "$COPY" -p1 -s <"$patch"
  if build; then
    begin=$(date +%s.%N)
    found=$("$COPY/build/bin/lockstep" --seconds "$LONGEST" --jobs "$(nproc)" --no-shrink 2>&1 >/dev/null | head -n 1)
    took=$(date +%s.%N | awk -v begin="$begin" '{printf "%.1f", $1 - begin}')
    seed=$(sed -n 's/^lockstep: seed \([0-9]*\): .*/\1/p' <<<"$found")
    if [ -n "$seed" ]; then
      printf '%-14s %8s %9s  %s\n' "$name" "$seed" "$took" "$(sed 's/^lockstep: seed [0-9]*: //' <<<"$found" | cut -c 1-200)"
    else
      printf '%-14s %8s %9s  %s\n' "$name" - "$took" "not found"
      failed=1
    fi
  else
    say "$name does not build without its mend"
    failed=1
  fi
  patch -d "$COPY" -p1 -s -R <"$patch"
done
exit $failed
