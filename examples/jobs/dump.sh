#!/bin/sh
# Prints a dump of a database. The first call of a day fails, as real ones do.
test -n "$PASSWORD"
test -e dumped || { touch dumped; echo "the server is busy" >&2; exit 1; }
echo "-- $1"
echo "INSERT INTO orders VALUES (1);"
echo "INSERT INTO orders VALUES (2);"
