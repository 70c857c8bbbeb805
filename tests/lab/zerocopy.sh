#!/bin/bash
# Zero-copy for real, by hand, in a virtual machine whose router ports rt0, rt1 have a zero-copy driver and whose plain
# ports h0, h1 are wired to them (HACKING.md says how such a machine is started). Runs routerd between both, pings both
# families, sends COUNT numbered UDP packets each way and counts every one at the far end.
#   zerocopy.sh BINDIR [COUNT]
set -u
bin=$1 count=${2:-10000}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d /run/zerocopy.XXXXXX)
modprobe -a tun sch_ingress cls_bpf act_mirred
for i in 0 1; do
	ip netns add "zc$i"
	ip link set "h$i" netns "zc$i"
	ip -n "zc$i" link set lo up
	ip netns exec "zc$i" ethtool -K "h$i" tx off tso off gso off gro off > /dev/null 2>&1
	ip -n "zc$i" link set "h$i" promisc on up
	ip -n "zc$i" addr add "10.$i.0.2/24" dev "h$i"
	ip -n "zc$i" -6 addr add "fd00:$i::2/64" dev "h$i" nodad
	ip -n "zc$i" route add default via "10.$i.0.1"
	ip -n "zc$i" -6 route add default via "fd00:$i::1"
	ip link set "rt$i" up
	ip addr add "10.$i.0.1/24" dev "rt$i"
	ip -6 addr add "fd00:$i::1/64" dev "rt$i" nodad
done
sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
cat > "$work/routerd.ini" <<INI
[router]
workers = ${ZC_WORKERS:-2}
[memory]
size = 64M
[port rt0]
mode = ${ZC_MODE0:-zero-copy}
[port rt1]
mode = ${ZC_MODE1:-zero-copy}
[control]
socket = $work/control.sock
[metrics]
listen = off
INI
ctl() { "$bin/routerctl" --socket "$work/control.sock" "$@"; }
"$bin/routerd" -c "$work/routerd.ini" > "$work/log" 2>&1 &
pid=$!
for _ in $(seq 300); do
	grep -q ready "$work/log" && [ "$(cat /sys/class/net/rt[01]/carrier | tr -d '\n')" = 11 ] && break
	kill -0 $pid 2> /dev/null || break
	sleep 0.1
done
cat "$work/log"
bad=0
for a in 10.1.0.2 fd00:1::2; do ip netns exec zc0 ping -c 5 -i 0.3 -W 3 $a || bad=1; done
for to in 0 1; do
	ip netns exec "zc$to" /usr/bin/python3 "$here/zerocopy_udp.py" sink "$count" > "$work/sink$to" &
done
sleep 2
ip netns exec zc0 /usr/bin/python3 "$here/zerocopy_udp.py" send "$count" 10.1.0.2 "${ZC_RATE:-1000}" &
s0=$!
ip netns exec zc1 /usr/bin/python3 "$here/zerocopy_udp.py" send "$count" 10.0.0.2 "${ZC_RATE:-1000}" &
s1=$!
wait $s0 $s1
for _ in $(seq 100); do [ -s "$work/sink0" ] && [ -s "$work/sink1" ] && break; sleep 0.1; done
for i in 0 1; do
	echo "h$i: $(cat "$work/sink$i")"
	grep -q "^got $count of $count, corrupt 0$" "$work/sink$i" || bad=1
done
ctl port; ctl queue; ctl stats; ctl frames; ctl drops
ctl -j port | grep -q '"zero_copy": *true' || bad=1
ctl -j frames | grep -q '"balanced": *true' || bad=1
grep ForwDatagrams -A1 /proc/net/snmp > /dev/null && awk '/^Ip:/ && n++ { print "kernel ForwDatagrams " $7 }' /proc/net/snmp
kill $pid
wait $pid
rc=$?
echo "routerd ended with $rc; left: $(ip -o link | grep -cE 'prog/xdp|routerd')"
tail -n 3 "$work/log"
dmesg | grep -E 'WARNING|BUG|Oops' | head -n 5
[ $bad = 0 ] && [ $rc = 0 ]
