#!/bin/sh -e
# Builds the program for a system and a processor. It does not build for aix, and that for darwin is busy at first.
case $1 in
  aix) echo "no such system call"; exit 1 ;;
  darwin) if [ "$PAWL_ATTEMPT" = 1 ]; then echo "busy"; exit 75; fi ;;
esac
mkdir -p built
echo "the program for $1" > "built/$1-$2"
