#!/bin/sh -e
# Gives a part of the users, in percent, to a version.
echo "$1 $2" >> routes.txt
