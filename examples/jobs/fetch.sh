#!/bin/sh -e
# Fetches a file of a release. The first attempt of a day fails, as real ones do.
test -e fetched || { touch fetched; echo "the server is busy" >&2; exit 1; }
cp "releases/$1/$2" "$2"
