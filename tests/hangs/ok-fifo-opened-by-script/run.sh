#!/bin/sh
# Opens the named pipe for each report, 25 s after the one before.
mkfifo reports
(
  for hour in 1 2 3; do
    sleep 25
    echo "hour $hour" >reports
  done
) &
"$1" job.py
wait
