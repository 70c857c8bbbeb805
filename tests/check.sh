#!/bin/bash
# Runs every test of the project, layer by layer, and closes with one line: N passed, N failed, N skipped.
# Called by `make check` after tests/deps.sh. Environment:
#   ROUTERD_LAYERS   the layers to run (default: all, see below)      e.g. ROUTERD_LAYERS="unit replay" make check
#   ROUTERD_TEST_SEED  fixes the seed of the random tests (each prints the one it used)
set -u
cd "$(dirname "$0")/.." || exit 1
export PATH=/usr/sbin:/sbin:/usr/bin:/bin:$PATH
python=/usr/bin/python3
build=${O:-build}
layers=${ROUTERD_LAYERS:-lint unit replay bpf fuzz asan tsan lab lab-asan}
logs=$(mktemp -d /tmp/routerd-check.XXXXXX)
passed=0 failed=0 skipped=0
jobs=$(nproc)
trap 'rm -rf "$logs"' EXIT

has() { case " $layers " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }
stamp() { printf '== %s (%d s)\n' "$*" "$SECONDS"; }
bad() { failed=$((failed + 1)); printf 'FAILED  %s\n' "$*"; }
skip() { skipped=$((skipped + 1)); printf 'SKIPPED %s\n' "$*"; }

# build DIR [SAN]: the program and all test programs; a build that fails is one failed test
build() {
	local log=$logs/build-${1//\//_}
	if make -s -j"$jobs" O="$1" SAN="${2:-}" all tests > "$log" 2>&1; then
		return 0
	fi
	bad "build in $1"
	grep -E 'error|Error|undefined' "$log" | head -n 30
	return 1
}

# run_c LABEL PROGRAM: a test program; cmocka's tests are counted one by one, anything else counts as one
run_c() {
	local log rc ok notok skips
	log=$logs/$(basename "$2")-$1
	CMOCKA_MESSAGE_OUTPUT=TAP timeout 600 "$2" > "$log" 2>&1 < /dev/null
	rc=$?
	if [ $rc = 77 ]; then
		skip "$1 $(basename "$2"): $(tail -n 1 "$log")"
		return
	fi
	# cmocka 1.1.5 writes a skipped test as "not ok N # SKIP name", later ones as "ok N # SKIP name"
	skips=$(grep -cE '^(not )?ok [0-9]+.*# SKIP' "$log")
	ok=$(grep -E '^ok [0-9]+' "$log" | grep -cv '# SKIP')
	notok=$(grep -E '^not ok [0-9]+' "$log" | grep -cv '# SKIP')
	[ $((ok + notok + skips)) -gt 0 ] || { [ $rc = 0 ] && ok=1; }
	[ $rc = 0 ] || [ "$notok" -gt 0 ] || notok=1
	passed=$((passed + ok)) failed=$((failed + notok)) skipped=$((skipped + skips))
	[ "$skips" = 0 ] || grep -E '^(not )?ok [0-9]+.*# SKIP' "$log" | sed "s/^/SKIPPED $1 /"
	if [ "$notok" -gt 0 ]; then
		printf 'FAILED  %s %s (exit %d): seed and last lines:\n' "$1" "$(basename "$2")" $rc
		grep -iE 'seed' "$log" | head -n 3
		grep -E '^not ok' "$log" | head -n 20
		tail -n 40 "$log" | sed 's/^/    /'
	else
		printf 'ok      %s %s: %d\n' "$1" "$(basename "$2")" "$ok"
	fi
}

# run_lab LABEL BINDIR PYTEST-ARGUMENTS...: the lab, counted from pytest's own report
run_lab() {
	local label=$1 bindir=$2 log=$logs/$1 xml=$logs/$1.xml counts
	shift 2
	ROUTERD_BINDIR=$bindir timeout 1500 $python -m pytest -q -p no:cacheprovider --tb=short --junitxml="$xml" \
		-rs tests/lab "$@" > "$log" 2>&1 < /dev/null
	# exit 1: tests failed, they are counted below; anything else but 0 is a failure of the run itself
	case $? in 0 | 1) ;; *) bad "$label: pytest did not finish" ;; esac
	counts=$($python - "$xml" <<'P'
import sys, xml.etree.ElementTree as e
try:
    s = [x for x in e.parse(sys.argv[1]).getroot().iter('testsuite')][0].attrib
    bad = int(s['failures']) + int(s['errors']); sk = int(s['skipped'])
    print(int(s['tests']) - bad - sk, bad, sk)
except Exception:
    print(0, 1, 0)
P
	)
	read -r ok notok skips <<< "$counts"
	passed=$((passed + ok)) failed=$((failed + notok)) skipped=$((skipped + skips))
	grep -E '^SKIPPED' "$log"
	if [ "$notok" -gt 0 ]; then
		printf 'FAILED  %s: %d\n' "$label" "$notok"
		tail -n 150 "$log" | sed 's/^/    /'
	else
		printf 'ok      %s: %d\n' "$label" "$ok"
	fi
}

if [ "$(id -u)" != 0 ]; then
	skip "bpf, lab and every test that needs namespaces: not root (run as root)"
	layers=$(printf '%s' "$layers" | sed -E 's/\b(bpf|lab-asan|lab)\b//g')
fi

stamp "build"
build "$build" || layers=lint
if has lint; then
	stamp "lint"
	for check in tests/lint/*.sh tests/lint/*.py; do
		[ -e "$check" ] || continue
		case $check in *.py) run=$python ;; *) run=bash ;; esac
		log=$logs/$(basename "$check")
		O=$build $run "$check" > "$log" 2>&1 < /dev/null
		case $? in
		0) passed=$((passed + 1)); echo "ok      $check" ;;
		77) skip "$check: $(tail -n 1 "$log")" ;;
		*) bad "$check"; sed 's/^/    /' "$log" | head -n 60 ;;
		esac
	done
fi
for layer in unit replay bpf fuzz; do
	has $layer || continue
	stamp "$layer"
	[ $layer != unit ] || export ROUTERD_TEST_LARGE=1  # 1,250,000 real routes
	stem=$layer
	[ $layer != unit ] || stem="test"
	for t in "$build"/tests/"$stem"_*; do
		[ -x "$t" ] && STEER_OBJECT=$build/bpf/steer.bpf.o DELIVER_OBJECT=$build/bpf/deliver.bpf.o run_c $layer "$t"
	done
done
for san in asan tsan; do
	has $san || continue
	stamp "$san"
	case $san in asan) flags=address,undefined ;; tsan) flags=thread ;; esac
	build "$build-$san" $flags || continue
	export ROUTERD_TEST_SMALL=1
	unset ROUTERD_TEST_LARGE
	stems="test replay fuzz"
	[ $san != tsan ] || stems="test replay"  # the fuzz targets have one thread
	for t in $(for stem in $stems; do echo "$build-$san/tests/${stem}"_*; done); do
		[ -x "$t" ] && run_c $san "$t"
	done
	unset ROUTERD_TEST_SMALL
done
if has lab; then
	stamp "lab"
	run_lab lab "$build"
fi
if has lab-asan && [ -x "$build-asan/routerd" ]; then
	stamp "lab with the address and undefined sanitizers"
	run_lab lab-asan "$build-asan" -m sanitizer
fi
has lab && $python tests/lab/clean.py
stamp "done"
if [ $skipped -gt 0 ]; then
	echo "$passed passed, $failed failed, $skipped skipped"
else
	echo "$passed passed, $failed failed"
fi
[ $failed = 0 ]
