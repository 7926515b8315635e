#!/bin/bash
# build_mpi.sh mpich-5|openmpi-6|mvapich-4 [PREFIX]: builds an MPI that Debian 12 does not have, from git repositories of its sources in
# IBCOLL_SOURCES, and installs it below PREFIX (build/mpi/NAME). The last line is the folder of its compilers and launchers.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

die() {
  echo "build_mpi.sh: $1" >&2
  exit "${2:-1}"
}

# lay COMMIT REPOSITORY FOLDER [PATH...]: the files of a commit, without Open MPI's archives of libraries that Debian has,
# nor those named.
lay() {
  git -C "$sources/$2" cat-file -e "$1^{commit}" 2>/dev/null ||
    die "$sources/$2 is no git repository with the commit $1"
  mkdir -p "$3"
  git -C "$sources/$2" archive "$1" -- . ':!3rd-party/*.tar.gz' "${@:4}" | tar -x -C "$3"
}

readonly OAC=3064f7bd191b49a5a5554170ef7be4762246b5ee  # of Open MPI; others ask for commits near those named here

# configure_mpich OPTION...: MPICH, or what is made from it. UCX is Debian's, and what no program here uses is left out.
configure_mpich() {
  ./autogen.sh -without-ucx -without-ofi -without-romio -without-fortran -without-test -atdircheck=no &&
    ./configure --prefix="$prefix" --with-device=ch4:ucx --with-ucx=/usr \
      --disable-fortran --disable-cxx --disable-romio --disable-doc --disable-static "$@"
}

# Open MPI with the library of the standard ABI, and what it starts programs with. hwloc and libevent are Debian's.
configure_openmpi() {
  ./autogen.pl --no-3rdparty hwloc,libevent &&
    ./configure --prefix="$prefix" --enable-standard-abi --disable-mpi-fortran --disable-oshmem --disable-sphinx --disable-man-pages \
      --with-hwloc=external --with-libevent=external --with-pmix=internal --with-prrte=internal --with-ucx=no --with-ofi=no --with-ucc=no
}

case "${1:-}" in
  mpich-5)
    version="MPICH 5.0.1" commit=v5.0.1
    lay_sources() {
      lay "$commit" mpich "$work/source"
      lay 79ad1c9b9fcc846e6bc31f47b801d11ba6d8613a json-c "$work/source/modules/json-c"
      lay 42bebfa5e4b96c99c2482645c8eb86d4755ef23b hwloc "$work/source/modules/hwloc"
    }
    # With the library of MPI 5's standard ABI beside its own.
    configure() { configure_mpich --enable-mpi-abi; }
    ;;
  mvapich-4)
    version="MVAPICH 4.0" commit=v4.0
    # A large file that is made anew, and one that is not used: mirrors may lack them.
    lay_sources() {
      lay "$commit" mvapich "$work/source" ':!Makefile.in' ':!src/binding/fortran/mpif_h/fortran_profile.h'
      # What MPICH's tests are made by is not among the sources.
      sed -i 's|externals="test/mpi"|externals=|' "$work/source/autogen.sh"
    }
    configure() { configure_mpich; }
    ;;
  openmpi-6)
    version="Open MPI 6.0.0" commit=bb1c85d203cdb7162f0cd92f71f7298048cd9581
    lay_sources() {
      lay "$commit" ompi "$work/source"
      lay "$OAC" oac "$work/source/config/oac"
      lay bfd10e9 pympistandard "$work/source/3rd-party/pympistandard"
      # Open MPI's bindings name the file itself.
      sed -i 's/ given_path = Path(given_path)$/ path = Path(given_path)/' "$work/source/3rd-party/pympistandard/src/pympistandard/__init__.py"
      # And know a kind of argument that this commit does not, the newest one in public.
      echo 'LOGICAL_VOID = Kind(name="LOGICAL_VOID", _lis="choice", _iso_c_small="void", _f90_small="LOGICAL", _f08_small="LOGICAL")' \
        >>"$work/source/3rd-party/pympistandard/src/pympistandard/_kinds.py"
      lay cb89026c747e8540692eed29b3880e67b7ba9aa2 openpmix "$work/source/3rd-party/openpmix"
      lay "$OAC" oac "$work/source/3rd-party/openpmix/config/oac"
      lay a2d2b039a4f0de9af2b36be90283591c82cdc794 prrte "$work/source/3rd-party/prrte"
      lay "$OAC" oac "$work/source/3rd-party/prrte/config/oac"
    }
    configure() { configure_openmpi; }
    ;;
  -h | --help)
    sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}"
    exit
    ;;
  *) die "expects mpich-5, openmpi-6 or mvapich-4, not \"${1:-}\"" 2 ;;
esac
prefix=$(realpath -m "${2:-$root/build/mpi/$1}")
if [ -f "$prefix/built-$commit" ]; then
  echo "$prefix/bin"
  exit
fi
[ -n "${IBCOLL_SOURCES:-}" ] || die "IBCOLL_SOURCES is not set: a folder with git repositories of the sources"
sources=$(realpath "$IBCOLL_SOURCES")
for tool in autoreconf libtoolize make gcc python3 perl; do
  command -v "$tool" >/dev/null || die "$tool is missing: install autoconf, automake, libtool, make, gcc, python3, perl"
done

work=$(mktemp -d "${TMPDIR:-/tmp}/ibcoll-mpi-XXXXXX")
trap 'rm -rf "$work"' EXIT
lay_sources
cd "$work/source"
if ! { configure && make -j"$(nproc)" && make install; } >"$work/log" 2>&1; then
  tail -n 30 "$work/log" >&2
  die "can't build $version (messages above)"
fi
touch "$prefix/built-$commit"
echo "$prefix/bin"
