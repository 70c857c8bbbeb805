#!/bin/bash
# The engine benchmark: instructions per forwarded packet on memory ports, in total and by stage, by callgrind.
# Arguments: the build directory (default: build); environment: ROUTES (default 1000000), PACKETS (6400).
# Instructions, not time: they are the same on every machine and every run.
set -u
build=${1:-build}
routes=${ROUTES:-1000000}
packets=${PACKETS:-6400}
program=$build/tests/bench_engine
[ -x "$program" ] || program=$build/bench_engine
out=$(mktemp -d /tmp/routerd-bench.XXXXXX)
trap 'rm -rf "$out"' EXIT

command -v valgrind > /dev/null || { echo "valgrind is missing: apt-get install valgrind"; exit 77; }
[ -x "$program" ] || { echo "$program is missing: make tests"; exit 1; }

# split FILE: sums of callgrind_annotate's "instructions file:function" lines, by stage
split() {
	callgrind_annotate --auto=no --threshold=100 "$1" | awk -v packets="$packets" '
		!/^ *[0-9,]+ \(/ { next }
		/PROGRAM TOTALS/ { n = $1; gsub(",", "", n); total = n; next }
		{
			line = $0
			sub(/^ *[0-9,]+ \( *[0-9.]+%\) */, "", line)
			sub(/ \[.*/, "", line)
			n = $1; gsub(",", "", n)
			if (line ~ /lpm[46]\.|popcount/) s = "look-up"
			else if (line ~ /neigh/) s = "neighbour"
			else if (line ~ /flow_hash|select_by_hash|hash_key|set_l[34]/) s = "flow hash"
			else if (line ~ /stage_rewrite|rewrite_|retag|trim/) s = "rewrite"
			else if (line ~ /:(stage_parse|parse_|look_up_ingress|vlan_iface)|fib_vlan/) s = "parse"
			else if (line ~ /stage_route|take_path|add_egress|check_|special|route/) s = "route"
			else if (line ~ /stage_transmit|tally|finish|put_/) s = "transmit"
			else if (line ~ /rx_burst|refill|alloc_fill|collect/) s = "port: receive, refill"
			else if (line ~ /tx_|transmit|submit|complete/) s = "port: send, complete"
			else s = "loop and rest"
			sum[s] += n
		}
		END {
			order = "parse,look-up,route,flow hash,neighbour,rewrite,transmit,port: receive|refill,port: send|complete,loop and rest"
			count = split(order, names, ",")
			for (i = 1; i <= count; i++) {
				name = names[i]; sub(/\|/, ", ", name)
				if (i <= 7) engine += sum[name]
				if (sum[name]) printf "  %-24s %7.1f\n", name, sum[name] / packets
			}
			printf "  %-24s %7.1f   stages alone %.1f\n", "total", total / packets, engine / packets
		}'
}

# measure TEXT ARGUMENTS...
measure() {
	local text=$1
	shift
	echo "$text"
	if ! valgrind --tool=callgrind --toggle-collect=measured_loop --callgrind-out-file="$out/cg" \
		"$program" -n "$packets" -r "$routes" "$@" > "$out/log" 2>&1; then
		cat "$out/log"
		exit 1
	fi
	split "$out/cg"
}

echo "instructions per forwarded packet, 64-byte UDP, batches of 64, $routes routes"
measure "IPv4, 256 flows" -f 256
measure "IPv4, 1 flow" -f 1
measure "IPv6, 256 flows" -6 -f 256
measure "IPv4, 256 flows, two paths by hash policy 1" -m -f 256
measure "IPv4, 256 flows, tag added" -v -f 256
echo "time, not under valgrind (this machine):"
for arguments in "-f 256" "-f 1" "-6 -f 256" "-m -f 256" "-v -f 256"; do
	# shellcheck disable=SC2086
	printf '  %-12s ' "$arguments"; "$program" -n 2000000 -r "$routes" $arguments || exit 1
done
