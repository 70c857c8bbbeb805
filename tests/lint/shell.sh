#!/bin/bash
# The program shellcheck finds nothing in our shell scripts.
command -v shellcheck > /dev/null || { echo "shellcheck is not installed"; exit 77; }
mapfile -t scripts < <(git ls-files -co --exclude-standard | while read -r f; do
	[ -f "$f" ] && head -c 64 "$f" 2> /dev/null | grep -qE '^#!.*\b(ba)?sh\b' && echo "$f"
done)
shellcheck -S warning "${scripts[@]}"
