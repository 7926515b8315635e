#!/bin/bash
# sysroot.sh PACKAGES...: prints the folder with arm64's libraries and headers (what these packages have, and what
# they depend on) that ibcoll is cross-built with. It is made when it is first asked for, by an apt with a state of
# its own: the machine's packages and its list of architectures stay as they are, and nobody needs to be root.
set -euo pipefail
[ $# -gt 0 ] || {
  echo "usage: tests/cross/sysroot.sh PACKAGES..." >&2
  exit 2
}
folder=${XDG_CACHE_HOME:-$HOME/.cache}/ibcoll/arm64
sysroot=$folder/sysroot
# What it was made from; another list makes another one.
readonly MADE_FROM=$sysroot/made-from
if [ "$(cat "$MADE_FROM" 2>/dev/null)" = "$*" ]; then
  echo "$sysroot"
  exit
fi

die() {
  echo "sysroot: $1" >&2
  exit 1
}
echo "sysroot: arm64's libraries go to $sysroot (once)" >&2
rm -rf "$sysroot"
mkdir -p "$sysroot" "$folder"/state/lists/partial "$folder"/cache/archives/partial
: >"$folder/state/status" # nothing is installed: all dependencies are fetched, too
cat >"$folder/apt.conf" <<END_OF_FILE
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "";
Dir::State "$folder/state";
Dir::State::status "$folder/state/status";
Dir::Cache "$folder/cache";
END_OF_FILE
apt() { APT_CONFIG=$folder/apt.conf apt-get -qq "$@" >"$folder/log" 2>&1 || die "$(tail -n 5 "$folder/log")"; }
apt update
apt install -y --download-only "$@"

# Unpacked, not installed: nothing of arm64 runs. Links to absolute places would lead out of the folder.
for package in "$folder"/cache/archives/*.deb; do dpkg-deb -x "$package" "$sysroot"; done
find "$sysroot" -type l -lname '/*' | while read -r link; do
  ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$sysroot$(readlink "$link")")" "$link"
done
rm -rf "$folder/cache" "$folder/state"
echo "$*" >"$MADE_FROM"
echo "$sysroot"
