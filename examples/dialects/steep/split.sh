#!/bin/sh
# split.sh TEXT FOLDER
n=0
for word in $1; do n=$((n + 1)); printf %s "$word" > "$2/$n.part"; done
echo "split into $n parts"
