#!/bin/bash
# The tests that need RDMA devices, on a Soft-RoCE machine of four servers; see README.md.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<END
Usage: test.sh BIN_DIR [quick|full|FILTER]

  quick   what runs on every change (the default): about four minutes
  full    everything: all algorithms up to 4 MB, 400 random faults, servers in several subnets;
          an hour
  FILTER  the tests that this GoogleTest filter names; TEST_FAULTS=N for N random faults, of
          which TEST_FAULT_SEED=S is the first

Examples:
  test.sh build/bin
  TEST_FAULTS=400 test.sh build/bin '*RandomOnesNeverHang'
END
}
if [ $# -lt 1 ] || [ $# -gt 2 ] || [ ! -x "$1/verbs_test" ]; then
  usage >&2
  exit 2
fi
bin=$1 tier=${2:-quick}
programs="verbs_test verbs_errors_test verbs_counts_test verbs_memory_test verbs_faults_test verbs_random_faults_test verbs_devices_test verbs_hosted_test verbs_preload_test execute_sweep_verbs_test task_graph_run_test sparse_buffers_test memory_in_use_test mixed_calls_test random_ends_test limited_connections_test shrink_test multicast_test multicast_limits_test multicast_random_test multicast_faults_test"
failed=0

# boot LIMIT FILTER PROGRAM...: runs tests in one boot; $options go to machine.sh.
options=()
boot() {
  local limit=$1 filter=$2
  shift 2
  # shellcheck disable=SC2016  # for the shell in the machine
  "$here/machine.sh" --servers 4 "${options[@]}" --timeout "$limit" bash -c 'bin=$1 filter=$2 status=0
    shift 2
    tests=0
    for program; do
      count=$("$bin/$program" --gtest_list_tests --gtest_filter="$filter" | grep -c "^  ")
      [ "$count" -gt 0 ] || continue
      tests=$((tests + count))
      "$bin/$program" --gtest_color=no --gtest_brief=1 --gtest_filter="$filter" || status=1
    done
    [ $tests -gt 0 ] || { echo "test.sh: no test is named $filter" >&2; status=1; }
    exit $status' boot "$bin" "$filter" "$@" || {
    echo "test.sh: FAILED: $* with $filter" >&2
    failed=1
  }
}

case $tier in
  quick)
    # shellcheck disable=SC2086  # a list of words
    boot 1800 'Verbs*:*/VerbsPreload.*:ExecuteSweepVerbs*:*MixedCalls*/verbs:*RandomEnds*/verbs:*LimitedConnections*/verbs:*Shrink*/verbs:*Multicast*verbs*:-*Full*' $programs
    TEST_DEVICE_GONE=1 boot 400 '*TheDeviceGoesAwayLast' verbs_faults_test
    ;;
  full)
    # Many boots: one that hangs ends soon, and the others still run.
    # shellcheck disable=SC2086
    boot 1200 'Verbs*:*/VerbsPreload.*:ExecuteSweepVerbs.*:*MixedCalls*/verbs:*RandomEnds*/verbs:*LimitedConnections*/verbs:*Shrink*/verbs:*Multicast*verbs*:-*RandomOnesNeverHang' $programs
    faults=${TEST_FAULTS:-400} a_boot=20
    for ((seed = 1; seed <= faults; seed += a_boot)); do
      TEST_FAULTS=$((faults - seed + 1 < a_boot ? faults - seed + 1 : a_boot)) TEST_FAULT_SEED=$seed \
        boot 900 '*RandomOnesNeverHang' verbs_random_faults_test
    done
    for sweep in FourServersOfTwo FourServersOfTwoDealtCyclically ThreeOneTwo ThreeOneTwoDealtCyclically; do
      boot 2400 "ExecuteSweepVerbsFull.$sweep" execute_sweep_verbs_test
    done
    boot 1200 '*/VerbsPreloadFull.*' verbs_preload_test
    TEST_DEVICE_GONE=1 boot 400 '*TheDeviceGoesAwayLast' verbs_faults_test
    IBCOLL_CONNECT=rdmacm boot 300 'VerbsCounts.*:ExecuteSweepVerbs.ThreeOneTwo:VerbsFaults.*Killed*' \
      verbs_counts_test verbs_faults_test execute_sweep_verbs_test
    # Addresses of other subnets take seconds each to resolve here: the smallest jobs only.
    options=(--routed)
    boot 120 'Verbs.PutsOfFourMegabytesArriveWhole' verbs_test
    ;;
  -*)
    usage >&2
    exit 2
    ;;
  *)
    # shellcheck disable=SC2086
    boot 3600 "$tier" $programs
    ;;
esac
exit $failed
