#!/bin/sh -e
# Looks how a version does with its part of the users. Version 3 does badly when it has more than a few.
if [ "$1" = 3 ] && [ "$2" -gt 20 ]; then echo "4 of 100 requests fail"; exit 1; fi
