#!/bin/sh -e
# Tells somebody something. A real one sends a message.
echo "$1: $2" >> told.txt
