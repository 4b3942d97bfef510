#!/bin/bash
# The names of parts that are done go to an indexer, through a named pipe.
set -eu
mkfifo names
"$1" job.py index < names &
"$1" job.py make 20 &
one=$!
"$1" job.py make 40 &
other=$!
exec 5> names
wait "$one"
echo "one" >&5
wait "$other"
echo "other" >&5
