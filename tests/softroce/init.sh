#!/bin/bash
# Process 1 of the Soft-RoCE machine. Its root is the host's own (hostfs, read-only); what is
# written goes to memory. machine.sh starts it and hands over a directory (ibcoll_dir=DIR) with
#   settings   shell lines: SERVERS, MTU, ROUTED, WRITABLE
#   command    the script to run; its standard output goes to the first console, errors to the second
#   status     written here: the exit status (the kernel's own says nothing)
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc # first: until then /proc shows the host's
mount -t sysfs sys /sys
mount -t debugfs debug /sys/kernel/debug
grep -q ' /dev devtmpfs' /proc/mounts || mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t devpts devpts /dev/pts
dir=$(sed -n 's/.*ibcoll_dir=\([^ ]*\).*/\1/p' /proc/cmdline)
mount -t hostfs -o "$dir" none "$dir"
. "$dir/settings"
for writable in $WRITABLE; do
  mount -t hostfs -o "$writable" none "$writable"
done
mount -t tmpfs tmpfs /run
mkdir -p /run/netns
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
[ ! -f "$dir/cpuinfo" ] || mount --bind "$dir/cpuinfo" /proc/cpuinfo # perftest reads "cpu MHz"
ulimit -l unlimited
ulimit -c 0
ip link set lo up
echo softroce >/proc/sys/kernel/hostname # launchers want a name
for console in tty0 tty1; do
  stty -F /dev/$console raw -echo # output as it is written, no CR added
done
{
  if bash "$(dirname "$0")/servers.sh" "$SERVERS" "$MTU" $ROUTED; then
    bash "$dir/command" >/dev/tty0
    status=$?
  else
    echo "softroce: setting up $SERVERS servers failed"
    status=1
  fi
} 2>/dev/tty1 </dev/null
echo $status >"$dir/status"
stty -F /dev/tty0 2>/dev/null # the console's last bytes are out when it answers
sync
busybox poweroff -f
