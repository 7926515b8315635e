#!/bin/bash
# same_constants.sh: compares integrations/mpi/standard_abi/mpi.h with the header of the MPI Forum, which is in the git repository
# IBCOLL_SOURCES/mpi-abi-stubs.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ibcoll-abi-XXXXXX")
trap 'rm -rf "$work"' EXIT
git -C "${IBCOLL_SOURCES:?names no sources}/mpi-abi-stubs" show HEAD:mpi.h >"$work/mpi.h"
# compile NAME FOLDER
compile() { gcc -std=gnu11 -I "$2" -I "$root" -I "$root/include" -DIBCOLL_CONSTANTS="$1" -c "$root/integrations/mpi/constants.c" -o "$work/$1.o"; }
compile ours "$root/integrations/mpi/standard_abi"
compile forums "$work"
gcc -std=gnu11 -Wall -Wextra -I "$root" "$root/tests/mpi/programs/same_constants.c" "$work/ours.o" "$work/forums.o" -o "$work/same"
"$work/same"
