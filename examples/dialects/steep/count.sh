#!/bin/sh
# count.sh [--verbose] --in PART --out FILE
[ "$1" = --verbose ] && shift && echo "counting $2"
if [ "$PAWL_ATTEMPT" = 1 ]; then echo "not yet" >&2; exit 1; fi
wc -c < "$2" | tr -d ' ' > "$4"
