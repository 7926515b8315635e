# shellcheck shell=bash
# Sourced by what tests an installed ibcoll, with `root`, `dir` (a folder to write to), `version` and `fail`.
# shellcheck disable=SC2154

# use_it PREFIX: builds the documentation's examples with what is installed there, as a user would, with
# CMake and with pkg-config, and runs them (`ran` says how many) and the tools, and reads the manual pages.
use_it() {
  local prefix=$1 library example name flags tool page line
  library=$(find "$prefix" -name 'libibcoll.so' | head -n 1)
  [ -n "$library" ] || fail "no libibcoll.so was installed"

  # Those that need an MPI are built and run by hosted_in_mpi_test.
  local -a in_c
  mapfile -t in_c < <(find "$root/docs/examples" -name '*.c' ! -name '*_in_mpi.c')

  # With CMake: every other example.
  rm -rf "$dir/cmake"
  cmake -S "$root/tests/install" -B "$dir/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
    -DEXAMPLES="$root/docs/examples" -DVERSION="$version" >"$dir/log" 2>&1 || fail "$(tail -n 20 "$dir/log")"
  cmake --build "$dir/cmake" >"$dir/log" 2>&1 || fail "$(tail -n 20 "$dir/log")"
  ran=0
  for example in "${in_c[@]}" "$root"/docs/examples/*.cc; do
    name=$(basename "${example%.*}")
    timeout 60 "$dir/cmake/$name" >"$dir/log" 2>&1 || fail "example $name: $(tail -n 5 "$dir/log")"
    [ -s "$dir/log" ] || fail "example $name printed nothing"
    ran=$((ran + 1))
  done

  # With pkg-config, without a word on where the library is: the same for one of each language.
  unset LD_LIBRARY_PATH
  export PKG_CONFIG_PATH=${library%/*}/pkgconfig
  [ "$(pkg-config --modversion ibcoll)" = "$version" ] || fail "pkg-config says version $(pkg-config --modversion ibcoll)"
  read -ra flags < <(pkg-config --cflags --libs ibcoll)
  for example in "${in_c[@]}"; do
    cc -Wall -Wextra -Werror -std=c11 "$example" "${flags[@]}" -o "$dir/with-pkg-config" || fail "pkg-config, C"
    timeout 60 "$dir/with-pkg-config" >/dev/null || fail "pkg-config: $example"
  done
  for example in "$root"/docs/examples/*.cc; do
    c++ -Wall -Wextra -Werror -std=c++20 "$example" "${flags[@]}" -o "$dir/with-pkg-config" || fail "pkg-config, C++"
    timeout 60 "$dir/with-pkg-config" >/dev/null || fail "pkg-config: $example"
  done

  # Tools run from where they were installed, and each has a manual page that can be read.
  for tool in "$prefix"/bin/*; do
    name=$(basename "$tool")
    [ "$("$tool" --version)" = "$name (ibcoll) $version" ] || fail "$name --version: $("$tool" --version 2>&1)"
    page=$prefix/share/man/man1/$name.1
    # In a locale that is there whatever this machine has: man complains of another on stderr.
    LC_ALL=C.UTF-8 MANWIDTH=250 man --warnings --no-justification --no-hyphenation -l "$page" \
      >"$dir/page" 2>"$dir/log" || fail "no manual page $page"
    [ ! -s "$dir/log" ] || fail "manual page of $name: $(head -n 3 "$dir/log")"
    "$tool" --help | sed -n '/^Examples:/,$s/^  \(.*[^ ]\) *$/\1/p' >"$dir/commands"
    for line in " +$name - [a-z].*[^.]" SYNOPSIS ' +-h, --help' ' +--version' EXAMPLES 'EXIT STATUS'; do
      grep -qxE "$line" "$dir/page" || fail "manual page of $name: no line \"$line\""
    done
    while read -r example; do
      grep -qF -- "$example" "$dir/page" || fail "manual page of $name: without the example $example"
    done <"$dir/commands"
  done
}
