#!/bin/sh -e
# Renews the certificate of a domain. The issuer of api.example is busy at first, and that of old.example knows it no more.
case $1 in
  api.example) if [ "$PAWL_ATTEMPT" = 1 ]; then exit 75; fi ;;
  old.example) echo "no such domain"; exit 1 ;;
esac
echo 90 > "days/$1"
