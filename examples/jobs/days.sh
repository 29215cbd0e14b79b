#!/bin/sh -e
# Prints for how many days the certificate of a domain counts.
cat "days/$1"
