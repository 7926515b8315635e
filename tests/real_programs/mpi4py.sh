#!/bin/bash
# mpi4py's own tests of its collectives, of the release that is installed. They are in the source package only: a
# sources entry of this directory's own gets it. MPI4PY_SOURCE=DIR has it already.
source "$(dirname "$0")/common.sh"
if [ -z "${MPI4PY_SOURCE:-}" ]; then
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mkdir -p apt/lists/partial apt/cache/archives/partial
  cat >apt/source.sources <<END
Types: deb-src
URIs: http://deb.debian.org/debian
Suites: $codename
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
  own=(-qq -o "Dir::Etc::sourcelist=$PWD/apt/source.sources" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$PWD/apt/lists" -o "Dir::Cache=$PWD/apt/cache" -o "APT::Sandbox::User=$(id -un)")
  version=$(dpkg-query -W -f '${source:Version}' python3-mpi4py)
  { apt-get "${own[@]}" update && apt-get "${own[@]}" source "mpi4py=$version"; } >apt/log 2>&1 ||
    fail "the source of mpi4py $version can't be had (MPI4PY_SOURCE=DIR takes one that is there): $(tail -n 1 apt/log)"
  MPI4PY_SOURCE=$(echo "$PWD"/mpi4py-*/)
fi
# Debian's interpreter, which has the extension.
for ranks in 3 4; do
  preloaded $ranks /usr/bin/python3 "$MPI4PY_SOURCE/test/runtests.py" --no-builddir -q -i test_cco >out 2>&1 ||
    fail "with $ranks ranks: $(grep -E '^(FAIL|ERROR)|Error' out | sort | uniq -c | head -n 5)"
  # Ranks write at the same time, at times on one line.
  [ "$(grep -o OK out | wc -l)" -eq "$ranks" ] || fail "not all of $ranks ranks say OK"
  expect_engine alltoall alltoallv allgather allgatherv gather gatherv scatter scatterv bcast barrier reduce \
    allreduce reduce_scatter reduce_scatter_block scan exscan
done
