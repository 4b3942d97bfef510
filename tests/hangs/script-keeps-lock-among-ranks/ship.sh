#!/bin/sh
# appends rotated logs to the store; names come on stdin
store=$1
exec 9>"$store/.lock"
flock 9
while read -r name; do
    if [ -f "$name" ]; then
        cat "$name" >> "$store/all.log"
    fi
    echo "$name" >> "$store/shipped.txt"
done
