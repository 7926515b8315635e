#!/bin/bash
# Runs the commands of README.md and docs/, and the examples of every tool's --help.
set -uo pipefail
usage() {
  cat <<END_OF_USAGE
Usage: doc_commands.sh BIN_DIR [FILE.md...]

Runs the commands of these pages (default: README.md and docs/**/*.md, then the examples of the tools' --help) and
says how long each took.

- Fenced blocks whose info string is \`sh\` must end well, those with \`sh fails\` must not; \`sh elsewhere\` marks what
  needs a cluster, an installation or much time.
- Commands inside sentences and examples must end well or still run after $LIMIT seconds: what they are asked has
  then been understood. tests/doc_commands.elsewhere names those that can't run here, and why.

Every block or sentence has an empty directory, the examples of a tool one for all, with the tools on PATH, the
checkout's run, build/, perf/, docs/ and some input files at hand.

Examples:
  tests/doc_commands.sh build/bin
  tests/doc_commands.sh build/bin docs/fabrics.md
END_OF_USAGE
}
readonly LIMIT=60
if [ $# -lt 1 ] || [ ! -x "$1/ib_a2a_bench" ]; then
  usage >&2
  exit 2
fi
bin=$(cd "$1" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
shift
cd "$root" || exit 1
everything=no
if [ $# -eq 0 ]; then
  everything=yes
  mapfile -t pages < <(git ls-files README.md 'docs/*.md')
else
  pages=("$@")
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
directory=$work/directory
# More ranks than cores, as root: what mpirun would else refuse.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PATH=$bin:$PATH
if ! command -v jq >/dev/null; then
  # shellcheck disable=SC2317
  jq() { cat; }
  export -f jq
fi

# blocks PAGE: writes its fenced blocks to $work/N.sh; prints "N LINE KIND" for each.
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

# spans PAGE: prints "LINE COMMAND" for every command inside a sentence, behind what its blocks say of variables.
spans() {
  awk '
    /^ *```/ { fenced = !fenced; inside = 0; next }
    fenced { if ($0 ~ /^[A-Z]+=[^ ]+$/) variables = variables $0 "; "; next }
    /^ *$/ { inside = 0; next }
    {
      n = split($0, part, "`")
      if (inside) span = span " "
      for (i = 1; i <= n; ++i) {
        if (i > 1) {
          inside = !inside
          if (inside) {
            span = ""; line = NR
          } else if (span ~ /^([A-Z_]+=[^ ]+ )*(\.\/run|ib_[a-z0-9]+|build\/bin\/[a-z0-9_]+|(perf|tests)\/[^ ]+\.sh|mpirun|mpiexec|srun) +[^ ]/)
            print line, (span ~ /[$]/ ? variables : "") span
        }
        if (inside) span = span part[i]
      }
    }' "$1"
}

# examples TOOL: the commands of its --help, one a line, without what is said of them.
examples() {
  "$bin/$1" --help | sed -n '/^Examples:/,$p' | sed -nE 's/^  ([^ ])/\1/p' | sed -E 's/  +.*$//'
}

mapfile -t elsewhere < <(grep -vE '^(#|$)' tests/doc_commands.elsewhere)
declare -A used
# stands_elsewhere COMMAND: whether the list has it.
stands_elsewhere() {
  local entry pattern
  for entry in "${elsewhere[@]}"; do
    pattern=${entry%%   *}
    # shellcheck disable=SC2053
    [[ $1 == $pattern ]] || continue
    used[$entry]=yes
    echo "doc_commands.sh: not run: $1 (${entry##*   })"
    return 0
  done
  return 1
}

fresh_directory() {
  rm -rf "$directory" && mkdir "$directory"
  printf '#!/bin/bash\nexec "%s/run" "$@"\n' "$root" >"$directory/run"
  chmod +x "$directory/run"
  ln -s "$(dirname "$bin")" "$directory/build"
  ln -s "$root/perf" "$root/docs" "$directory/"
  cp "$root/tests/data/fabrics/small.topo" "$directory/net.topo"
  cp "$root/tests/data/fabrics/small.ftree.fts" "$directory/net.fts"
  awk 'BEGIN { for (i = 0; i < 35; ++i) for (j = 0; j < 35; ++j) printf "%d%s", 10 * (i != j), j < 34 ? "," : "\n" }' \
    >"$directory/traffic.csv"
  awk 'BEGIN {
    print "%%MatrixMarket matrix coordinate integer general\n128 128 128"
    for (i = 1; i <= 128; ++i) print i, i % 128 + 1, 1000 }' >"$directory/m.mtx"
  awk 'BEGIN {
    print 1024, 1984
    for (i = 0; i < 1024; ++i)
      print (i % 32 > 0 ? i " " : "") (i % 32 < 31 ? i + 2 " " : "") (i > 31 ? i - 31 " " : "") (i < 992 ? i + 33 : "")
  }' >"$directory/mesh.graph"
  seq -f 'host%g' 16 >"$directory/hosts.txt"
}

failed=0
# run_file WHERE KIND LIMIT FILE: runs it as KIND (runs, fails, starts) says.
run_file() {
  local begin=$SECONDS status
  (cd "$directory" && timeout "$3" bash -eu "$4") >"$work/log" 2>&1 </dev/null
  status=$?
  if [ "$2" = starts ] && [ $status -eq 124 ]; then
    echo "doc_commands.sh: $1 still ran after $3 s"
  elif { [ "$2" = fails ] && [ $status -ne 0 ]; } || { [ "$2" != fails ] && [ $status -eq 0 ]; }; then
    echo "doc_commands.sh: $1 took $((SECONDS - begin)) s"
  else
    echo "doc_commands.sh: FAILED: $1 ended with $status:"
    tail -n 15 "$work/log"
    failed=1
  fi
}

# run_command WHERE COMMAND
run_command() {
  stands_elsewhere "$2" && return
  echo "$2" >"$work/command.sh"
  run_file "$1" starts $LIMIT "$work/command.sh"
}

for page in "${pages[@]}"; do
  while read -r number line kind; do
    fresh_directory
    run_file "$page:$line" "$kind" 900 "$work/$number.sh"
  done < <(blocks "$page")
  while read -r line command; do
    fresh_directory
    run_command "$page:$line ($command)" "$command"
  done < <(spans "$page")
done
if [ $everything = yes ]; then
  for tool in "$bin"/ib_*; do
    tool=$(basename "$tool")
    [[ -x $bin/$tool && $tool != *_test ]] || continue
    found=0
    fresh_directory
    while read -r command; do
      found=$((found + 1))
      run_command "example $found of $tool --help ($command)" "$command"
    done < <(examples "$tool")
    if [ $found -eq 0 ]; then
      echo "doc_commands.sh: FAILED: $tool --help has no examples"
      failed=1
    fi
  done
  for entry in "${elsewhere[@]}"; do
    [ -n "${used[$entry]-}" ] && continue
    echo "doc_commands.sh: FAILED: no command is like '${entry%%   *}', which tests/doc_commands.elsewhere names"
    failed=1
  done
fi
exit $failed
