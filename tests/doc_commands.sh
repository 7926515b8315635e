#!/bin/bash
# Runs the commands of README.md and docs/: every fenced block whose info string is `sh` must end well, every
# one with `sh fails` must not; `sh elsewhere` marks what needs a cluster, an installation or hours. Blocks run
# in an empty directory, with the tools on PATH and the checkout's run, build/ and perf/ at hand.
set -uo pipefail
usage() {
  cat <<END_OF_USAGE
Usage: doc_commands.sh BIN_DIR [FILE.md...]

Runs the commands of these pages (default: README.md and docs/**/*.md) and says how long each block took.

Examples:
  tests/doc_commands.sh build/bin
  tests/doc_commands.sh build/bin docs/fabrics.md
END_OF_USAGE
}
if [ $# -lt 1 ] || [ ! -x "$1/ib_a2a_bench" ]; then
  usage >&2
  exit 2
fi
bin=$(cd "$1" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
shift
cd "$root" || exit 1
[ $# -gt 0 ] || mapfile -t pages < <(git ls-files README.md 'docs/*.md')
[ $# -eq 0 ] || pages=("$@")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# More ranks than cores, as root: what mpirun would else refuse.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PATH=$bin:$PATH

# blocks PAGE: writes its blocks to $work/N.sh; prints "N LINE KIND" for each.
blocks() {
  awk -v work="$work" '
    /^```/ && inside { inside = 0; if (kind != "") { close(file); print n, line, kind }; next }
    /^```/ {
      inside = 1; line = NR; kind = ""
      if ($0 == "```sh") kind = "runs"
      if ($0 == "```sh fails") kind = "fails"
      if (kind != "") { file = work "/" ++n ".sh"; printf "" > file }
      next
    }
    inside && kind != "" { print > file }' "$1"
}

failed=0
for page in "${pages[@]}"; do
  while read -r number line kind; do
    directory=$work/directory
    rm -rf "$directory" && mkdir "$directory"
    printf '#!/bin/bash\nexec "%s/run" "$@"\n' "$root" >"$directory/run"
    chmod +x "$directory/run"
    ln -s "$(dirname "$bin")" "$directory/build"
    ln -s "$root/perf" "$root/docs" "$directory/"
    begin=$SECONDS
    (cd "$directory" && timeout 900 bash -eu "$work/$number.sh") >"$work/log" 2>&1 </dev/null
    status=$?
    if { [ $kind = runs ] && [ $status -ne 0 ]; } || { [ $kind = fails ] && [ $status -eq 0 ]; }; then
      echo "doc_commands.sh: FAILED: $page:$line ended with $status:"
      tail -n 15 "$work/log"
      failed=1
    else
      echo "doc_commands.sh: $page:$line took $((SECONDS - begin)) s"
    fi
  done < <(blocks "$page")
done
exit $failed
