#!/bin/bash
# Installs by apt what building and testing need and what is missing. Quiet; retried, because mirrors hiccup.
set -u
packages=(
	build-essential pkg-config clang llvm bpftool git
	libbpf-dev libxdp-dev libmnl-dev libsystemd-dev libinih-dev libjansson-dev libmicrohttpd-dev liburcu-dev libcmocka-dev
	systemd systemd-container iproute2 ethtool iputils-ping iperf3 tcpdump traceroute procps kmod
	python3 python3-scapy python3-pytest bird2 frr prometheus valgrind shellcheck
)
missing=()
for p in "${packages[@]}"; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ]; then
	echo "missing packages: ${missing[*]}" >&2
	echo "cure: run as root, or: apt-get install ${missing[*]}" >&2
	exit 1
fi
# Daemons that come with test packages (bird, frr, prometheus) must not start on this machine.
policy=/usr/sbin/policy-rc.d
made=
if [ ! -e $policy ]; then
	printf '#!/bin/sh\nexit 101\n' > $policy && chmod 755 $policy && made=1
fi
trap '[ -z "$made" ] || rm -f $policy' EXIT
export DEBIAN_FRONTEND=noninteractive
echo "installing: ${missing[*]}"
for try in 1 2 3; do
	log=$(mktemp)
	if { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } > "$log" 2>&1 < /dev/null; then
		rm -f "$log"
		exit 0
	fi
	echo "apt-get failed (try $try of 3):" >&2
	tail -n 5 "$log" >&2
	rm -f "$log"
	sleep $((try * 5))
done
exit 1
