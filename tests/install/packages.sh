#!/bin/bash
# packages.sh BUILD-DIRECTORY: makes the Debian packages, installs them into a folder with this machine's list of
# packages, so that what they depend on must be there, and builds and runs the documentation's examples with them.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
[ $# -eq 1 ] && [ -e "$1/CPackConfig.cmake" ] || {
  echo "usage: tests/install/packages.sh BUILD-DIRECTORY" >&2
  exit 2
}
build=$(cd "$1" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
  echo "package test: $1" >&2
  exit 1
}
# shellcheck source=tests/install/examples.sh
source "$root/tests/install/examples.sh"
version=$(sed -n 's/^## \[\(.*\)\].*/\1/p' "$root/CHANGELOG.md" | head -n 1)

cpack --config "$build/CPackConfig.cmake" -G DEB -B "$dir/packages" >"$dir/log" 2>&1 || fail "$(tail -n 20 "$dir/log")"
cd "$dir/packages"
architecture=$(dpkg --print-architecture)
names=("libibcoll${version%.*}" libibcoll-dev ibcoll-tools)
[ "$(ls ./*.deb)" = "$(printf "./%s_${version}_${architecture}.deb\n" "${names[@]}" | sort)" ] ||
  fail "other packages than expected: $(ls ./*.deb)"

# says PACKAGE FIELD PATTERN: what a package says of itself.
says() {
  local said
  said=$(dpkg-deb -f "./$1_${version}_${architecture}.deb" "$2")
  grep -qE -- "$3" <<<"$said" || fail "$1: $2 is \"$said\""
}
says "${names[0]}" Depends '\blibc6\b.*\blibsodium23\b.*\blibxxhash0\b.*\bzlib1g\b'
says ibcoll-tools Depends '\blibc6\b.*\blibhwloc15\b'
says libibcoll-dev Depends "^libibcoll${version%.*} \(= $version\)\$"
for package in "${names[@]}"; do
  says "$package" Maintainer '^the ibcoll authors$'
  says "$package" Description '^Collective communication'
done

# Only the list of what is installed is this machine's, and its loader's cache stays as it is. So does the
# configuration of its dpkg, which in small images leaves out manual pages and documentation.
state=$dir/root/var/lib/dpkg
mkdir -p "$state"/{info,updates,triggers} "$dir/instead"
cp /var/lib/dpkg/status "$state/"
ln -s "$(type -P true)" "$dir/instead/ldconfig"
PATH=$dir/instead:$PATH:/usr/sbin:/sbin dpkg --force-not-root --force-script-chrootless --root="$dir/root" \
  --path-include='/usr/share/man/*' --path-include='/usr/share/doc/*' --log="$dir/dpkg.log" -i ./*.deb >"$dir/log" 2>&1 || fail "dpkg: $(grep -v 'files list file' "$dir/log" | tail -n 5)"
use_it "$dir/root/usr"
[ -n "$(find "$dir/root" -name 'libibcoll_mpi.so')" ] || fail "no library to preload into MPI programs"
for package in "${names[@]}"; do
  [ -s "$dir/root/usr/share/doc/$package/copyright" ] || fail "$package: no licence"
done
echo "package test: ${#names[@]} packages installed, $ran examples built and run with them"
