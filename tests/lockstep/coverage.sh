#!/bin/bash
# Which branches of shm/, engine/execute/, engine/multicast/ and engine/transport/ lockstep reaches:
# builds it with counters in build-coverage/, runs it, and prints a table by folder. The branches not
# reached that unreached.txt does not list go to build-coverage/missing.txt, a line each: FILE:LINE, how
# many, and the line's text. Fails at once where unreached.txt names a line that is not there any more.
#
#   tests/lockstep/coverage.sh [SECONDS [FIRST-SEED]]     600 s from seed 1, unless said otherwise
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly SECONDS_TO_RUN=${1:-600} FIRST_SEED=${2:-1}
readonly BUILD=build-coverage
readonly FOLDERS=(shm engine/execute engine/multicast engine/transport)
readonly UNREACHED=tests/lockstep/unreached.txt

python3 tests/lockstep/coverage.py --check "$UNREACHED"

cmake --preset release -B "$BUILD" -DIBCOLL_COVERAGE=ON -DIBCOLL_BUILD_PERF=OFF >/dev/null
cmake --build "$BUILD" --target lockstep -j"$(nproc)" >"$BUILD/build.log" || {
  tail -n 40 "$BUILD/build.log" >&2
  exit 1
}
find "$BUILD" -name '*.gcda' -delete
"$BUILD/bin/lockstep" --seed "$FIRST_SEED" --seconds "$SECONDS_TO_RUN" --keep-going --no-shrink --jobs "$(nproc)" || true

echo "coverage: reading the counters" >&2
python3 tests/lockstep/coverage.py "$BUILD" "$UNREACHED" "$BUILD/missing.txt" "${FOLDERS[@]}"
