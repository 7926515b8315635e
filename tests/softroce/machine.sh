#!/bin/bash
# Runs a command on a machine with real InfiniBand verbs over Soft-RoCE: a User-Mode Linux kernel
# (built once, see kernel.sh) whose file system is this one, read-only. No root, no KVM and no
# RDMA device needed; boot and power-off take a few seconds. Exit status and output are the
# command's.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<END
Usage: machine.sh [options] COMMAND [ARGUMENT...]

  --servers N    servers, each with a device rxe1..rxeN (1 to 16; default 4)
  --memory SIZE  memory of the machine (default 3G; only what is touched costs anything)
  --timeout S    end the machine after so many seconds, exit status 124 (default 600)
  --mtu BYTES    MTU of the servers' links (default 4200: RDMA packets of 4096)
  --routed       each server in a subnet of its own, joined by a router instead of a switch
  --write DIR    a directory the command may write to (repeatable); the rest of the file
                 system is read-only except /dev/shm and \$TMPDIR, which vanish
  -h, --help     this text

Examples:
  machine.sh ibv_devinfo
  machine.sh bash -c 'ib_write_bw -d rxe1 & sleep 1; ib_write_bw -d rxe2 10.77.0.1'
END
}
bad_usage() {
  echo "machine.sh: $1 (see --help)" >&2
  exit 2
}
number() { # number NAME VALUE LOW HIGH
  [[ "$2" =~ ^[0-9]{1,6}$ ]] && [ "$2" -ge "$3" ] && [ "$2" -le "$4" ] ||
    bad_usage "$1: \"$2\" is not a whole number from $3 to $4"
}

servers=4 memory=3G limit=600 mtu=4200 routed="" writable=()
while [ $# -gt 0 ]; do
  case $1 in
    --servers | --memory | --timeout | --mtu | --write)
      [ $# -ge 2 ] || bad_usage "$1 needs a value"
      case $1 in
        --servers) servers=$2 && number --servers "$servers" 1 16 ;;
        --memory)
          memory=$2
          [[ "$memory" =~ ^[0-9]+[MG]$ ]] || bad_usage "--memory: \"$2\" is not like 512M or 3G"
          ;;
        --timeout) limit=$2 && number --timeout "$limit" 1 86400 ;;
        --mtu) mtu=$2 && number --mtu "$mtu" 576 65000 ;;
        --write)
          [ -d "$2" ] || bad_usage "--write: no directory \"$2\""
          writable+=("$(cd "$2" && pwd)")
          ;;
      esac
      shift 2
      ;;
    --routed) routed=routed && shift ;;
    -h | --help) usage && exit ;;
    --) shift && break ;;
    -*) bad_usage "unknown option $1" ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || bad_usage "no command given"

for need in ip rdma busybox; do
  command -v $need >/dev/null || {
    echo "machine.sh: $need is missing: install iproute2 and busybox" >&2
    exit 1
  }
done
kernel=$("$here/kernel.sh")

dir=$(mktemp -d "${TMPDIR:-/tmp}/ibcoll-softroce-XXXXXX")
pid=
cleanup() {
  [ -z "$pid" ] || kill -- "-$pid" 2>/dev/null || true
  rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

cp /proc/cpuinfo "$dir/cpuinfo"
{
  echo "SERVERS=$servers"
  echo "MTU=$mtu"
  echo "ROUTED=$routed"
  echo "WRITABLE='${writable[*]:-}'"
} >"$dir/settings"
{
  export -p
  echo 'export HOME=/root TMPDIR=/var/tmp SOFTROCE_MACHINE=1'
  printf 'cd %q\n' "$PWD"
  printf '%q ' "$@"
} >"$dir/command"

# The machine's memory is a sparse file: in memory where there is enough, else beside our own files.
backing=$dir
shm_free=$(df --output=avail -m /dev/shm 2>/dev/null | tail -1 || echo 0)
needed=${memory%[MG]}
[ "${memory: -1}" = M ] || needed=$((needed * 1024))
[ "${shm_free:-0}" -lt "$needed" ] || backing=/dev/shm

# The machine's kernel and what runs in it take turns, and hand over all the time. On one core that
# is a switch of tasks; between two, each turn wakes an idle core, which may take ten times as long.
# The core that this shell is on will do (field 39 of proc(5)'s stat).
core=$(sed 's/.*) //' "/proc/$$/stat" | cut -d ' ' -f 37)

# A process group of its own, so that everything the kernel started can be ended at once. Consoles:
# the command's output, its errors, and the kernel's messages (kept to explain a failed boot).
TMPDIR=$backing setsid timeout --kill-after=5 "$limit" taskset -c "$core" "$kernel" uml_dir="$dir/" \
  mem="$memory" root=/dev/root rootfstype=hostfs ro init="$here/init.sh" ibcoll_dir="$dir" \
  loglevel=4 console=tty2 con=null con0=null,fd:3 con1=null,fd:4 con2=null,fd:5 \
  </dev/null 3>&1 4>&2 5>"$dir/kernel.log" >"$dir/boot.log" 2>&1 &
pid=$!
set +e
wait "$pid"
ended=$?
set -e
if [ -s "$dir/status" ]; then
  exit "$(cat "$dir/status")"
fi
if [ "$ended" = 124 ] || [ "$ended" = 137 ]; then
  echo "machine.sh: ended after $limit s" >&2
  tail -5 "$dir/kernel.log" >&2
  exit 124
fi
echo "machine.sh: the machine stopped before the command ended (status $ended):" >&2
cat "$dir/boot.log" "$dir/kernel.log" | tail -20 >&2
exit 1
