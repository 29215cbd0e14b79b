#!/bin/sh
# A worker for Pawl with curl and sed: sh worker.sh [SERVER] [QUEUE]
#
# It executes one task after the other. On SIGTERM it finishes what it has. A server that asks for a token gets that of
# the variable PAWL_TOKEN.
server=${1:-${PAWL_SERVER:-http://127.0.0.1:7295}}
queue=${2:-reports}
trap 'stopping=1' TERM
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
header=$folder/header # a file, since others on the machine see the words of a command
printf %s "${PAWL_TOKEN:+Authorization: Bearer $PAWL_TOKEN}" >"$header"

# try PATH BODY: sends a request and prints the answer. Status 1: it is refused, since the attempt has ended, the token is
# wrong, or it makes no sense. Status 2: the server does not answer, or cannot take it now.
try() {
  code=$(curl -sS --max-time 90 -o "$folder/answer" -w '%{http_code}' -H "@$header" --json "$2" "$server/api/v1$1")
  case $code in
    2*) cat "$folder/answer" ;;
    000 | 429 | 5*) return 2 ;;
    *) cat "$folder/answer" >&2; return 1 ;;
  esac
}

# post PATH BODY: the same, again and again until the server takes it or refuses it.
post() {
  while :; do
    try "$1" "$2" && return
    [ $? -eq 2 ] || return 1
    sleep 1
  done
}

# text NAME: the value of the first field of that name on stdin; number NAME: the same of a number
text() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" | head -n 1; }
number() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" | head -n 1; }

echo "executing tasks of $queue"
while [ -z "$stopping" ]; do
  answer=$(try /tasks/poll "{\"queue\":\"$queue\",\"worker\":\"shell $$\",\"types\":[\"Render\"],\"wait\":\"5s\"}")
  case $? in
    1) exit 1 ;;
    2) sleep 1 && continue ;;
  esac
  task=$(printf %s "$answer" | text task)
  [ -n "$task" ] || continue
  pages=$(printf %s "$answer" | number pages)
  page=$(printf %s "$answer" | number page) # of the attempt before this one
  page=${page:-0}
  while [ "$page" -lt "$pages" ]; do
    sleep 0.2
    page=$((page + 1))
    told=$(post "/tasks/$task/heartbeat" "{\"details\":{\"page\":$page}}") || continue 2 # it has ended
    if [ -n "$(printf %s "$told" | text stop)" ]; then
      echo "stopped: $(printf %s "$told" | text stop)"
      post "/tasks/$task/stopped" '{}'
      continue 2
    fi
  done
  post "/tasks/$task/complete" "{\"output\":{\"rendered\":$pages}}" || echo "a report came too late"
done
