#!/bin/sh
# A worker for Pawl with curl and sed: sh worker.sh [SERVER] [QUEUE]
#
# It executes one task after the other. curl ends with status 22 where the server refuses something. On SIGTERM it
# finishes what it has.
server=${1:-${PAWL_SERVER:-http://127.0.0.1:7295}}
queue=${2:-reports}
trap 'stopping=1' TERM

post() { curl -sS --fail --max-time 90 --retry 100 --retry-all-errors --retry-delay 1 --json "$2" "$server/api/v1$1"; }
once() { curl -sS --fail --max-time 10 --json "$2" "$server/api/v1$1"; }

# text NAME: the value of the first field of that name on stdin; number NAME: the same of a number
text() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" | head -n 1; }
number() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" | head -n 1; }

echo "executing tasks of $queue"
while [ -z "$stopping" ]; do
  answer=$(post /tasks/poll "{\"queue\":\"$queue\",\"worker\":\"shell $$\",\"types\":[\"Render\"],\"wait\":\"5s\"}") || continue
  task=$(printf %s "$answer" | text task)
  [ -n "$task" ] || continue
  pages=$(printf %s "$answer" | number pages)
  page=$(printf %s "$answer" | number page) # of the attempt before this one
  page=${page:-0}
  while [ "$page" -lt "$pages" ]; do
    sleep 0.2
    page=$((page + 1))
    told=$(once "/tasks/$task/heartbeat" "{\"details\":{\"page\":$page}}")
    if [ $? -eq 22 ] || [ -n "$(printf %s "$told" | text stop)" ]; then
      echo "stopped: $(printf %s "$told" | text stop)"
      once "/tasks/$task/stopped" '{}'
      continue 2
    fi
  done
  post "/tasks/$task/complete" "{\"output\":{\"rendered\":$pages}}" || echo "a report came too late"
done
