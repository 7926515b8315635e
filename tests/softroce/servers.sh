#!/bin/bash
# servers.sh N [MTU]: inside the machine, makes N "servers": N veth links, each with a Soft-RoCE
# device rxe1..rxeN (addresses 10.77.0.1..N), joined by a bridge in the namespace "sw". The devices
# live in the first network namespace (rxe works in no other); policy routing makes packets between
# them cross the links instead of looping back. Lose packets or shape a link with tc: eI is server
# I's own port, vI (in "sw") the switch's port to it.
set -e
servers=$1
mtu=${2:-4200}
ip netns add sw
ip -n sw link add br0 type bridge
ip -n sw link set br0 mtu "$mtu" up
sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
ip rule add pref 100 lookup local
ip rule del pref 0
for i in $(seq "$servers"); do
  ip link add "e$i" type veth peer name "v$i" netns sw
  ip -n sw link set "v$i" mtu "$mtu" master br0 up
  ip link set "e$i" mtu "$mtu" up
  ip addr add "10.77.0.$i/24" dev "e$i"
  sysctl -qw "net.ipv4.conf.e$i.accept_local=1" "net.ipv4.conf.e$i.rp_filter=0" \
    "net.ipv4.conf.e$i.arp_ignore=1" "net.ipv4.conf.e$i.arp_announce=2"
  ip rule add pref 10 iif "e$i" lookup local
  ip rule add pref $((20 + i)) iif lo from "10.77.0.$i" to 10.77.0.0/24 lookup $((100 + i))
  for j in $(seq "$servers"); do
    [ "$j" = "$i" ] || ip route add "10.77.0.$j/32" dev "e$i" src "10.77.0.$i" table $((100 + i))
  done
  ip rule add pref 9 iif lo from "10.77.0.$i" to "10.77.0.$i" lookup local
  rdma link add "rxe$i" type rxe netdev "e$i"
done
