#!/bin/bash
# The systemd units load without a complaint, are sandboxed well enough, and the two services say the same.
set -u
cd "$(dirname "$0")/../.." || exit 1
for program in systemd-analyze systemd-sysusers; do
	command -v $program > /dev/null || { echo "$program is not installed: apt-get install systemd"; exit 77; }
done
exposure_max=25 # tenths
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bad=0
complain() {
	echo "$*"
	bad=1
}

# Copies whose programs exist on any machine: verify looks for them.
for unit in systemd/*.service systemd/*.socket; do
	sed -E 's,^(Exec[A-Za-z]+=)/usr/sbin/routerd,\1/bin/true,' "$unit" > "$scratch/$(basename "$unit")"
done
cp "$scratch/routerd@.service" "$scratch/routerd@blue.service"
for unit in routerd.service routerd@blue.service routerd.socket routerd-metrics.socket; do
	# Units of this machine that come along as dependencies may have faults of their own.
	out=$(systemd-analyze verify --man=no "$scratch/$unit" 2>&1 | grep -E 'routerd')
	[ -z "$out" ] || complain "systemd-analyze verify $unit: $out"
done
for unit in routerd.service routerd@blue.service; do
	out=$(systemd-analyze security --offline=true --no-pager --threshold=$exposure_max "$scratch/$unit" 2>&1) ||
		complain "systemd-analyze security: more than ${exposure_max%?}.${exposure_max#?}: $out"
	echo "${out##*$'\n'}"
done

# What routerd@.service must have otherwise, put back: the rest is equal line by line.
settings() { grep -vE '^(#|$)' "$1" | sort; }
other=$(settings systemd/routerd@.service | sed -e 's,/etc/routerd/%i\.ini,/etc/routerd/routerd.ini,' \
	-e 's,^RuntimeDirectory=routerd/%i$,RuntimeDirectory=routerd,' -e 's, in the network namespace %I$,,' \
	-e '/^NetworkNamespacePath=/d' | sort)
out=$(diff <(settings systemd/routerd.service | grep -v '^RuntimeDirectoryPreserve=') <(printf '%s\n' "$other")) ||
	complain "routerd.service and routerd@.service differ:
$out"

mkdir -p "$scratch/root/etc"
systemd-sysusers --root="$scratch/root" "$PWD/systemd/routerd.conf" > "$scratch/sysusers" 2>&1 &&
	grep -q '^routerd:' "$scratch/root/etc/passwd" && grep -q '^routerd:' "$scratch/root/etc/group" ||
	complain "systemd-sysusers: $(cat "$scratch/sysusers")"
exit $bad
