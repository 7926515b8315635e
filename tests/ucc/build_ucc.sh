#!/bin/bash
# build_ucc.sh VERSION: builds a UCC, which Debian 12 does not have, with its test programs for Open MPI, from the repository
# IBCOLL_SOURCES/ucc (a bare one will do). From 1.4 on UCC needs a newer UCX than Debian's: it is built, too, from
# IBCOLL_SOURCES/ucx. The last line is the tree, build/ucc-VERSION, for IBCOLL_UCC_SOURCE_DIR. Takes some minutes, once.
set -euo pipefail
# One release of each minor version that the layer is made for: a tag and what it has to be.
readonly COMMITS="1.2.0 20fc1869025b8a310ef12be59bd90b92612801c8
1.3.0 1522ccff5e107451d747b1085b3f84714a6c2eea
1.4.4 2c770741ffbe0fa0fba99bf0e08fb06c3d68500d
1.5.1 16ec7ab4514379f3c86db1ffacae4e6e47884701
1.6.0 87ee888b78d12d797ac8288c8214c7cb86c8bd8c
1.7.0 ec0bc8a8214fd7ebe9d8e4bc23e33f791dd8daad
1.8.0 211e2f60436cba7c044195acb43752aa70eab38f
1.9.0-rc1 a134efa188b66a51fd5a19211a362aeb23b10ae5"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

die() {
  echo "build_ucc.sh: $1" >&2
  exit 1
}

version=${1:-}
commit=$(awk -v version="$version" '$1 == version { print $2 }' <<<"$COMMITS")
[ -n "$commit" ] || die "which version? One of $(awk '{ printf "%s%s", separator, $1; separator = ", " }' <<<"$COMMITS")"
tree=$root/build/ucc-$version
if [ "$(cat "$tree/built" 2>/dev/null)" = "$commit" ]; then
  echo "$tree"
  exit
fi
source=${IBCOLL_SOURCES:-}
[ -n "$source" ] || die "IBCOLL_SOURCES is not set: a folder with a git repository \"ucc\" of UCC's sources"
source=$(realpath "$source/ucc")
git -C "$source" cat-file -e "$commit^{commit}" 2>/dev/null ||
  die "$source is no git repository with the commit $commit (UCC $version)"
for tool in autoreconf libtoolize make gcc g++ mpicc.openmpi; do
  command -v "$tool" >/dev/null || die "$tool is missing: install autoconf, automake, libtool, make, g++, libopenmpi-dev"
done
rm -rf "$tree" && mkdir -p "$tree"
git -C "$source" archive "$commit" | tar -x -C "$tree"
cd "$tree"
# Only what runs in host memory.
options=("--with-tls=self,ucp" --with-mpi MPICC="$(command -v mpicc.openmpi)" MPICXX="$(command -v mpicxx.openmpi)"
  MPIRUN="$(command -v mpirun.openmpi)" --without-cuda --without-nccl --without-rocm --without-rccl --without-sharp
  --without-doca_urom --disable-doxygen-doc)
case $version in
  1.[23].*) [ -f /usr/include/ucs/config/parser.h ] || die "headers of UCX are missing: install libucx-dev" ;;
  *) options+=(--with-ucx="$(dirname "$("$root/tests/ucx/build.sh")")") ;;
esac
if ! { ./autogen.sh && ./configure --prefix="$tree/install" "${options[@]}" && make -j"$(nproc)"; } >"$tree.log" 2>&1; then
  tail -n 30 "$tree.log" >&2
  die "can't build UCC $version (messages above)"
fi
rm "$tree.log"
echo "$commit" >built
echo "$tree"
