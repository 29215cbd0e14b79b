#!/bin/sh
# sum.sh FILE NUMBERS...
out=$1
shift
total=0
for f in "$@"; do total=$((total + $(cat "$f"))); done
echo "$total" > "$out"
echo "total=$total" >> "$PAWL_OUTPUT"
