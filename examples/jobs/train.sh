#!/bin/sh -e
# Trains for some epochs. The first attempt dies after two.
epoch=${PAWL_LAST_HEARTBEAT:-0}
while [ "$epoch" -lt "$1" ]; do
  epoch=$((epoch + 1))
  echo "{\"pawl\": {\"heartbeat\": $epoch}}"
  if [ "$PAWL_ATTEMPT" = 1 ] && [ "$epoch" = 2 ]; then kill -9 $$; fi
done
echo "{\"loss\": 0.$((100 - epoch)), \"epochs\": $epoch}"
