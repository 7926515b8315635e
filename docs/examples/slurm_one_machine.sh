#!/bin/bash
# Sets up a Slurm of one node on this machine (Debian: slurm-wlm, munge; as root) with all its state
# in a directory of its own, runs a command in it and takes it down. Nothing in /etc is touched but
# munge's key, which its package makes.
#   slurm_one_machine.sh DIRECTORY COMMAND [ARGUMENT...]
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: slurm_one_machine.sh DIRECTORY COMMAND [ARGUMENT...]" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "slurm_one_machine.sh: needs root, for munged and slurmd" >&2; exit 1; }
dir=$1 && shift
mkdir -p "$dir/spool" "$dir/state" && dir=$(cd "$dir" && pwd)
host=$(hostname -s)
[ -f /etc/munge/munge.key ] || mungekey --create
cat >"$dir/slurm.conf" <<END
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
CredType=cred/munge
SlurmctldPort=16817
SlurmdPort=16818
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
MpiDefault=none
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES OverSubscribe=YES:16 State=UP
END
export SLURM_CONF=$dir/slurm.conf
processes=()
stop() { [ ${#processes[@]} -eq 0 ] || kill "${processes[@]}" 2>/dev/null || true; wait; }
trap stop EXIT
# munged wants directories that nobody else may write to, under its own user.
chown munge: /etc/munge/munge.key
munged --foreground --force --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" \
  --log-file="$dir/munged.log" --seed-file="$dir/munged.seed" --key-file=/etc/munge/munge.key \
  2>"$dir/munged.err" &
processes+=($!)
for _ in $(seq 50); do [ -S "$dir/munge.socket" ] && break; sleep 0.1; done
slurmctld -D -i 2>"$dir/slurmctld.err" & processes+=($!)
slurmd -D 2>"$dir/slurmd.err" & processes+=($!)
for _ in $(seq 100); do
  case $(sinfo -h -o %T 2>/dev/null) in idle) break ;; esac
  sleep 0.2
done
status=0
"$@" || status=$?
exit $status
