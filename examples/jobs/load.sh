#!/bin/sh -e
# Loads one file. Exit code 75 says that another try may help.
if grep -q '^later' "$1" && [ "$PAWL_ATTEMPT" = 1 ]; then exit 75; fi
grep -q '^id,' "$1" || { echo "no header" >&2; exit 2; }
echo "rows=$(($(wc -l < "$1") - 1))" >> "$PAWL_OUTPUT"
