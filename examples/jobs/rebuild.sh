#!/bin/sh -e
# Builds what is released from its source again, into a folder.
cat unpacked/main.txt > "$1/app"
