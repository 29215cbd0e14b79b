#!/bin/sh
# The sample program that the flows of this folder build.
echo "hello from ${VERSION:-a checkout}"
