# shellcheck shell=bash
# The stages of `./run test`; sourced by it (uses its say, die, build and reference). Every stage runs, also
# after one failed; the last line counts.

readonly ALL_STAGES="format reference quick lockstep softroce full ucx mpi programs docs install build-cost cross asan tsan clang tidy"
# What runs on every change, half an hour on two cores where nothing is built yet; the rest takes
# an hour or more.
readonly DEFAULT_STAGES="format reference quick lockstep install softroce asan"
passed=0 failed=0 skipped=0
tier=quick # full: the stages that have a longer form run it
chosen=yes # no: nobody named the stages

# check NAME COMMAND...: runs one check that counts as one test.
check() {
  local name=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    say "FAILED: $name"
  fi
}

# The sum of an attribute over the XML reports of the tests in a directory.
sum_attribute() { # sum_attribute NAME DIRECTORY
  find "$2" -name '*.xml' -exec grep -ho "<testsuites [^>]*" {} + |
    sed -n "s/.* $1=\"\([0-9]*\)\".*/\1/p" | awk '{sum += $1} END {print sum + 0}'
}

# What failed, from the log of a run of ctest: of each such program its first complaints with what follows
# them, or its last lines; all that one of them prints (stacks, say) would hide the others.
complaints() { # complaints LOG
  awk '
    function told() {
      if (program == "") return
      print program
      for (i = 1; i <= lines; ++i) {
        if (line[i] ~ /: Failure|runtime error:|ERROR: [A-Za-z]*Sanitizer|terminate called|Assertion/) after = 8
        if (after-- > 0 && ++printed <= 60) print line[i]
      }
      for (i = printed > 0 ? lines + 1 : lines > 20 ? lines - 20 : 1; i <= lines; ++i) print line[i]
    }
    /^ *[0-9]+\/[0-9]+ Test +#/ {
      told()
      program = /\*\*\*/ && !/\*\*\*Skipped/ ? $0 : ""
      lines = printed = after = 0
      next
    }
    /tests passed, .* tests failed out of/ { told(); program = ""; summary = 1 }
    summary { print; next }
    { line[++lines] = substr($0, 1, 300) }' "$1"
}

# run_tests TEST-PRESET [OPTIONS OF CTEST...]: runs tests that are built, and adds their cases to the counts.
run_tests() {
  local preset=$1 reports log cases bad lost absent
  shift
  reports=$(mktemp -d) log=$(mktemp)
  say "running the tests ($preset)"
  local settings=("GTEST_OUTPUT=xml:$reports/")
  # Random properties are tried on the same values each time, but in the tier that looks for more.
  [ "$tier" = full ] || settings+=("RC_PARAMS=${RC_PARAMS:-seed=1}")
  env "${settings[@]}" ctest --preset "$preset" "$@" >"$log" 2>&1 || {
    complaints "$log" >&2
  }
  cases=$(sum_attribute tests "$reports") bad=$(sum_attribute failures "$reports")
  absent=$(find "$reports" -name '*.xml' -exec grep -ho 'result="skipped"' {} \; | wc -l)
  # Programs that broke off left no report of theirs: each counts as a failure.
  lost=$(sed -n 's/.*, \([0-9]*\) tests failed out of.*/\1/p' "$log")
  if [ "${lost:-1}" -gt 0 ] && [ "$bad" -lt "${lost:-1}" ]; then bad=${lost:-1}; fi
  [ "$cases" -ge "$((bad + absent))" ] || cases=$((bad + absent))
  passed=$((passed + cases - bad - absent)) failed=$((failed + bad)) skipped=$((skipped + absent))
  say "$preset: $((cases - bad - absent)) passed, $bad failed, $absent skipped"
  rm -rf "$reports" "$log"
}

# Whether a build works; its tests can't run otherwise.
builds() { (build "$@"); }

build_and_test() { # build_and_test PRESET TEST-PRESET [OPTIONS OF CTEST...]
  if builds "$1"; then
    passed=$((passed + 1))
    run_tests "${@:2}"
  else
    failed=$((failed + 1))
  fi
}

# The folders of folders.txt, but for those in $without, a line each.
folders() {
  local folder
  for folder in $(awk '/^[a-z]/ && $1 != "transports" {print $1}' folders.txt) $(dirname -- */network_kind.h); do
    case " ${without:-} " in *" $folder "*) ;; *) echo "$folder" ;; esac
  done
}
# sources EXTENSION...: the sources in those folders, each ended by a zero.
sources() {
  local folder extension patterns=()
  for folder in $(folders); do
    for extension; do patterns+=("$folder/*.$extension"); done
  done
  git ls-files -z -- "${patterns[@]}"
}
format_is_clean() { sources h cc hpp c cpp | xargs -0 clang-format --dry-run -Werror; }
scripts_are_clean() { git ls-files -z run .ci/run '*.sh' | xargs -0 shellcheck -x --severity=warning; }

# Random programs on all ranks of a job in one thread: the same ones on every change, as many as a minute has time for; in the
# full tier others each time, for an hour.
lockstep_tests() {
  if [ "$tier" = full ]; then
    build/bin/lockstep --seed "$(date +%s)000" --seconds 3300 --jobs "$(nproc)" &&
      build/bin/lockstep --control --seed "$(date +%s)000" --seconds 300 --jobs "$(nproc)"
  else
    build/bin/lockstep --seeds 6000 --seconds 50 --jobs "$(nproc)" &&
      build/bin/lockstep --control --seeds 3000 --seconds 10 --jobs "$(nproc)"
  fi
}

# Lints the sources of all folders but tests and examples, of which there is as much again, with their headers;
# unchanged ones (by what the compiler sees) are not read again. What the build does not compile is skipped.
tidy_is_clean() {
  local cache=${XDG_CACHE_HOME:-$HOME/.cache}/ibcoll/tidy without="tests docs/examples" headers log result=0
  mkdir -p "$cache"
  cmake --preset clang >/dev/null || return # for its compile commands
  headers="/($(folders | paste -sd '|'))/"
  log=$(mktemp)
  sources cc c | xargs -0 -n 1 -P "$(nproc)" bash tests/tidy.sh build-clang "$cache" "$headers" 2>"$log" || result=1
  cat "$log" >&2
  skipped=$((skipped + $(grep -c '^tidy: not part of this build: ' "$log")))
  rm -f "$log"
  return $result
}

# The tests that need RDMA devices. In shells of their own: a package that can't be had fails this
# stage only. Where no User-Mode Linux kernel boots (in containers that forbid ptrace), the run of all
# stages goes on without; whoever asks for this one is told that it failed.
# shellcheck disable=SC2086  # lists of words
softroce_tests() {
  if ! (packages $SOFTROCE_PACKAGES && tests/softroce/kernel.sh >/dev/null); then
    check "kernel for Soft-RoCE" false
  elif [ "$chosen" = no ] && ! tests/softroce/machine.sh --timeout 180 true; then
    say "SKIPPED: tests on Soft-RoCE: its kernel does not boot here (messages above)"
    skipped=$((skipped + 1))
  else
    check "tests on Soft-RoCE" tests/softroce/test.sh build/bin "$tier"
  fi
}

# The tests of UCX with a current one, which is built from its sources. The run of all stages goes on where there are none.
# shellcheck disable=SC2086  # lists of words
ucx_tests() {
  local folder
  if [ "$tier" = full ] && [ -z "${IBCOLL_SOURCES:-}" ]; then
    say "SKIPPED: tests with a current UCX: IBCOLL_SOURCES names no sources"
    skipped=$((skipped + 1))
  elif (packages $UCX_PACKAGES) && folder=$(tests/ucx/build.sh); then
    LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} run_tests release --label-regex "$tier" --tests-regex '^ucx_'
  else
    check "current UCX" false
  fi
}

# libibcoll_mpi.so under MPIs that Debian does not have, which are built from their sources: by their own ABI and by the standard's.
# shellcheck disable=SC2086  # lists of words
mpi_tests() {
  if [ "$tier" = full ] && [ -z "${IBCOLL_SOURCES:-}" ]; then
    say "SKIPPED: tests with current MPIs: IBCOLL_SOURCES names no sources"
    skipped=$((skipped + 1))
    return
  fi
  if ! (packages $MPI_PACKAGES); then
    check "packages that build MPIs" false
    return
  fi
  check "constants of the standard ABI" tests/mpi/same_constants.sh
  local mpi name folder mpis=""
  for mpi in mpich-5 openmpi-6 mvapich-4; do
    name=${mpi/-/}
    if ! { folder=$(tests/mpi/build_mpi.sh $mpi) && tests/mpi/programs.sh "$name" "$folder/mpicc" build/bin; }; then
      check "$mpi and the programs of its tests" false
      continue
    fi
    mpis+="$name=$folder/mpiexec;"
    [ -e "$folder/mpicc_abi" ] || continue # it is older than the standard ABI
    if tests/mpi/programs.sh "${name}_abi" "$folder/mpicc_abi" build/bin; then
      mpis+="${name}_abi=$folder/mpiexec;"
    else
      check "programs of $mpi's tests with the standard ABI" false
    fi
  done
  TEST_MPIS=$mpis check "current MPIs" env -u IBCOLL_SOURCES build/bin/mpi_tests --gtest_filter='*/mpich5*:*/openmpi6*:*/mvapich4*'
}

# UCC's tests and those of the team layer for it, with every minor version of UCC: an hour, so no other command runs it.
# shellcheck disable=SC2086  # lists of words
ucc_tests() { (packages $UCX_PACKAGES) && tests/ucc/test.sh; }

# MPI programs of Debian's, which many a machine lacks: as for Soft-RoCE, a package that can't be had fails this stage only.
# shellcheck disable=SC2086  # lists of words
program_tests() {
  if (packages $PROGRAM_PACKAGES); then
    check "real MPI programs" tests/real_programs/test.sh build/bin
  else
    check "packages of real MPI programs" false
  fi
}

# Library and tools for arm64, and the tests of base, schedule and what reductions compute under an emulator.
# shellcheck disable=SC2086  # lists of words
cross_tests() {
  if (packages $CROSS_PACKAGES &&
    tests/cross/sysroot.sh libc6-dev libstdc++-12-dev $LIBRARIES $TEST_LIBRARIES >/dev/null); then
    build_and_test cross cross
  else
    check "libraries and compiler for arm64" false
  fi
}

# Whether tests notice changes of the engine: hours, so no other command runs it (docs/mutants.md).
# shellcheck disable=SC2086  # lists of words
mutant_tests() { (packages $MUTANTS_PACKAGES) && tests/mutants/main.py; }

stage() {
  case $1 in
    format)
      check "formatting (clang-format -i repairs it)" format_is_clean
      check "shellcheck" scripts_are_clean
      ;;
    reference) check "reference of the interface" reference ;;
    quick) build_and_test release quick ;;
    lockstep)
      if builds release; then
        check "lockstep" lockstep_tests
      else
        failed=$((failed + 1))
      fi
      ;;
    # By name only: these build for themselves, and find out about the test bed.
    lockstep-coverage)
      # shellcheck disable=SC2086  # lists of words
      packages $SCRIPT_PACKAGES
      check "branches that lockstep reaches" tests/lockstep/coverage.sh
      ;;
    lockstep-defects) check "defects that lockstep finds" tests/lockstep/defects.sh ;;
    softroce)
      if builds release; then
        softroce_tests
      else
        failed=$((failed + 1))
      fi
      ;;
    full) build_and_test release full ;;
    ucx)
      if builds release; then
        ucx_tests
      else
        failed=$((failed + 1))
      fi
      ;;
    mpi)
      if builds release; then
        mpi_tests
      else
        failed=$((failed + 1))
      fi
      ;;
    programs)
      if builds release; then
        program_tests
      else
        failed=$((failed + 1))
      fi
      ;;
    docs)
      # ./run test full has made it before.
      [ $tier = full ] || stage reference
      if builds release; then
        check "commands of the documentation" tests/doc_commands.sh build/bin
      else
        failed=$((failed + 1))
      fi
      ;;
    install)
      if builds release; then
        check "install" tests/install/test.sh build
        # Runs the same examples once more; what it alone finds are mistakes in packaging.
        [ "$chosen" = no ] || check "Debian packages" tests/install/packages.sh build
      else
        failed=$((failed + 1))
      fi
      ;;
    build-cost)
      # shellcheck disable=SC2086  # lists of words
      packages $SCRIPT_PACKAGES
      check "cost of a build" tests/build_cost/main.py
      ;;
    cross) cross_tests ;;
    asan)
      # On every change the programs of one thread are run without.
      if [ "$chosen" = no ]; then
        build_and_test asan asan --label-exclude single_threaded
      else
        build_and_test asan asan
      fi
      ;;
    tsan) build_and_test tsan tsan ;;
    mutants) check "mutants" mutant_tests ;;
    ucc) check "team layer for UCC" ucc_tests ;;
    clang) check "clang build" builds clang ;;
    tidy)
      say "linting"
      check "clang-tidy" tidy_is_clean
      ;;
    *) die "unknown stage \"$1\": there are $ALL_STAGES lockstep-coverage lockstep-defects mutants ucc" 2 ;;
  esac
}

# What the last measurement of the stage build-cost found, and what it may be at most.
build_cost_on_record() { # build_cost_on_record FIGURES LIMITS
  awk -F '[": ,]+' '
    NF > 2 && FNR == NR { is[$2] = $3 }
    NF > 2 && FNR != NR { most[$2] = $3 }
    function of(name, unit, format) { return sprintf(format " (limit " format ")", is[name] / unit, most[name] / unit) }
    END {
      print "everything " of("everything_s", 1, "%.0f s") " of a core, of it tests " of("tests_share", 0.01, "%.1f %%") \
        ", ./run bench " of("bench_s", 1, "%.0f s") ", libibcoll.so " of("library_bytes", 1e6, "%.2f MB")
    }' "$1" "$2"
}

# run_stages [full|quick|STAGE...]
run_stages() {
  local stages=("$@") name begin start=$SECONDS times=""
  if [ $# -eq 0 ]; then
    read -ra stages <<<"$DEFAULT_STAGES"
    chosen=no
  fi
  if [ "$*" = full ]; then
    read -ra stages <<<"$ALL_STAGES"
    tier=full
  fi
  for name in "${stages[@]}"; do
    begin=$SECONDS
    stage "$name"
    times+="$name $((SECONDS - begin)) s, "
  done
  say "times: ${times}all $((SECONDS - start)) s"
  say "build cost on record: $(build_cost_on_record tests/build_cost/figures.json tests/build_cost/limits.json)"
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
}
