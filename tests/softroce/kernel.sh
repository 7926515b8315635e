#!/bin/bash
# kernel.sh: prints the path of a User-Mode Linux kernel with Soft-RoCE. Builds it on first use
# (10 minutes on two cores) into the cache, ${XDG_CACHE_HOME:-~/.cache}/ibcoll/softroce-HASH/linux;
# HASH covers the recipe and the kernel source, so it is built again when one of them changes.
# SOFTROCE_KERNEL=FILE takes that kernel instead.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [ -n "${SOFTROCE_KERNEL:-}" ]; then
  [ -x "$SOFTROCE_KERNEL" ] || {
    echo "kernel.sh: SOFTROCE_KERNEL=$SOFTROCE_KERNEL is no executable file" >&2
    exit 1
  }
  echo "$SOFTROCE_KERNEL"
  exit
fi

source_archive=$(ls /usr/src/linux-source-6.*.tar.xz 2>/dev/null | sort -V | tail -1)
[ -n "$source_archive" ] || {
  echo "kernel.sh: no /usr/src/linux-source-6.*.tar.xz: install the package linux-source-6.12" >&2
  exit 1
}
recipe=$({
  cat "$here/kernel-config.sh"
  basename "$source_archive"
  stat -c %s "$source_archive"
} | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ibcoll
target=$cache/softroce-$recipe
mkdir -p "$target"
exec 9>"$target/lock"
flock 9 # one build at a time; the others wait for its result
if [ ! -x "$target/linux" ]; then
  echo "kernel.sh: building a User-Mode Linux kernel (about ten minutes, once)" >&2
  tree=$(mktemp -d "$cache/build-XXXXXX")
  trap 'rm -rf "$tree"' EXIT
  {
    tar -C "$tree" --strip-components=1 -xf "$source_archive"
    make -C "$tree" ARCH=um x86_64_defconfig
    bash "$here/kernel-config.sh" "$tree"
    make -C "$tree" ARCH=um olddefconfig
    nice -n 19 make -C "$tree" ARCH=um -j"$(nproc)" linux
  } >"$target/build.log" 2>&1 || {
    echo "kernel.sh: the build failed; the end of $target/build.log:" >&2
    tail -20 "$target/build.log" >&2
    exit 1
  }
  strip -o "$tree/linux.stripped" "$tree/linux"
  mv "$tree/linux.stripped" "$target/linux"
fi
echo "$target/linux"
