#!/bin/bash
# build.sh [PREFIX]: builds a current UCX, which Debian 12 does not have, and installs it below PREFIX (build/ucx-1.22.0).
# The last line is the folder of its libraries, for LD_LIBRARY_PATH. Takes some ten minutes of one core, once.
set -euo pipefail
readonly VERSION=1.22.0 COMMIT=8a6b06fb880accbb933a79cda893883872c68d9d
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
prefix=$(realpath -m "${1:-$root/build/ucx-$VERSION}")

die() {
  echo "ucx/build.sh: $1" >&2
  exit 1
}

if [ -f "$prefix/$COMMIT" ]; then
  echo "$prefix/lib"
  exit
fi
source=${IBCOLL_SOURCES:-}
[ -n "$source" ] || die "IBCOLL_SOURCES is not set: a folder with a git repository \"ucx\" of UCX's sources"
source=$(realpath "$source")/ucx
git -C "$source" cat-file -e "$COMMIT^{commit}" 2>/dev/null ||
  die "$source is no git repository with the commit $COMMIT (UCX $VERSION)"
for tool in autoreconf libtoolize make gcc; do
  command -v "$tool" >/dev/null || die "$tool is missing: install autoconf, automake, libtool, make, gcc"
done

work=$(mktemp -d "${TMPDIR:-/tmp}/ibcoll-ucx-XXXXXX")
trap 'rm -rf "$work"' EXIT
git -C "$source" archive "$COMMIT" | tar -x -C "$work"
cd "$work"
# As a release is built, but without what no test here uses.
if ! { ./autogen.sh && ./contrib/configure-release --prefix="$prefix" --without-java --without-go --without-cuda --without-rocm \
  --without-xpmem --without-knem --without-fuse3 --disable-doxygen-doc && make -j"$(nproc)" && make install; } >"$work/log" 2>&1; then
  tail -n 30 "$work/log" >&2
  die "can't build UCX $VERSION (messages above)"
fi
touch "$prefix/$COMMIT"
echo "$prefix/lib"
