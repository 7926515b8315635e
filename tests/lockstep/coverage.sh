#!/bin/bash
# Which branches of shm/, engine/execute/, engine/multicast/ and engine/transport/ lockstep reaches:
# builds it with counters in build-coverage/, runs it, and prints a table by folder. The branches not
# reached go to build-coverage/missing.txt, a line each: FILE:LINE, how many, and the line's text.
#
#   tests/lockstep/coverage.sh [SECONDS [FIRST-SEED]]     600 s from seed 1, unless said otherwise
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly SECONDS_TO_RUN=${1:-600} FIRST_SEED=${2:-1}
readonly BUILD=build-coverage
readonly FOLDERS="shm engine/execute engine/multicast engine/transport"

command -v gcovr >/dev/null || {
  echo "coverage: gcovr is missing (Debian package gcovr)" >&2
  exit 1
}
cmake --preset release -B "$BUILD" -DIBCOLL_COVERAGE=ON -DIBCOLL_BUILD_PERF=OFF >/dev/null
cmake --build "$BUILD" --target lockstep -j"$(nproc)" >"$BUILD/build.log" || {
  tail -n 40 "$BUILD/build.log" >&2
  exit 1
}
find "$BUILD" -name '*.gcda' -delete
"$BUILD/bin/lockstep" --seed "$FIRST_SEED" --seconds "$SECONDS_TO_RUN" --keep-going --no-shrink --jobs "$(nproc)" || true

# Branches that only an exception takes are none of the program's.
echo "coverage: reading the counters" >&2
# Functions that the linker has twice are one; gcovr before 6 takes them so without being told.
merge=()
gcovr --help | grep -q -e --merge-mode-functions && merge=(--merge-mode-functions=merge-use-line-0)
gcovr --root . --object-directory "$BUILD" --exclude-throw-branches --exclude-unreachable-branches \
  --filter '(shm|engine/execute|engine/multicast|engine/transport)/' --json "$BUILD/coverage.json" \
  "${merge[@]}" "$BUILD"
python3 tests/lockstep/coverage.py "$BUILD/coverage.json" "$BUILD/missing.txt" $FOLDERS
