#!/bin/sh -e
# Prints the data as it is now.
cat source.json
