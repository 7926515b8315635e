#!/bin/bash
# servers.sh N [MTU [routed]]: inside the machine, makes N "servers": N veth links, each with a
# Soft-RoCE device rxe1..rxeN, joined by the namespace "sw": by a bridge (addresses 10.77.0.1..N) or,
# if routed, by a router, each server in a subnet of its own (10.77.1.1, 10.77.2.1, ...). The devices
# live in the first network namespace (rxe works in no other); policy routing makes packets between
# them cross the links instead of looping back. Lose packets or shape a link with tc: eI is server
# I's own port, vI (in "sw") the switch's port to it.
set -e
servers=$1
mtu=${2:-4200}
routed=${3:-}
address() { if [ -n "$routed" ]; then echo "10.77.$1.1"; else echo "10.77.0.$1"; fi; }
ip netns add sw
if [ -n "$routed" ]; then
  ip netns exec sw sysctl -qw net.ipv4.ip_forward=1
else
  ip -n sw link add br0 type bridge
  ip -n sw link set br0 mtu "$mtu" up
fi
sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
ip rule add pref 100 lookup local
ip rule del pref 0
for i in $(seq "$servers"); do
  own=$(address "$i")
  ip link add "e$i" type veth peer name "v$i" netns sw
  ip -n sw link set "v$i" mtu "$mtu" up
  if [ -n "$routed" ]; then
    ip -n sw addr add "10.77.$i.254/24" dev "v$i"
  else
    ip -n sw link set "v$i" master br0
  fi
  ip link set "e$i" mtu "$mtu" up
  ip addr add "$own/24" dev "e$i"
  sysctl -qw "net.ipv4.conf.e$i.accept_local=1" "net.ipv4.conf.e$i.rp_filter=0" \
    "net.ipv4.conf.e$i.arp_ignore=1" "net.ipv4.conf.e$i.arp_announce=2"
  ip rule add pref 10 iif "e$i" lookup local
  ip rule add pref $((20 + i)) iif lo from "$own" to 10.77.0.0/16 lookup $((100 + i))
  if [ -n "$routed" ]; then
    ip route add "10.77.$i.254/32" dev "e$i" src "$own" table $((100 + i))
    ip route add default via "10.77.$i.254" dev "e$i" src "$own" table $((100 + i))
    # For who names a device instead of an address: the kernel where it checks who asks for a
    # connection by librdmacm.
    ip route add 10.77.0.0/16 via "10.77.$i.254" dev "e$i" src "$own" metric "$i"
  else
    for j in $(seq "$servers"); do
      [ "$j" = "$i" ] || ip route add "$(address "$j")/32" dev "e$i" src "$own" table $((100 + i))
    done
  fi
  ip rule add pref 9 iif lo from "$own" to "$own" lookup local
  rdma link add "rxe$i" type rxe netdev "e$i"
done
