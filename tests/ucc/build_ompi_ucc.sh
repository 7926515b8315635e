#!/bin/bash
# build_ompi_ucc.sh TREE: builds Open MPI's component coll/ucc, which Debian's Open MPI lacks, for the UCC of that tree. Debian has
# the headers that it needs; its source comes from the repository IBCOLL_SOURCES/ompi (a bare one will do). The last line is the
# folder of the component, for OMPI_MCA_mca_base_component_path.
set -euo pipefail
readonly VERSION=4.1.4 COMMIT=ffb0adcdd677a02ab396145c40352f8189132b86 # of Debian 12
readonly HEADERS=/usr/lib/x86_64-linux-gnu/openmpi/include

die() {
  echo "build_ompi_ucc.sh: $1" >&2
  exit 1
}

[ $# -eq 1 ] || die "which tree of UCC?"
tree=$(realpath "$1")
source=${IBCOLL_SOURCES:-}
[ -n "$source" ] || die "IBCOLL_SOURCES is not set: a folder with a git repository \"ompi\" of Open MPI's sources"
source=$(realpath "$source/ompi")
git -C "$source" cat-file -e "$COMMIT^{commit}" 2>/dev/null ||
  die "$source is no git repository with the commit $COMMIT (Open MPI $VERSION)"
[ -f "$HEADERS/openmpi/ompi/mca/coll/coll.h" ] || die "headers of Open MPI are missing: install libopenmpi-dev"
folder=$tree/openmpi
mkdir -p "$folder"
git -C "$source" archive "$COMMIT" ompi/mca/coll/ucc ompi/mpi/fortran/base/fint_2_int.h | tar -x -C "$folder"
# Only names that the component exports are looked up by Open MPI; what it needs of it the program has loaded.
gcc -O2 -g -w -std=gnu99 -shared -fPIC -o "$folder/mca_coll_ucc.so" "$folder"/ompi/mca/coll/ucc/*.c -I"$folder" -I"$tree/src" -I"$HEADERS" \
  -I"$HEADERS/openmpi" -I"$HEADERS/openmpi/opal/mca/hwloc/hwloc201/hwloc/include" -L"$tree/src/.libs" -lucc
echo "$folder"
