#!/bin/bash
# test.sh BIN_DIR [FILTER]: the tests that need RDMA devices, on a Soft-RoCE machine of four servers.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 1 ] && [ -x "$1/verbs_test" ] || {
  echo "usage: test.sh BIN_DIR [FILTER], where BIN_DIR has a built verbs_test" >&2
  exit 2
}
exec "$here/machine.sh" --servers 4 --timeout 600 "$1/verbs_test" --gtest_color=no \
  --gtest_brief=1 --gtest_filter="${2:--*Full*}"
